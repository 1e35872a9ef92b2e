"""What the harness knows of a reply without having looked at it: who was asked what, with how many samples."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property
from math import prod
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from fcl_bench.errors import UserError
from fcl_bench.message import StateDict
from fcl_bench.stream import Stream

Size = int | str
COUNTS = ("samples", "held", "classes", "registered", "registered_before", "new", "client")  # names for declarations


class Facts:
    """Of one reply to the function of a ``method``; ``inputs`` are those of all training samples."""

    def __init__(
        self,
        method: Any,
        message: tuple[Any, ...],
        stream: Stream,
        task: int,
        client: int,
        inputs: Any = None,
        masked: torch.dtype | None = None,
    ):
        self.method = method
        self.message = message
        self.stream = stream
        self.task = task
        self.client = client
        self.sample: tuple[int, ...] | None = None
        self.sample_kind: torch.dtype | None = None
        if hasattr(inputs, "shape") and hasattr(inputs, "dtype"):
            self.sample = tuple(inputs.shape[1:])
            self.sample_kind = inputs.dtype
        self.masked = masked  # the type of numbers behind masks, of which nothing else can be said
        self.free: dict[str, int] = {}  # sizes that a reply decides about, by their letter

    def number(self, expression: float | str) -> float:
        """A number, or the product of some that have names, such as ``held * 2 * features``."""
        if not isinstance(expression, str):
            return expression
        return prod(self._factor(name.strip()) for name in expression.split("*"))

    def attribute(self, path: str) -> Any:
        """What the method has under this name."""
        try:
            return attrgetter(path)(self.method)
        except AttributeError:
            raise UserError(
                f"A reply of {type(self.method).__name__} is declared with the name '{path}', which is neither an "
                f"attribute of the method nor one of {', '.join(COUNTS)}: give the method such an attribute."
            ) from None

    def fits(self, size: int, wanted: Size | tuple[Size, ...]) -> bool:
        """Whether a dimension has the size that was declared; of masked sums only the first of several will do."""
        if isinstance(wanted, tuple):
            options = wanted[:1] if self.masked else wanted
            return any(self.fits(size, option) for option in options)
        if isinstance(wanted, str) and len(wanted) == 1:
            return self.free.setdefault(wanted, size) == size
        return size == self.number(wanted)

    def told(self, wanted: Size | tuple[Size, ...]) -> str:
        """A declared size, in words."""
        if isinstance(wanted, tuple):
            return " or ".join(map(self.told, wanted))
        if isinstance(wanted, int):
            return str(wanted)
        if len(wanted) == 1:
            return str(self.free.get(wanted, wanted))
        return f"{wanted}={self.number(wanted):g}"

    def sent(self, name: str) -> StateDict | None:
        """The tensors that the message has under this name, at any depth; None if it has none."""
        for value in _named(self.message, name):
            return value
        bare = self.message[0] if self.message else None
        return bare if isinstance(bare, dict) and all(isinstance(each, Tensor) for each in bare.values()) else None

    @cached_property
    def samples(self) -> int:
        """Of the client in this task."""
        return int(self.stream.sizes[self.task, self.client])

    @cached_property
    def held(self) -> int:
        """Samples of the client in this task and those before."""
        return int(self.stream.sizes[: self.task + 1, self.client].sum())

    @cached_property
    def classes(self) -> int:
        """Registered once the task is open."""
        return self.stream.tasks[self.task].seen

    @cached_property
    def registered(self) -> int:
        """Classes, once this client has declared its own."""
        return self.registered_before + self.new

    @cached_property
    def registered_before(self) -> int:
        """Classes, before this client has declared its own."""
        return self.stream.tasks[self.task].registrations[self.client].registered

    @cached_property
    def new(self) -> int:
        """Classes that this client was the first to declare."""
        return len(self.stream.tasks[self.task].registrations[self.client].new)

    def declared(self, earlier: bool) -> Tensor:
        """The numbers of the classes that the client has declared in this task, or also in ``earlier`` ones."""
        tasks = self.stream.tasks[0 if earlier else self.task : self.task + 1]
        own = [task.registrations[self.client] for task in tasks]
        found = {label for registration in own for label in registration.known + registration.new}
        return torch.tensor(sorted(found), dtype=torch.int64)

    def _factor(self, name: str) -> float:
        if name in COUNTS:
            return getattr(self, name)
        return int(name) if name.isdecimal() else self.attribute(name)


def _named(message: Any, name: str) -> Iterator[StateDict]:
    """Every dict that is a field of this name, the outer ones first."""
    if isinstance(message, tuple):
        for value in message:
            yield from _named(value, name)
    elif is_dataclass(message):
        values = [(field.name, getattr(message, field.name)) for field in fields(message)]
        for key, value in values:
            if key == name and isinstance(value, dict):
                yield value
        for _, value in values:
            yield from _named(value, name)
