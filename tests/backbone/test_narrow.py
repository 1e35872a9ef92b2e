"""Very narrow ResNets, whose shortcuts crash oneDNN where images have their channels last in memory."""

import pytest
import torch
from torch import nn

from fcl_bench.backbone import BackboneSource
from fcl_bench.backbone.transforms import Normalise, channels_may_be_last
from fcl_bench.new_processes import quick_context


def gradients() -> None:
    """In a process of its own, as what it guards against can crash or hang."""
    images = torch.randint(256, (5, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    for width in (2, 3, 4, 6):
        source = BackboneSource("resnet18_small", "none", 32, trainable=True, stem="cifar", width=width)
        network = source.network()
        network(images).square().sum().backward()
        exact = source.network()
        exact.model.double()
        exact.model(exact.normalise(images).double()).square().sum().backward()
        for stage in ("layer2", "layer3", "layer4"):
            found, expected = (getattr(each.model, stage)[0].downsample[0].weight.grad for each in (network, exact))
            assert (found - expected).norm() < 1e-3 * expected.norm(), f"width {width}, {stage}"


def test_gradients_of_narrow_resnets_are_right() -> None:
    process = quick_context().Process(target=gradients)
    process.start()
    process.join(200)
    process.kill()
    process.join()
    assert process.exitcode == 0  # what failed is told on stderr


@pytest.mark.parametrize(("width", "safe"), [(2, False), (4, False), (8, True), (16, True)])
def test_only_networks_that_need_it_lose_the_faster_order(width: int, safe: bool) -> None:
    network = BackboneSource("resnet18_small", "none", 32, trainable=True, stem="cifar", width=width).network()
    images = network.normalise(torch.zeros(2, 3, 32, 32, dtype=torch.uint8))
    assert images.is_contiguous(memory_format=torch.channels_last) == safe
    assert images.is_contiguous() != safe


def test_what_is_dangerous_is_a_1x1_convolution_with_a_stride_and_few_channels() -> None:
    dangerous = nn.Conv2d(7, 16, 1, stride=2)
    others = [nn.Conv2d(8, 16, 1, stride=2), nn.Conv2d(7, 16, 1), nn.Conv2d(3, 16, 3, stride=2), nn.Linear(4, 4)]
    assert channels_may_be_last(nn.Sequential(*others))
    assert not channels_may_be_last(nn.Sequential(*others, nn.Sequential(dangerous)))


def test_both_orders_hold_the_same_numbers() -> None:
    images = torch.randint(256, (2, 3, 4, 5), dtype=torch.uint8)
    mean, std = (0.5, 0.1, 0.2), (0.5, 0.2, 4.0)
    assert torch.equal(Normalise(mean, std)(images), Normalise(mean, std, channels_last=False)(images))
