"""Bytes back to messages: what comes out is a message, or a :class:`MessageError` says why the bytes are none.

Bytes may come from a damaged file, or from somebody who means harm. So nothing is imported, no class is constructed but
those that the caller names, and only those bytes are accepted that :func:`fcl_bench.message.encode` gives.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from fcl_bench.errors import UserError
from fcl_bench.message import DEPTH, content_of

Classes = Mapping[str, type]  # frozen dataclasses, by the names they have in an encoding
_ALIGNMENT = 8
_ENTRY = ["dtype", "shape", "data_offsets"]


class MessageError(UserError):
    """Bytes that are not an encoded message, or one of classes that nobody has declared."""


def decode(data: bytes, classes: Classes | None = None, share: bool = False) -> Any:
    """The message back; its dataclasses must be among ``classes``, see :mod:`fcl_bench.message_classes`.

    With ``share``, the bytes are those that ``encode(message, share=True)`` gives.
    """
    header, structure = _header(data)
    tensors = _tensors(data, header)
    reader = _Reader(tensors, classes or {}, share)
    message = reader.read(structure)
    reader.finish()
    return message


def _header(data: bytes) -> tuple[dict[str, Any], Any]:
    """The header of a safetensors file, without its metadata, and the structure of the message, which is there."""
    text = data[8 : 8 + int.from_bytes(data[:8], "little")]
    header = _json(text.decode("utf-8", "replace"))
    match header:
        case {"__metadata__": {"message": str(packed), **more}} if not more and next(iter(header)) == "__metadata__":
            structure = _json(packed)
        case _:
            raise MessageError("Expected an encoded message, but its header does not hold the structure of one.")
    if _padded(_written(header, separators=(",", ":"), ensure_ascii=False)) != text or _written(structure) != packed:
        raise MessageError("Expected an encoded message, but its header is not written as encode writes it.")
    del header["__metadata__"]
    return header, structure


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"Expected an encoded message, but its header is not JSON ({error}).") from error


def _written(content: Any, **form: Any) -> str:
    try:
        return json.dumps(content, **form)
    except RecursionError as error:
        raise MessageError("Expected an encoded message, but its header is nested too deep.") from error


def _padded(header: str) -> bytes:
    """As safetensors does it."""
    text = header.encode("utf-8", "replace")
    return text + b" " * (-len(text) % _ALIGNMENT)


def _tensors(data: bytes, header: dict[str, Any]) -> dict[str, Tensor]:
    """By name; they lie in the order in which :func:`encode` lays them."""
    try:
        tensors = load(data)
        usual = _usual_order(tensors)
    except Exception as error:  # of many kinds, some of them Rust's
        raise MessageError(f"Expected an encoded message, but its tensors cannot be read ({error}).") from error
    starts = [entry["data_offsets"][0] for entry in header.values()]
    plain = all(list(entry) == _ENTRY for entry in header.values())
    if list(header) != usual or starts != sorted(starts) or not plain:
        raise MessageError("Expected an encoded message, but its tensors lie in another order than encode lays them.")
    for name, tensor in tensors.items():
        if tensor.dtype == torch.bool and (tensor.view(torch.uint8) > 1).any():
            raise MessageError(f"Expected an encoded message, but tensor {name} has bytes that are no booleans.")
    return tensors


def _usual_order(tensors: dict[str, Tensor]) -> list[str]:
    """Of their names in a file; it follows from names and types, so tensors without numbers show it."""
    if len(tensors) < 2:
        return list(tensors)
    empty = {name: tensor.new_empty(0) for name, tensor in tensors.items()}
    return list(json.loads(save(empty)[8:]))


class _Reader:
    """Makes a message of its structure."""

    def __init__(self, tensors: dict[str, Tensor], classes: Classes, share: bool):
        self.tensors = tensors
        self.classes = classes
        self.share = share
        self.met: set[str] = set()  # names of tensors; they are numbered as they are met

    def read(self, structure: Any, depth: int = 0) -> Any:
        """The message, or the part of it that the structure describes."""
        if depth > DEPTH:
            raise MessageError(f"Expected a message that is nested at most {DEPTH} deep, but this one goes deeper.")
        match structure:
            case str():
                return _whole(structure)
            case None | bool() | int() | float():
                return structure
            case {"tensor": str(name), **more} if not more:
                return self._tensor(name)
            case {"dict": list(items), **more} if not more:
                return self._dict(items, depth)
            case {"tuple": list(values), **more} if not more:
                return tuple([self.read(value, depth + 1) for value in values])
            case {"dataclass": str(name), "fields": dict(values)} if list(structure) == ["dataclass", "fields"]:
                return self._dataclass(name, values, depth)
        raise MessageError("Expected an encoded message, but its structure has a part of an unknown kind.")

    def finish(self) -> None:
        """Raise a :class:`MessageError` for tensors that the message does not have."""
        if len(self.met) < len(self.tensors):
            raise MessageError("Expected an encoded message, but it has tensors that its structure does not name.")
        if self.share and len(set(map(content_of, self.tensors.values()))) < len(self.tensors):
            raise MessageError("Expected an encoded message, but it has the same tensor twice.")

    def _tensor(self, name: str) -> Tensor:
        is_next = name == str(len(self.met)) and name in self.tensors
        if not is_next and not (self.share and name in self.met):
            raise MessageError(f"Expected an encoded message, but there is no tensor {name!r} at this place.")
        self.met.add(name)
        return self.tensors[name]

    def _dict(self, items: list[Any], depth: int) -> dict[Any, Any]:
        content = {}
        for item in items:
            match item:
                case [str() | int() as key, value]:
                    content[_whole(key)] = self.read(value, depth + 1)
                case _:
                    raise MessageError("Expected an encoded message, but a dict has an entry without a proper key.")
        if len(content) < len(items):
            raise MessageError("Expected an encoded message, but a dict has a key twice.")
        return content

    def _dataclass(self, name: str, values: dict[str, Any], depth: int) -> Any:
        kind = self.classes.get(name)
        if kind is None:
            raise MessageError(
                f"Expected messages of declared classes only, but {name[:100]!r} is not declared: name it in the "
                "annotations of the method's functions, or in its attribute message_classes."
            )
        names = [field.name for field in fields(kind)]
        if list(values) != names:
            raise MessageError(f"Expected {name} to have the fields {', '.join(names)}, but it has others.")
        content = {field: self.read(value, depth + 1) for field, value in values.items()}
        try:
            return kind(**content)
        except Exception as error:  # whatever the class says
            raise MessageError(f"Expected a {name}, but it cannot be made of these values ({error}).") from error


def _whole(value: Any) -> Any:
    """The value, unless it is a string with half a character, which has no bytes."""
    try:
        if isinstance(value, str):
            value.encode()
    except UnicodeEncodeError as error:
        raise MessageError("Expected an encoded message, but a string in it is not Unicode.") from error
    return value
