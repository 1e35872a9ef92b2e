"""Rules about the form of a part of a reply: its shape, its type, its likeness to what was sent.

``complaint`` says what is wrong, as the end of a sentence that begins with the part; None if nothing is.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fcl_bench.door.facts import Facts, Size
from fcl_bench.linalg import numbers_in_triangle
from fcl_bench.message import StateDict


class Shape:
    """The dimensions of a tensor: numbers, names, tuples of alternatives, or one letter for what the reply decides.

    A letter means the same size wherever it stands in a reply. ``sample`` stands for all dimensions of a sample.
    """

    def __init__(self, *dimensions: Size | tuple[Size, ...]):
        self.dimensions = dimensions

    def complaint(self, value: Tensor, facts: Facts) -> str | None:
        """What is wrong."""
        wanted = self._expanded(facts)
        if wanted is None:
            return None
        if value.dim() == len(wanted) and all(map(facts.fits, value.shape, wanted)):
            return None
        return f"has the shape {tuple(value.shape)}, expected ({', '.join(map(facts.told, wanted))})"

    def _expanded(self, facts: Facts) -> tuple[Size | tuple[Size, ...], ...] | None:
        if self.dimensions[-1:] != ("sample",):
            return self.dimensions
        return None if facts.sample is None else (*self.dimensions[:-1], *facts.sample)


@dataclass(frozen=True)
class Triangle:
    """The triangle of a symmetric matrix, as :mod:`fcl_bench.linalg` keeps it; ``size`` is that of the matrix."""

    size: str

    def complaint(self, value: Tensor, facts: Facts) -> str | None:
        """What is wrong."""
        wanted = numbers_in_triangle(int(facts.number(self.size)))
        if value.shape == (wanted,):
            return None
        return f"has the shape {tuple(value.shape)}, expected ({wanted},) for {facts.told(self.size)}"


@dataclass(frozen=True)
class Kind:
    """The type of the numbers: one of torch, or the name of an attribute of the method that is one.

    Where such an attribute names whole numbers, those of any size will do. ``sample`` is the type of training samples.
    """

    dtype: torch.dtype | str

    def complaint(self, value: Tensor, facts: Facts) -> str | None:
        """What is wrong."""
        if facts.masked or value.dtype == self.dtype:
            return None
        if isinstance(self.dtype, torch.dtype):
            return f"has the type {value.dtype}, expected {self.dtype}"
        if self.dtype == "sample":
            return Kind(facts.sample_kind).complaint(value, facts) if facts.sample_kind else None
        wanted = facts.attribute(self.dtype)
        if value.dtype == wanted or (is_whole(wanted) and is_whole(value.dtype)):
            return None
        return f"has the type {value.dtype}, expected {'whole numbers' if is_whole(wanted) else wanted}"


@dataclass(frozen=True)
class Like:
    """Tensors with the names, shapes and types of those that were sent under a ``name``.

    ``only`` names an attribute of the method with the names that are wanted, if these are not all. With ``rows`` the
    first dimension is of that size instead. With ``or_empty`` there is nothing from a client without samples. Variances
    that BatchNorm remembers are not negative. Where the message has nothing of that name, nothing can be compared.
    """

    name: str
    only: str | None = None
    rows: str | None = None
    or_empty: bool = False

    def complaint(self, value: StateDict, facts: Facts) -> str | None:
        """What is wrong."""
        if self.or_empty and facts.samples == 0:
            return f"has {len(value)} tensors, but the client has no samples" if value else None
        sent = facts.sent(self.name)
        if sent is None:
            return None
        names = list(sent) if self.only is None else list(facts.attribute(self.only))
        if set(value) != set(names):
            return f"has other names than those sent: {_difference(set(value), set(names))}"
        for name in names:
            found = self._of_one(name, value[name], sent[name], facts)
            if found:
                return f"has a tensor '{name}' that {found}"
        return None

    def _of_one(self, name: str, value: Tensor, sent: Tensor, facts: Facts) -> str | None:
        if value.dtype != sent.dtype and not facts.masked:
            return f"has the type {value.dtype}, expected {sent.dtype}"
        if name.endswith("running_var") and (value < 0).any():
            return "has a negative variance"
        shape: tuple[Size, ...] = tuple(sent.shape)
        if self.rows:
            shape = (self.rows, *shape[1:])
        return Shape(*shape).complaint(value, facts)


@dataclass(frozen=True)
class LikeOwn:
    """A tensor with the shape and the kind of numbers of one that the method has under a name."""

    name: str

    def complaint(self, value: Tensor, facts: Facts) -> str | None:
        """What is wrong."""
        own: Tensor = facts.attribute(self.name)
        return Shape(*own.shape).complaint(value, facts) or Kind(f"{self.name}.dtype").complaint(value, facts)


Form = Shape | Triangle | Kind | Like | LikeOwn


def is_whole(dtype: torch.dtype) -> bool:
    """Whether a type is one of whole numbers."""
    return not dtype.is_floating_point and not dtype.is_complex and dtype != torch.bool


def _difference(found: set[str], wanted: set[str]) -> str:
    missing = sorted(map(str, wanted - found))
    further = sorted(map(str, found - wanted))
    parts = [f"{words} {names[0]}" for words, names in (("without", missing), ("with", further)) if names]
    return ", ".join(parts)
