"""Broken and hostile replies, made of an honest one: for the rule of the contract, and to be counted."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

Address = tuple[str | int, ...]  # fields, keys and positions on the way to a part of a message
HUGE = 10**15
COUNTS = ("counts", "samples", "clipped")  # names of fields that hold numbers of something
CLASSES = ("classes", "labels")  # names of fields that hold numbers of classes
BY_CLASS = ("cross", "totals", "counts")  # names of fields with a row for each class, if there is one without classes


@dataclass(frozen=True)
class Mutation:
    """A reply that is not the honest one; one that is not ``malformed`` is wrong, but could be an honest one."""

    kind: str
    address: Address
    reply: Any
    malformed: bool


def mutations(reply: Any, foreign: int | None, seen: int) -> Iterator[Mutation]:
    """All of them, where ``seen`` classes are registered; ``foreign`` is one that the client has never had, if any."""
    for address, part in parts(reply):
        by_class = isinstance(part, Tensor) and part.dim() > 0 and len(part) == seen
        for kind, make, malformed in _changes(address, part, foreign):
            yield Mutation(kind, address, changed(reply, address, make(part)), malformed)
        if by_class and foreign is not None and address and address[-1] in BY_CLASS:
            yield Mutation("a row of a foreign class", address, changed(reply, address, _with_row(part, foreign)), True)


def parts(message: Any, address: Address = ()) -> Iterator[tuple[Address, Any]]:
    """A message, and everything in it."""
    yield address, message
    if isinstance(message, dict):
        for key, value in message.items():
            yield from parts(value, (*address, key))
    elif isinstance(message, tuple):
        for position, value in enumerate(message):
            yield from parts(value, (*address, position))
    elif is_dataclass(message) and not isinstance(message, type):
        for field in fields(message):
            yield from parts(getattr(message, field.name), (*address, field.name))


def changed(message: Any, address: Address, value: Any) -> Any:
    """A message with another value at an address.

    >>> changed((1, {"a": 2}), (1, "a"), 3)
    (1, {'a': 3})
    """
    if not address:
        return value
    step, *rest = address
    if isinstance(message, dict):
        return {**message, step: changed(message[step], tuple(rest), value)}
    if isinstance(message, tuple):
        entries = list(message)
        entries[int(step)] = changed(message[int(step)], tuple(rest), value)
        return tuple(entries)
    return replace(message, **{str(step): changed(getattr(message, str(step)), tuple(rest), value)})


Change = tuple[str, Callable[[Any], Any], bool]


def _changes(address: Address, part: Any, foreign: int | None) -> Iterator[Change]:
    name = str(address[-1]) if address else ""
    if part is None:
        yield "not nothing", lambda value: torch.full((3,), torch.nan), True
        return
    yield "nothing", lambda value: None, True
    yield "a list", lambda value: [value], True
    yield "a word", lambda value: "a word", True
    if isinstance(part, Tensor):
        yield from _of_tensor(name, part, foreign)
    elif isinstance(part, dict):
        yield from _of_dict(part)
    elif isinstance(part, tuple):
        yield "cut", lambda value: value[:-1], True
        yield "longer", lambda value: (*value, 0), True
    elif isinstance(part, bool):
        yield "a number", lambda value: 7, True
        yield "the other", lambda value: not value, False
    elif isinstance(part, (int, float)):
        yield from _of_number(part)
    elif is_dataclass(part):
        yield "a dict", lambda value: dict(vars(value)), True


def _of_number(part: float) -> Iterator[Change]:
    yield "negative", lambda value: -1 - abs(value), True
    yield "huge", lambda value: HUGE, True
    yield "beyond all types", lambda value: 10**30, True
    yield "no number", lambda value: torch.nan, True
    yield "infinite", lambda value: torch.inf, True
    yield "a tensor", lambda value: torch.tensor(value), True
    yield "yes", lambda value: True, True
    yield "zero", lambda value: 0, False


def _of_dict(part: dict[Any, Any]) -> Iterator[Change]:
    yield "a key more", lambda value: {**value, "stranger": torch.ones(2)}, True
    yield "a key of another type", lambda value: {**value, 3: torch.ones(2)}, True
    yield "other values", lambda value: {**value, "stranger": [1]}, True
    if part:
        first = next(iter(part))
        yield "empty", lambda value: {}, True
        yield "a key less", lambda value: {key: each for key, each in value.items() if key != first}, True
        yield "a key by another name", lambda value: {f"{key}!": each for key, each in value.items()}, True


def _of_tensor(name: str, part: Tensor, foreign: int | None) -> Iterator[Change]:
    yield "a number for a tensor", lambda value: 1.5, True
    yield "an array", lambda value: value.numpy(), True
    yield "a dimension more", lambda value: value[None], True
    yield "a number more", lambda value: torch.cat([value.flatten(), value.new_ones(1)]), True
    yield "complex", lambda value: value.to(torch.complex64), True
    yield "sparse", lambda value: value.float().to_sparse(), True
    for dtype in (torch.float64, torch.float32, torch.float16, torch.int32, torch.bool):
        if not _harmless(part.dtype, dtype):
            yield f"as {dtype}", partial(Tensor.to, dtype=dtype), True
    if part.dim() > 0:
        yield "a row more", lambda value: torch.cat([value, value.new_ones(1, *value.shape[1:])]), True
    if part.dim() > 1:
        yield "flat", lambda value: value.flatten(), True
        if part.shape[0] != part.shape[1]:
            yield "transposed", lambda value: value.transpose(0, 1), True
    if part.numel() == 0:
        return
    if part.dim() > 0:
        yield "a row less", lambda value: value[:-1], True
        yield "no rows", lambda value: value[:0], True
    yield from _of_content(name, part, foreign)
    yield "reversed", lambda value: value.flatten().flip(0).view(value.shape), name == "classes" and part.numel() > 1
    yield "zeros", torch.zeros_like, False
    if name not in (*COUNTS, *CLASSES) and part.dtype != torch.uint8:
        yield "negated", lambda value: -value, name == "squares" or name == "gram" or "running_var" in name
        yield "doubled", lambda value: 2 * value, False


def _of_content(name: str, part: Tensor, foreign: int | None) -> Iterator[Change]:
    if part.is_floating_point():
        for word, number in (("no number", torch.nan), ("infinite", torch.inf), ("minus infinite", -torch.inf)):
            yield f"{word} in it", partial(_with_first, number=number), True
        yield "huge", lambda value: torch.full_like(value, torch.finfo(value.dtype).max), True
    elif part.dtype in (torch.int32, torch.int64):
        bounded = part.dtype == torch.int64 or name != "gram"  # a matrix of equal numbers is one of sums of squares
        yield "huge", lambda value: torch.full_like(value, torch.iinfo(value.dtype).max), bounded
    if name in COUNTS:
        yield "negative", lambda value: _with_first(value, -1), True
        yield "too many", lambda value: _with_first(value, HUGE), True
    if name in CLASSES:
        yield "a class from nowhere", lambda value: _with_first(value, 10**6), True
        yield "a negative class", lambda value: _with_first(value, -1), True
        if foreign is not None:
            yield "the class of another client", lambda value: _with_first(value, foreign), True
    if name == "gram":
        yield "a negative square", lambda value: _with_first(value, -1), True
        yield "not semi-definite", _indefinite, True
        if part.dim() == 2:
            yield "not symmetric", lambda value: _with_last_of_first_row(value), True


def _harmless(old: torch.dtype, new: torch.dtype) -> bool:
    """Whether whole numbers only move to a wider type, or nothing changes."""
    return old == new or (old in (torch.int8, torch.int16) and new == torch.int32)


def _with_first(value: Tensor, number: float) -> Tensor:
    other = value.clone(memory_format=torch.contiguous_format)
    other.view(-1)[0] = number
    return other


def _with_row(value: Tensor, row: int) -> Tensor:
    other = value.clone()
    other[row] = 1
    return other


def _with_last_of_first_row(value: Tensor) -> Tensor:
    other = value.clone()
    other[0, -1] += 1 + abs(float(other[0, -1]))
    return other


def _indefinite(value: Tensor) -> Tensor:
    """The second number, which is off the diagonal, larger than the diagonal allows."""
    other = value.contiguous().to(torch.float64 if value.is_floating_point() else torch.int64, copy=True)
    other.view(-1)[1] = 2 * other.max() + 1
    if other.dim() == 2:
        other[1, 0] = other[0, 1]
    return other
