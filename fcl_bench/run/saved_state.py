"""The leaves of a checkpoint file, to be compared: no class is looked up, nothing is built, and torch is not needed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fcl_bench.errors import UserError
from fcl_bench.run.digests import REMEDY

PLACE = ("checkpoint", "checkpoint.safetensors")  # in the folder of a run
NUMBERS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}
NOT_A_CHECKPOINT = (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class SavedTensor:
    """A tensor as it lies in the file."""

    kind: str
    shape: tuple[int, ...]
    data: bytes

    def numbers(self) -> np.ndarray | None:
        """In double precision, flat; None for types that numpy does not know."""
        kind = NUMBERS.get(self.kind)
        return None if kind is None else np.frombuffer(self.data, kind).astype(float)


Leaves = dict[str, Any]  # by path: a number, a text, None, or a SavedTensor


def saved_leaves(folder: Path) -> Leaves | None:
    """Of the final state, and of what clients keep; None for a run without a checkpoint."""
    path = folder.joinpath(*PLACE)
    if not path.exists():
        return None
    try:
        if not path.is_file():
            raise ValueError("it is not a file")
        return _leaves_in(path.read_bytes())
    except NOT_A_CHECKPOINT as error:
        raise UserError(f"The checkpoint {path} cannot be read ({error}): {REMEDY}") from error


def _leaves_in(data: bytes) -> Leaves:
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            tensors[name] = SavedTensor(entry["dtype"], tuple(entry["shape"]), data[start + first : start + last])
    content: dict[str, Any] = dict(json.loads(header["__metadata__"]["message"])["dict"])
    parts = {"state": dict(content["progress"]["dict"])["state"], "memories": content["memories"]}
    return {path: leaf for name, part in parts.items() for path, leaf in _walk(part, name, tensors)}


def _walk(structure: Any, path: str, tensors: dict[str, SavedTensor]) -> Iterator[tuple[str, Any]]:
    match structure:
        case {"tensor": name}:
            yield path, tensors[name]
        case {"dict": items}:
            for key, value in items:
                yield from _walk(value, f"{path}[{key!r}]", tensors)
        case {"tuple": values}:
            for position, value in enumerate(values):
                yield from _walk(value, f"{path}[{position}]", tensors)
        case {"dataclass": _, "fields": values}:
            for name, value in values.items():
                yield from _walk(value, f"{path}.{name}", tensors)
        case _:
            yield path, structure
