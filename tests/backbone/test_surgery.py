"""Changed networks, compared with ones changed by hand."""

import json
from pathlib import Path

import pytest
import timm
import torch
import torchvision
from timm.layers import BatchNormAct2d
from torch import Tensor, nn

from fcl_bench.backbone import BackboneSource
from fcl_bench.backbone.surgery import change_norm, cifar_stem, groups
from fcl_bench.backbone.weights import digest
from fcl_bench.errors import ConfigError

HALF = (0.5, 0.5, 0.5)
SMALL = {"input_size": 32, "mean": HALF, "std": HALF, "stem": "cifar", "width": 8, "trainable": True}


def small(**changes: object) -> BackboneSource:
    """A ResNet-18 of 64 features, which trains in a moment."""
    return BackboneSource("resnet18", "none", **SMALL | changes)


def pixels(n: int) -> Tensor:
    return torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def saved_resnet18(folder: Path) -> tuple[nn.Module, str]:
    """Torchvision's network with weights and statistics unlike those of a fresh one, and the file of its state."""
    torch.manual_seed(4)
    network = torchvision.models.resnet18()
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for values in (layer.weight.data, layer.running_var):
                values.uniform_(0.5, 1.5)
            for values in (layer.bias.data, layer.running_mean):
                values.uniform_(-0.5, 0.5)
    torch.save(network.state_dict(), folder / "resnet18.pth")
    return network, str(folder / "resnet18.pth")


def step(network: nn.Module, inputs: Tensor) -> None:
    network.train()(inputs).square().mean().backward()
    torch.optim.SGD(network.parameters(), lr=0.1).step()


def states(network: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in network.state_dict().items()}


@torch.no_grad()
@pytest.mark.parametrize("from_file", [True, False])
def test_the_cifar_stem_is_that_of_torchvisions_network_changed_by_hand(tmp_path: Path, from_file: bool) -> None:
    expected, path = saved_resnet18(tmp_path)
    file = {key: value for key, value in states(expected).items() if not key.startswith(("fc.", "conv1."))}
    config = BackboneSource("resnet18", path if from_file else "none", 32, HALF, HALF, stem="cifar")
    found = config.network().eval()
    expected.conv1, expected.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    expected.fc = nn.Identity()
    expected.load_state_dict(found.model.state_dict())
    torch.testing.assert_close(found(pixels(2)), expected.eval()((pixels(2) / 255 - 0.5) / 0.5), rtol=1e-4, atol=1e-5)
    assert found.model.forward_features(torch.zeros(1, 3, 32, 32)).shape == (1, 512, 4, 4)
    kept = found.model.state_dict()
    assert all(torch.equal(kept[key], value) for key, value in file.items()) == from_file


def test_the_cifar_stem_is_kaiming_normal_by_fan_out_and_leaves_the_rest_as_it_was() -> None:
    changed = BackboneSource("resnet18", "none", stem="cifar").network().model
    plain = BackboneSource("resnet18", "none").network().model
    assert changed.conv1.weight.shape == (64, 3, 3, 3)
    assert changed.conv1.weight.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.1)
    rest = [{key: value for key, value in states(one).items() if key != "conv1.weight"} for one in (changed, plain)]
    assert rest[0].keys() == rest[1].keys()
    assert all(torch.equal(value, rest[1][key]) for key, value in rest[0].items())
    for layer in plain.modules():  # timm's own initialisation, on which weights=none relies
        if isinstance(layer, nn.Conv2d):
            fan_out = layer.out_channels * layer.kernel_size[0] ** 2
            assert layer.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.1)


@pytest.mark.parametrize("name", ["test_efficientnet", "test_vit", "resnet18d", "test_resnet"])
def test_other_networks_have_no_place_for_the_cifar_stem(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"backbone\.stem=cifar, but {name} is built otherwise.*stem=standard"):
        BackboneSource(name, "none", stem="cifar").network()


def test_the_width_doubles_from_stage_to_stage() -> None:
    network = small(width=16).network()
    assert network.eval()(pixels(2)).shape == (2, 128)
    stages = [getattr(network.model, f"layer{number}") for number in (1, 2, 3, 4)]
    assert [stage[0].conv1.out_channels for stage in stages] == [16, 32, 64, 128]
    assert small(width=16).for_methods((3, 32, 32)).features == 128


def test_a_width_is_for_resnets_without_weights() -> None:
    with pytest.raises(ConfigError, match=r"backbone\.width=16 is for ResNets, but test_vit is none .*width=null"):
        BackboneSource("test_vit", "none", width=16).network()
    with pytest.raises(ConfigError, match=r"width=16 makes a network that .*weights=pretrained does not fit: set"):
        BackboneSource("resnet18", "pretrained", width=16)


@pytest.mark.parametrize("change", [{"stem": "cifar"}, {"width": 8}])
def test_without_a_network_there_is_nothing_to_change(change: dict) -> None:
    with pytest.raises(ConfigError, match=r"backbone=none has no layers to change: set .*stem=standard .*width=null"):
        BackboneSource("none", **change)


def test_groups_are_as_many_as_fit() -> None:
    for channels in range(1, 200):
        fitting = [number for number in range(2, 33) if channels % number == 0 and channels / number >= 2]
        assert groups(channels) == (fitting[-1] if fitting else 1)


def test_group_norm_by_hand() -> None:
    torch.manual_seed(0)
    act = BatchNormAct2d(12, act_layer=nn.SiLU, drop_layer=nn.Dropout, inplace=False)
    network = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8, eps=1e-3), nn.Conv2d(8, 12, 1), nn.Sequential(act))
    for layer in (network[1], act):
        nn.init.normal_(layer.weight)
        nn.init.normal_(layer.bias)
    first, second, inputs = network[0], network[2], torch.randn(1, 3, 5, 5)
    change_norm(network, "gn", "a network")

    def normalised(values: Tensor, number: int, layer: nn.Module, eps: float) -> Tensor:
        grouped = values.view(1, number, -1)
        spread = (grouped.var(2, correction=0, keepdim=True) + eps).sqrt()
        scaled = ((grouped - grouped.mean(2, keepdim=True)) / spread).view_as(values)
        return scaled * layer.weight[:, None, None] + layer.bias[:, None, None]

    middle = second(normalised(first(inputs), 4, network[1], 1e-3))
    expected = nn.functional.silu(normalised(middle, 6, act, 1e-5))
    torch.testing.assert_close(network.eval()(inputs), expected)
    assert (network.train()(inputs) == 0).float().mean() > 0.3  # dropout was kept
    assert not list(network.buffers())


def test_group_norm_needs_neither_statistics_nor_a_second_sample() -> None:
    network = small(norm="gn", stem="standard").network()  # 1 x 1 pixels are left at the end
    assert not list(network.model.buffers())
    assert not [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
    torch.testing.assert_close(network.train()(pixels(3))[:1], network.train()(pixels(1)), rtol=1e-4, atol=1e-5)
    before = states(network)
    step(network, pixels(1))
    assert any(not torch.equal(value, before[key]) for key, value in network.state_dict().items())


def test_group_norm_keeps_the_weights_of_batch_norm(tmp_path: Path) -> None:
    original, path = saved_resnet18(tmp_path)
    found = BackboneSource("resnet18", path, 32, HALF, HALF, trainable=True, norm="gn").network().model
    assert torch.equal(found.layer3[1].bn2.weight, original.layer3[1].bn2.weight)
    assert torch.equal(found.bn1.bias, original.bn1.bias)


@pytest.mark.parametrize("name", ["resnet18", "test_efficientnet"])  # BatchNorm2d, and timm's with an activation
def test_frozen_batch_norm_never_moves_and_never_looks_at_the_batch(tmp_path: Path, name: str) -> None:
    path = tmp_path / "weights.pth"
    network = saved_resnet18(tmp_path)[0] if name == "resnet18" else timm.create_model(name)
    torch.save(network.state_dict(), path)
    frozen, plain = (
        BackboneSource(name, str(path), 32, HALF, HALF, trainable=True, norm=norm).network()
        for norm in ("frozen_bn", "bn")
    )
    with torch.no_grad():
        expected = plain.eval()(pixels(4))
        torch.testing.assert_close(frozen.eval()(pixels(4)), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(frozen.train()(pixels(4)), expected, rtol=1e-4, atol=1e-4)
    before = states(frozen)
    fixed = {
        f"{key}.{kind}"
        for key, layer in plain.named_modules()
        if isinstance(layer, nn.BatchNorm2d)
        for kind in ("weight", "bias", "running_mean", "running_var")
    }
    step(frozen, pixels(4))
    same = {key for key, value in frozen.state_dict().items() if torch.equal(value, before[key])}
    assert fixed
    assert fixed <= same < set(before)


@pytest.mark.parametrize("norm", ["gn", "frozen_bn"])
def test_another_norm_is_for_training_networks_with_batch_norm(norm: str) -> None:
    with pytest.raises(ConfigError, match=rf"norm={norm} is for training, .*norm=bn or backbone\.trainable=true"):
        BackboneSource("resnet18", "pretrained", norm=norm)
    with pytest.raises(ConfigError, match=rf"norm={norm} replaces BatchNorm2d, but test_vit has none: set .*norm=bn"):
        change_norm(timm.create_model("test_vit"), norm, "test_vit")


def test_batch_norm_is_frozen_with_trained_weights_only() -> None:
    with pytest.raises(ConfigError, match=r"weights=none it has learnt nothing: set .*or backbone\.norm=gn"):
        BackboneSource("resnet18", "none", norm="frozen_bn", trainable=True)


def test_changed_networks_depend_on_the_seed_alone() -> None:
    first = digest(small(norm="gn").network())
    others = [{}, {"norm": "gn", "seed": 1}, {"norm": "gn", "stem": "standard"}, {"norm": "gn", "width": 4}]
    digests = []
    for change in others:  # each takes the place of the one before in memory
        torch.manual_seed(len(digests))
        digests.append(digest(small(**change).network()))
        assert digest(small(norm="gn").network()) == first
    assert len({first, *digests}) == 5
    stems = [BackboneSource("resnet18", "none", stem="cifar", seed=seed).network().model.conv1 for seed in (0, 0, 1)]
    assert torch.equal(stems[0].weight, stems[1].weight)
    assert not torch.equal(stems[0].weight, stems[2].weight)


def test_fingerprints_of_frozen_networks_differ_where_the_networks_do(tmp_path: Path) -> None:
    path = saved_resnet18(tmp_path)[1]
    changes = [{}, {"stem": "cifar"}, {"weights": path}, {"weights": path, "stem": "cifar"}, {"width": 8}]
    changes.append({"weights": path, "stem": "cifar", "seed": 1})  # the first convolution is random
    base = {"name": "resnet18", "weights": "none", "input_size": 32}
    prints = [json.dumps(BackboneSource(**base | change).fingerprint()) for change in changes]
    assert len(set(prints)) == len(prints)


def test_the_stem_is_changed_in_place() -> None:
    network = timm.create_model("resnet18", num_classes=0, channels=(4, 8, 16, 32))
    cifar_stem(network, "resnet18")
    assert (network.conv1.stride, network.conv1.padding, network.conv1.bias) == ((1, 1), (1, 1), None)
    assert isinstance(network.maxpool, nn.Identity)
