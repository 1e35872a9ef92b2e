"""Messages: what may travel between server and clients, and how it becomes bytes.

A message is a tensor, a number, a string, ``None``, or a tuple, dict or frozen dataclass of messages. Nothing else
travels, so :mod:`fcl_bench.traffic` can measure it, a checkpoint is the state itself, and no pickle is ever read. The
way back is in :mod:`fcl_bench.decoding`.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

StateDict = dict[str, Tensor]
DEPTH = 64  # to which a message may be nested
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

    With ``share``, tensors of equal content are stored once, and come back as one tensor: a teacher that a hundred
    clients keep takes the room of one.
    """
    _refuse_what_cannot_travel(message)
    tensors = _Shared() if share else _Tensors()
    structure = _pack(message, tensors)
    return save(tensors.by_name, metadata={"message": json.dumps(structure)})


def name_of(kind: type) -> str:
    """The name of a dataclass in an encoding."""
    return f"{kind.__module__}:{kind.__qualname__}"


def content_of(tensor: Tensor) -> tuple[Any, ...]:
    """What two tensors have in common if and only if they are stored alike."""
    plain = tensor.detach().cpu().contiguous()
    digest = blake2b(plain.reshape(-1).view(torch.uint8).numpy().data, digest_size=16).digest()
    return plain.dtype, plain.shape, digest


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
        key = content_of(tensor)
        if key not in self._names:
            self._names[key] = super().add(tensor)
        return self._names[key]


def _pack(message: Any, tensors: _Tensors, depth: int = 0) -> Any:
    if depth > DEPTH:
        raise TypeError(f"Expected a message that is nested at most {DEPTH} deep, but this one goes deeper.")
    if isinstance(message, Tensor):
        return {"tensor": tensors.add(message)}
    if isinstance(message, dict):
        return {"dict": [[key, _pack(value, tensors, depth + 1)] for key, value in message.items()]}
    if isinstance(message, tuple):
        return {"tuple": [_pack(value, tensors, depth + 1) for value in message]}
    if is_dataclass(message) and not isinstance(message, type):
        kind = type(message)
        if "<locals>" in kind.__qualname__:
            raise TypeError(
                f"Expected {kind.__qualname__} to be defined at the top level of its module, to be found there."
            )
        values = {field.name: _pack(getattr(message, field.name), tensors, depth + 1) for field in fields(message)}
        return {"dataclass": name_of(kind), "fields": values}
    return message
