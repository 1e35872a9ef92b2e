"""Where client calls run. A transport turns a request and some clients into replies; it decides nothing else."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from fcl_bench.seeds import derive, seeded
from fcl_bench.threads import threads_for

if TYPE_CHECKING:
    from fcl_bench.federation import Client


@dataclass(frozen=True)
class Request:
    """One exchange as a transport sees it."""

    build: Callable[[], Any]  # makes a fresh method
    function: Callable[..., Any]  # bound to the server's method
    message: tuple[Any, ...]  # empty, or the one message to every client
    place: tuple[int, int, int]  # run seed, task, exchange: where the randomness of this exchange comes from


class Transport(Protocol):
    """Runs client calls somewhere."""

    def map(self, request: Request, clients: Iterable["Client"]) -> Iterator[tuple[Any, float]]:
        """Each client's reply and the seconds it took, in the order of ``clients``."""
        ...


def call(
    function: Callable[..., Any], client: "Client", message: tuple[Any, ...], place: tuple[int, ...]
) -> tuple[Any, float]:
    """Run one client call with its own randomness, so that neither order nor place of the calls can matter.

    It has one thread; a function that has large tensors to work on asks for more by ``threads_for``.
    """
    with seeded(derive(*place, client.id)), threads_for(0):
        start = perf_counter()
        reply = function(client, *message)
        return reply, perf_counter() - start
