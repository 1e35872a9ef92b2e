"""What a server can read of the uploads of clients: the choices of the configuration group ``privacy``.

A choice says what a client does to its reply before it leaves, and how the server comes from what arrives to what the
method is given. Methods know nothing of it: they declare what their replies are, and are refused where that is not
enough.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch

from fcl_bench.client import Client

REPLY = "reply"  # the step in which clients run the function of the method


@dataclass(frozen=True)
class Participants:
    """Who takes part in an exchange."""

    asked: Sequence[int]
    answering: Sequence[int]  # those of them that do not drop out, in order of arrival


@dataclass(frozen=True)
class Received:
    """What the method is given at once."""

    reply: Any
    clients: Sequence[int]  # whose data are in it


class Ask(Protocol):
    """Carries out one step of an exchange; what it sends and what comes back is counted."""

    def __call__(
        self, step: str, message: tuple[Any, ...], asked: Sequence[int], answering: Sequence[int]
    ) -> Iterator[tuple[int, Any]]:
        """Each client that answers, and what it sends."""
        ...


class Privacy(Protocol):
    """One choice, at clients and at the server."""

    adds_noise: ClassVar[bool]  # so that no method is exact
    sums_only: ClassVar[bool]  # the method is given one sum per exchange

    def check(self, method: Any) -> None:
        """Raise a :class:`fcl_bench.ConfigError` for a method whose replies cannot be treated in this way."""
        ...

    def answer(self, method: Any, function: str, client: Client, step: str, message: tuple[Any, ...]) -> Any:
        """At a client: what leaves it in this step. ``function`` is what the method asks for."""
        ...

    def receive(
        self, ask: Ask, message: tuple[Any, ...], participants: Participants, exchange: int
    ) -> Iterator[Received]:
        """At the server: carry out one exchange, by its number in the task."""
        ...

    def masked(self, method: Any) -> torch.dtype | None:
        """The type of numbers that arrive behind masks, of which nothing can be said one by one; None without masks."""
        ...

    def facts(self) -> dict[str, Any]:
        """What the record says about it."""
        ...


@dataclass(frozen=True)
class PlainUploads:
    """Every upload, as it is."""

    name: str
    adds_noise: ClassVar[bool] = False
    sums_only: ClassVar[bool] = False

    def check(self, method: Any) -> None:
        """Every method will do."""

    def answer(self, method: Any, function: str, client: Client, step: str, message: tuple[Any, ...]) -> Any:
        """See :class:`Privacy`."""
        return getattr(method, function)(client, *message)

    def receive(
        self, ask: Ask, message: tuple[Any, ...], participants: Participants, exchange: int
    ) -> Iterator[Received]:
        """See :class:`Privacy`."""
        for client, reply in ask(REPLY, message, participants.asked, participants.answering):
            yield Received(reply, [client])

    def masked(self, method: Any) -> torch.dtype | None:
        """Nothing is."""
        return None

    def facts(self) -> dict[str, Any]:
        """Nothing to say."""
        return {}


PLAIN = PlainUploads("none")
