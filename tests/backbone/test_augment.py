"""Augmentations, compared with torchvision's and with what can be seen by eye."""

import pytest
import torch
from torch import Tensor, nn
from torchvision.transforms import ColorJitter, RandomResizedCrop
from torchvision.transforms.v2.functional import adjust_brightness, horizontal_flip, resized_crop

from fcl_bench import Network
from fcl_bench.backbone import BackboneSource
from fcl_bench.backbone.transforms import AUGMENTATIONS, Brightness, CropFlip, ResizedCropFlip, random_parts


def noise(n: int, height: int = 32, width: int = 32) -> Tensor:
    return torch.randint(0, 256, (n, 3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def made(module: torch.nn.Module, images: Tensor, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    return module(images)


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_every_augmentation_keeps_the_form_repeats_by_seed_and_stops_for_evaluation(name: str) -> None:
    module, images = AUGMENTATIONS[name](), noise(20, 24, 30)
    found = made(module, images)
    assert (found.shape, found.dtype) == (images.shape, torch.uint8)
    assert torch.equal(found, made(module, images))
    assert torch.equal(found, made(module, images, 1)) == (name == "none")
    assert torch.equal(made(module.eval(), images), images)
    assert not module.state_dict()


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_a_network_augments_while_it_trains(name: str) -> None:
    source = BackboneSource("test_efficientnet", "none", 32, augment=name, trainable=True)
    network = Network(source.for_methods((3, 32, 32)))
    assert isinstance(network.augment, type(AUGMENTATIONS[name]()))
    assert torch.equal(network.eval().augment(noise(4)), noise(4))
    frozen = BackboneSource("test_efficientnet", "none", 32, augment=name, clients_hold="images")
    assert isinstance(Network(frozen.for_methods((3, 32, 32))).augment, nn.Identity)


def test_brightness_changes_each_image_by_one_factor_between_192_and_318_over_255() -> None:
    images = torch.full((3000, 3, 2, 2), 200, dtype=torch.uint8)
    found = made(Brightness(), images)
    assert (found == found[:, :1, :1, :1]).all()
    values = found[:, 0, 0, 0].double()
    assert values.min() == int(200 * 192 / 255)  # 150
    assert values.max() == 249  # 200 * 318 / 255 = 249.4
    assert values.mean().item() == pytest.approx(199.5, abs=2)  # cut to whole levels
    assert values.std().item() == pytest.approx(200 * 126 / 255 / 12**0.5, rel=0.05)


def test_brightness_is_that_of_torchvision() -> None:
    images = noise(30)
    found = made(Brightness(), images)
    torch.manual_seed(0)
    factors = torch.empty(30).uniform_(*ColorJitter(brightness=63 / 255).brightness)
    expected = [adjust_brightness(image, factor.item()) for image, factor in zip(images, factors, strict=True)]
    assert torch.equal(found, torch.stack(expected))
    assert (found == 255).any()


def test_crop_flip_brightness_is_one_after_the_other() -> None:
    torch.manual_seed(0)
    expected = Brightness()(CropFlip()(noise(10)))
    assert torch.equal(made(AUGMENTATIONS["crop_flip_brightness"](), noise(10)), expected)


@pytest.mark.parametrize(("height", "width"), [(32, 32), (24, 30)])
def test_a_resized_crop_is_that_of_torchvision_to_one_grey_level(height: int, width: int) -> None:
    images = noise(40, height, width)
    found = made(ResizedCropFlip(), images)
    torch.manual_seed(0)
    parts = torch.stack(random_parts(40, height, width), 1).tolist()
    mirrored = torch.rand(40) < 0.5
    for image, part, flip, one in zip(images, parts, mirrored, found, strict=True):
        expected = resized_crop(image, *part, [height, width])
        expected = horizontal_flip(expected) if flip else expected
        assert (one.int() - expected.int()).abs().max() <= 1


def test_parts_are_drawn_as_torchvision_draws_them() -> None:
    torch.manual_seed(0)
    top, left, tall, wide = torch.stack(random_parts(4000, 32, 40)).double()
    assert min(top.min(), left.min()) == 0
    assert min(tall.min(), wide.min()) >= 1
    assert ((top + tall).max(), (left + wide).max()) == (32, 40)
    image = torch.zeros(3, 32, 40)
    theirs = [RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(4000)]
    for ours, other in zip((top, left, tall, wide), torch.tensor(theirs).double().T, strict=True):
        error = (ours.var() / 4000 + other.var() / 4000).sqrt()
        assert (ours.mean() - other.mean()).abs() < 4 * error
        assert ours.std() == pytest.approx(other.std().item(), rel=0.1)


def test_a_part_always_fits_into_the_narrowest_image() -> None:
    for height, width in ((1, 1), (1, 50), (50, 1)):
        top, left, tall, wide = random_parts(200, height, width)
        assert min(top.min(), left.min()) >= 0
        assert min(tall.min(), wide.min()) >= 1
        assert (top + tall).max() <= height
        assert (left + wide).max() <= width
        assert ResizedCropFlip()(noise(5, height, width)).shape == (5, 3, height, width)


def test_a_resized_crop_invents_no_colours() -> None:
    levels = torch.arange(0, 256, 37, dtype=torch.uint8)
    plain = levels.view(-1, 1, 1, 1).expand(-1, 3, 32, 32)
    assert torch.equal(made(ResizedCropFlip(), plain), plain)
    gradient = torch.arange(40, 40 + 32 * 4, 4, dtype=torch.uint8).expand(100, 3, 32, 32)
    found = made(ResizedCropFlip(), gradient)
    assert (found.min(), found.max()) == (40, 164)
    steps = found.int().diff(dim=3)
    rising, falling = (steps >= 0).flatten(1).all(1), (steps <= 0).flatten(1).all(1)
    assert (rising ^ falling).all()
    assert 30 < falling.sum() < 70  # mirrored half of the time
