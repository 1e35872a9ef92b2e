"""Messages: what may travel between server and clients, and how it becomes bytes and back.

A message is a tensor, a number, a string, ``None``, or a tuple, dict or frozen dataclass of messages. Nothing else
travels, so :mod:`fcl_bench.traffic` can measure it, a checkpoint is the state itself, and no pickle is ever read.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

StateDict = dict[str, Tensor]
_SCALARS = (bool, int, float, str, type(None))


def leaves(message: Any, path: str = "message") -> Iterator[tuple[str, Any]]:
    """Every tensor and scalar with its path; a ``TypeError`` names the first thing that cannot travel."""
    if isinstance(message, (Tensor, *_SCALARS)):
        yield path, message
    elif isinstance(message, dict):
        for key, value in message.items():
            if not isinstance(key, (str, int)):
                raise TypeError(f"Expected the keys of {path} to be strings or integers, but got {key!r}.")
            yield from leaves(value, f"{path}[{key!r}]")
    elif isinstance(message, tuple):
        for position, value in enumerate(message):
            yield from leaves(value, f"{path}[{position}]")
    elif is_dataclass(message) and not isinstance(message, type):
        if not type(message).__dataclass_params__.frozen:  # type: ignore[attr-defined]
            raise TypeError(f"Expected {path} to be a frozen dataclass, but {type(message).__name__} is not frozen.")
        for field in fields(message):
            yield from leaves(getattr(message, field.name), f"{path}.{field.name}")
    else:
        raise TypeError(
            f"Expected {path} to be a tensor, number, string, None, or a tuple, dict or frozen dataclass of them, "
            f"but got {type(message).__name__}."
        )


def tensors_in(message: Any, path: str = "message") -> Iterator[tuple[str, Tensor]]:
    """Every tensor with its path."""
    for place, leaf in leaves(message, path):
        if isinstance(leaf, Tensor):
            yield place, leaf


def mapped(message: Any, function: Callable[[Any], Any]) -> Any:
    """The message with ``function(leaf)`` in place of each tensor and scalar; what it gives back may be one, too.

    >>> mapped((1, {"a": 2.0}), lambda leaf: leaf + 1)
    (2, {'a': 3.0})
    """
    if isinstance(message, dict):
        return {key: mapped(value, function) for key, value in message.items()}
    if isinstance(message, tuple):
        return tuple(mapped(value, function) for value in message)
    if is_dataclass(message) and not isinstance(message, type):
        values = {field.name: mapped(getattr(message, field.name), function) for field in fields(message)}
        return type(message)(**values)
    return function(message)


def snapshot(module: nn.Module) -> StateDict:
    """The whole state dict, buffers included, as a message of its own: later training does not reach it."""
    return {name: value.detach().cpu().clone() for name, value in module.state_dict().items()}


def encode(message: Any, share: bool = False) -> bytes:
    """The message as safetensors bytes whose header holds the structure; equal messages give equal bytes.

    With ``share``, tensors of equal content are stored once, and :func:`decode` gives one tensor for all of them:
    a teacher that a hundred clients keep takes the room of one.
    """
    _refuse_what_cannot_travel(message)
    tensors = _Shared() if share else _Tensors()
    structure = _pack(message, tensors)
    return save(tensors.by_name, metadata={"message": json.dumps(structure)})


def decode(data: bytes) -> Any:
    """The message back. Dataclasses are looked up among the modules already imported, so reading imports nothing."""
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return _unpack(json.loads(header["__metadata__"]["message"]), load(data))


def _refuse_what_cannot_travel(message: Any) -> None:
    for _ in leaves(message):
        pass


class _Tensors:
    """The tensors of a message, each under a name of its own."""

    def __init__(self) -> None:
        self.by_name: dict[str, Tensor] = {}

    def add(self, tensor: Tensor) -> str:
        """Keep a copy, and tell its name."""
        name = str(len(self.by_name))
        self.by_name[name] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        return name


class _Shared(_Tensors):
    """Tensors of equal type, shape and content under one name."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[tuple[Any, ...], str] = {}

    def add(self, tensor: Tensor) -> str:
        """Keep a copy unless there is an equal one."""
        plain = tensor.detach().cpu().contiguous()
        content = blake2b(plain.reshape(-1).view(torch.uint8).numpy().data, digest_size=16).digest()
        key = (plain.dtype, plain.shape, content)
        if key not in self._names:
            self._names[key] = super().add(plain)
        return self._names[key]


def _pack(message: Any, tensors: _Tensors) -> Any:
    if isinstance(message, Tensor):
        return {"tensor": tensors.add(message)}
    if isinstance(message, dict):
        return {"dict": [[key, _pack(value, tensors)] for key, value in message.items()]}
    if isinstance(message, tuple):
        return {"tuple": [_pack(value, tensors) for value in message]}
    if is_dataclass(message) and not isinstance(message, type):
        kind = type(message)
        if "<locals>" in kind.__qualname__:
            raise TypeError(
                f"Expected {kind.__qualname__} to be defined at the top level of its module, to be found there."
            )
        values = {field.name: _pack(getattr(message, field.name), tensors) for field in fields(message)}
        return {"dataclass": f"{kind.__module__}:{kind.__qualname__}", "fields": values}
    return message


def _unpack(structure: Any, tensors: dict[str, Tensor]) -> Any:
    match structure:
        case {"tensor": name}:
            return tensors[name]
        case {"dict": items}:
            return {key: _unpack(value, tensors) for key, value in items}
        case {"tuple": values}:
            return tuple(_unpack(value, tensors) for value in values)
        case {"dataclass": name, "fields": values}:
            return _dataclass(name)(**{key: _unpack(value, tensors) for key, value in values.items()})
    return structure


def _dataclass(name: str) -> type:
    module, _, qualname = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and is_dataclass(found)):
        raise TypeError(f"Expected {name} to be a dataclass of an imported module, but it is not there.")
    return found
