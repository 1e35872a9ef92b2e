"""How calls reach clients. A transport carries a call to the sites where clients live; it decides nothing else.

A call is plain data, so it can leave the process. A site holds clients: their data, their memories and a method of its
own. Whatever the transport, the answers are the same to the bit: each client call is seeded by itself, in
:mod:`fcl_bench.transport.site`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fcl_bench.client import Memory
from fcl_bench.decoding import Classes
from fcl_bench.privacy import REPLY

Memories = dict[int, Memory]  # by client; a client that keeps nothing may be absent


@dataclass(frozen=True)
class Call:
    """One step of an exchange, as every client receives it."""

    function: str  # the name of a function of the method
    message: tuple[Any, ...]  # of the step; that of the method is empty, or the one message
    seed: int  # of the run; with task, exchange and client it decides the randomness of a call
    task: int
    exchange: int
    step: str = REPLY  # see :mod:`fcl_bench.privacy`
    timeout: float | None = None  # seconds that a client has; None: as many as it needs


@dataclass(frozen=True)
class Failed:
    """Why a client has no reply."""

    reason: str
    error: Exception | None = None  # what its function has raised
    late: bool = False  # whether it took too long


@dataclass(frozen=True)
class Answer:
    """What one client gives back."""

    client: int
    reply: Any
    seconds: float  # inside the function
    stored: int  # bytes of the client's memory after the call
    notes: dict[str, float]  # diagnostics
    failed: Failed | None = None  # then there is no reply


class Site(Protocol):
    """Where some clients live."""

    @property
    def classes(self) -> Classes:
        """Those that messages and memories may be made of."""
        ...

    def answer(self, call: Call, client: int) -> Answer:
        """Run the function that the call names, at one client; what it raises stands in the answer.

        A :class:`fcl_bench.UserError` is raised: it is for the person at the keyboard.
        """
        ...

    def memories(self) -> Memories:
        """What the clients of this site keep."""
        ...

    def restore(self, memories: Memories) -> None:
        """Let clients remember what they kept in an earlier process."""
        ...


class Transport(Protocol):
    """Carries calls to sites."""

    def open(self, site: Callable[[], Site]) -> None:
        """Make the sites, which replace any earlier ones; ``site`` can be pickled, to make them elsewhere."""
        ...

    def map(self, call: Call, clients: Sequence[int]) -> Iterator[Answer]:
        """The answers of these clients, in their order."""
        ...

    def memories(self) -> Memories:
        """What all clients keep."""
        ...

    def restore(self, memories: Memories) -> None:
        """Let clients remember what they kept in an earlier process."""
        ...

    def close(self) -> None:
        """Let go of everything; the transport is not used again."""
        ...
