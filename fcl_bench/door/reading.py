"""From a declaration and a reply to what is wrong with it, in a few words, or to nothing.

A declaration is a type: that in the annotation of what a client function returns. Its dataclasses are walked field by
field; rules are those of :mod:`fcl_bench.door.form` and :mod:`fcl_bench.door.values`.
"""

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from fcl_bench.door.facts import Facts
from fcl_bench.door.form import Form
from fcl_bench.door.values import Values
from fcl_bench.errors import UserError
from fcl_bench.message import leaves, tensors_in

Seen = Literal["values", "noise", "masks"]  # what the server can see of a reply
NOT_FINITE = "has numbers that are not finite"
TOO_LARGE = "has a number that is too large to be computed with:"
LIMITS: dict[torch.dtype, float] = {  # of numbers: sums and products of a few of them must have room in their type
    torch.bool: 1,
    torch.uint8: math.inf,
    torch.int8: math.inf,
    torch.int16: math.inf,
    torch.int32: math.inf,
    torch.int64: 2**53,
    torch.float16: torch.finfo(torch.float16).max,
    torch.bfloat16: 1e12,
    torch.float32: 1e12,
    torch.float64: 1e100,
}


class Misfit(Exception):
    """What is wrong with a reply."""


@dataclass(frozen=True)
class Part:
    """A part of a reply, and what is declared of it."""

    path: str
    value: Any
    rules: tuple[Any, ...]


def complaint(annotation: Any, reply: Any, facts: Facts, seen: Seen = "values", path: str = "the reply") -> str | None:
    """What is wrong with a reply, whose type is annotated so; None if it is as declared.

    Of replies with noise and of masked ones the form is checked only. Raises a :class:`UserError` for a declaration
    that cannot be understood.
    """
    try:
        parts = list(_parts(annotation, reply, path))
        for part in parts:
            _check_numbers(part, facts)
            _check_rules(part, Form, facts)
        if seen == "values":
            for part in parts:
                _check_rules(part, Values, facts)
    except Misfit as misfit:
        return str(misfit)
    except UserError:
        raise
    except Exception as error:  # such as a structure without end
        return f"{path} cannot be read ({type(error).__name__}: {error})"
    return None


def declared_reply(function: Callable[..., Any]) -> Any:
    """The annotation of what a function returns; ``Any`` where there is none that can be found."""
    return _declared_reply(getattr(function, "__func__", function))


def norm(reply: Any) -> float:
    """The Euclidean norm of all tensors in a reply together."""
    squares = [float(torch.linalg.vector_norm(each.double())) ** 2 for _, each in tensors_in(reply)]
    return math.sqrt(sum(squares))


@cache
def _declared_reply(function: Callable[..., Any]) -> Any:
    return _hints(function).get("return", Any)


@cache
def _hints(annotated: Hashable) -> dict[str, Any]:
    try:
        return get_type_hints(annotated, include_extras=True)
    except (NameError, TypeError, AttributeError):  # names that exist for type checkers only
        return {}


def _parts(annotation: Any, value: Any, path: str, rules: tuple[Any, ...] = ()) -> Iterator[Part]:
    """Every part of a value with the rules for it; raises :class:`Misfit` where it is of another type."""
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin is Annotated:
        yield from _parts(arguments[0], value, path, arguments[1:])
    elif origin in (Union, UnionType):
        yield from _parts(_option(arguments, value, path), value, path, rules)
    elif origin is tuple:
        yield from _in_tuple(arguments, value, path)
    elif origin is dict:
        yield from _in_dict(arguments, value, path, rules)
    elif is_dataclass(annotation) and isinstance(annotation, type):
        yield from _in_dataclass(annotation, value, path)
    elif annotation in (Tensor, int, float, bool, str, None, NoneType):
        _check_type(annotation, value, path)
        yield Part(path, value, rules)
    else:
        yield from _undeclared(value, path)


def _option(options: tuple[Any, ...], value: Any, path: str) -> Any:
    """Of several annotations, the first whose type is that of the value."""
    for option in options:
        bare = get_args(option)[0] if get_origin(option) is Annotated else option
        kind = get_origin(bare) or bare
        if kind is Any or _is_of(kind, value) or (is_dataclass(kind) and type(value) is kind):
            return option
    names = " or ".join(_name(option) for option in options)
    raise Misfit(f"{path} is {_kind(value)}, expected {names}")


def _in_tuple(annotations: tuple[Any, ...], value: Any, path: str) -> Iterator[Part]:
    if not isinstance(value, tuple):
        raise Misfit(f"{path} is {_kind(value)}, expected a tuple")
    if annotations[1:] == (...,):
        annotations = annotations[:1] * len(value)
    if len(value) != len(annotations):
        raise Misfit(f"{path} has {len(value)} entries, expected {len(annotations)}")
    for position, (annotation, entry) in enumerate(zip(annotations, value, strict=True)):
        yield from _parts(annotation, entry, f"{path}[{position}]")


def _in_dict(annotations: tuple[Any, ...], value: Any, path: str, rules: tuple[Any, ...]) -> Iterator[Part]:
    if not isinstance(value, dict):
        raise Misfit(f"{path} is {_kind(value)}, expected a dict")
    for key, entry in value.items():
        if type(key) is not annotations[0] and annotations[0] is not Any:
            raise Misfit(f"{path} has the key {key!r}, expected {_name(annotations[0])}")
        yield from _parts(annotations[1], entry, f"{path}[{key!r}]")
    yield Part(path, value, rules)


def _in_dataclass(kind: Any, value: Any, path: str) -> Iterator[Part]:
    if _class_of(value) != kind:
        raise Misfit(f"{path} is {_kind(value)}, expected {kind.__name__}")
    hints = _hints(kind)
    for name in [each.name for each in fields(kind)]:
        place = name if path == "the reply" else f"{path}.{name}"
        yield from _parts(hints.get(name, Any), getattr(value, name), place)


def _undeclared(value: Any, path: str) -> Iterator[Part]:
    """What an annotation says nothing about: it must be able to travel."""
    try:
        for place, leaf in leaves(value, path):
            yield Part(place, leaf, ())
    except TypeError as error:
        raise Misfit(str(error).rstrip(".")) from None


def _check_type(annotation: Any, value: Any, path: str) -> None:
    if not _is_of(annotation, value):
        raise Misfit(f"{path} is {_kind(value)}, expected {_name(annotation)}")


def _is_of(kind: Any, value: Any) -> bool:
    """Whether a value is of a type; a whole number is also one of the others, but yes and no are no numbers."""
    if isinstance(value, bool):
        return kind is bool
    kinds = (float, int) if kind is float else kind or NoneType
    return isinstance(kinds, (type, tuple)) and isinstance(value, kinds)


def _check_numbers(part: Part, facts: Facts) -> None:
    """Finite, and not so large that sums of them might not be."""
    value = part.value
    if isinstance(value, Tensor):
        found = _wrong_with_tensor(value, facts)
    elif isinstance(value, float):
        found = None if abs(value) <= LIMITS[torch.float64] else f"is {value}, expected a finite number"
    elif isinstance(value, int):
        found = None if abs(value) <= LIMITS[torch.int64] else f"is {value:.3g}, which is too large"
    else:
        found = None
    if found:
        raise Misfit(f"{part.path} {found}")


def _wrong_with_tensor(value: Tensor, facts: Facts) -> str | None:
    if value.layout is not torch.strided or value.is_meta or value.dtype not in LIMITS:
        return f"is a tensor of {value.dtype} ({value.layout}, {value.device}), which no reply may have"
    if facts.masked:
        return None if value.dtype == facts.masked else f"has the type {value.dtype}, expected {facts.masked}"
    if value.numel() == 0 or math.isinf(LIMITS[value.dtype]):
        return None
    low, high = value.detach().aminmax()
    if -LIMITS[value.dtype] <= low and high <= LIMITS[value.dtype]:
        return None
    if not value.isfinite().all():
        return NOT_FINITE
    return f"{TOO_LARGE} {float(max(high, -low)):.3g}"


def _check_rules(part: Part, stage: Any, facts: Facts) -> None:
    for rule in part.rules:
        if isinstance(rule, stage):
            found = rule.complaint(part.value, facts)
            if found:
                raise Misfit(f"{part.path} {found}")


def _class_of(value: Any) -> Any:
    return type(value)


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _name(annotation: Any) -> str:
    if annotation in (None, NoneType):
        return "None"
    return getattr(annotation, "__name__", str(annotation))
