"""A client that lies: a transport on whose way replies are changed, and what the door says to each of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fcl_bench.checks.mutations import Mutation, mutations
from fcl_bench.door.facts import Facts
from fcl_bench.door.reading import complaint, declared_reply
from fcl_bench.message import encode
from fcl_bench.stream import Stream
from fcl_bench.transport import Answer, Call, Memories, Site, Transport


@dataclass
class Hostile:
    """Carries calls as another transport does, and changes answers: ``change`` gives another reply, or the same."""

    inner: Transport
    change: Callable[[Call, Answer], Any]

    def open(self, site: Callable[[], Site]) -> None:
        """See :class:`fcl_bench.transport.Transport`."""
        self.inner.open(site)

    def map(self, call: Call, clients: Sequence[int]) -> Iterator[Answer]:
        """See :class:`fcl_bench.transport.Transport`."""
        for answer in self.inner.map(call, clients):
            yield replace(answer, reply=self.change(call, answer))

    def memories(self) -> Memories:
        """See :class:`fcl_bench.transport.Transport`."""
        return self.inner.memories()

    def restore(self, memories: Memories) -> None:
        """See :class:`fcl_bench.transport.Transport`."""
        self.inner.restore(memories)

    def close(self) -> None:
        """See :class:`fcl_bench.transport.Transport`."""
        self.inner.close()


def lies(reply: Any, stream: Stream, task: int, client: int) -> Iterator[Mutation]:
    """Every reply that a client might give in place of its honest one, if it is another one."""
    honest = content(reply)
    for mutation in mutations(reply, foreign_class(stream, task, client), stream.tasks[task].seen):
        if content(mutation.reply) != honest:
            yield mutation


def said_to(method: Any, call: Call, reply: Any, stream: Stream, client: int, inputs: Any) -> str | None:
    """The reason for which the door keeps a reply out; None if it lets it in."""
    facts = Facts(method, call.message, stream, call.task, client, inputs)
    return complaint(declared_reply(getattr(method, call.function)), reply, facts)


def foreign_class(stream: Stream, task: int, client: int) -> int | None:
    """A class that is registered, but not by this client in this task or before."""
    own: set[int] = set()
    for earlier in stream.tasks[: task + 1]:
        registration = earlier.registrations[client]
        own |= {*registration.known, *registration.new}
    others = set(range(stream.tasks[task].seen)) - own
    return min(others) if others else None


def content(reply: Any) -> bytes | None:
    """A reply as bytes, to be compared; None if it cannot travel."""
    try:
        return encode(reply)
    except Exception:
        return None
