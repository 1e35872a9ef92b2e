"""Clients, and the one door to them: ``clients.map(function, message)``.

The harness decides who takes part in an exchange. What it costs is counted in :mod:`fcl_bench.traffic`; calls are run
and seeded in :mod:`fcl_bench.transport.site`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Annotated, Any, Literal, TypeVar, overload

import numpy as np
import torch
from pydantic import Field, PositiveFloat

from fcl_bench.client import Client
from fcl_bench.client_data import ClientData, Rows
from fcl_bench.door.gate import Door, Gate, OnBadReply
from fcl_bench.privacy import PLAIN, REPLY, Participants, Privacy
from fcl_bench.revealed import samples_revealed
from fcl_bench.seeds import generator
from fcl_bench.stream import Stream, Task
from fcl_bench.traffic import Exchange, size
from fcl_bench.transport import Call, Memories, Transport
from fcl_bench.transport.site import LocalSites

__all__ = ["Client", "Clients", "Federation", "Participation"]

Message = TypeVar("Message")
Reply = TypeVar("Reply")
_END = object()


@dataclass(frozen=True)
class Participation:
    """Who takes part in an exchange, and in which order the answers come."""

    participation: Annotated[float, Field(gt=0, le=1)] = 1.0  # share of the clients asked
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0  # probability that an asked client never answers
    arrival: Literal["ordered", "shuffled"] = "ordered"
    on_bad_reply: OnBadReply = "raise"  # what becomes of an answer that is not as declared, or of none
    timeout: PositiveFloat | None = None  # seconds that a client may take for an answer
    max_norm: PositiveFloat | None = None  # the largest Euclidean norm of all tensors of a reply together

    def draw(self, clients: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The clients asked, and those of them that answer, in order of arrival."""
        asked = random.permutation(clients)[: max(1, round(self.participation * clients))]
        answering = asked[random.random(len(asked)) >= self.dropout]
        return asked, answering if self.arrival == "shuffled" else np.sort(answering)


class Clients:
    """The clients during one task."""

    def __init__(self, federation: "Federation", method: Any, task: Task, exchanges: int = 0):
        """``exchanges`` of this task were carried out before, if it is resumed."""
        self.task = task
        self.exchanges: list[Exchange] = []
        self.seconds = 0.0  # spent behind the door: asking, waiting, counting, reporting
        self._federation = federation
        self._method = method
        self._before = exchanges
        self._pending: Iterator[Any] = iter(())
        self._account: Exchange | None = None  # not yet closed

    def __len__(self) -> int:
        return self._federation.stream.clients

    @overload
    def map(self, function: Callable[[Client], Reply], /) -> Iterator[Reply]: ...

    @overload
    def map(self, function: Callable[[Client, Message], Reply], message: Message, /) -> Iterator[Reply]: ...

    def map(self, function: Callable[..., Any], /, *message: Any) -> Iterator[Any]:
        """Run ``function(client[, message])``, a function of the method, at every client that takes part.

        Replies come one by one, so memory does not grow with the number of clients. An exchange that was begun is
        always carried through, at the latest when the next one begins.
        """
        if getattr(function, "__self__", None) is not self._method:
            raise TypeError(
                f"Expected clients.map to get a function of {type(self._method).__name__} itself (self.some_function), "
                f"but got {function!r}: clients could not find it by name."
            )
        self.finish()
        exchange = Exchange(self.task.index, self._before + len(self.exchanges), function.__name__, asked=0)
        self.exchanges.append(exchange)
        self._account = exchange
        self._pending = self._timed(self._exchange(exchange, message))
        return self._pending

    @overload
    def tell(self, function: Callable[[Client], None], /) -> None: ...

    @overload
    def tell(self, function: Callable[[Client, Message], None], message: Message, /) -> None: ...

    def tell(self, function: Callable[..., None], /, *message: Any) -> None:
        """Run ``function(client[, message])`` at every client that takes part, now; no reply is wanted."""
        for _ in self.map(function, *message):
            pass

    def note(self, **values: float) -> None:
        """Leave diagnostics of the server for the record, in the line of the latest exchange."""
        if self._account is None:
            raise RuntimeError("Expected clients.note to follow clients.map: notes belong to an exchange.")
        for name, value in values.items():
            self._account.notes[name] = float(value)

    def finish(self) -> None:
        """Carry the exchange under way through to its end, and close its account."""
        for _ in self._pending:
            pass
        if self._account is not None:
            start = perf_counter()
            self._federation.on_exchange(self._account)
            self._account = None
            self.seconds += perf_counter() - start

    def _exchange(self, exchange: Exchange, message: tuple[Any, ...]) -> Iterator[Any]:
        federation = self._federation
        random = generator(federation.seed, self.task.index, exchange.exchange, "participation")
        asked, answering = federation.participation.draw(len(self), random)
        participants = Participants(asked.tolist(), answering.tolist())
        exchange.asked = len(asked)
        ask = partial(self._ask, exchange, {})
        for received in federation.privacy.receive(ask, message, participants, exchange.exchange):
            exchange.revealed(self._revealed(received.reply, received.clients))
            yield received.reply

    def _ask(
        self,
        exchange: Exchange,
        counts: dict[str, int],
        step: str,
        message: tuple[Any, ...],
        asked: Sequence[int],
        answering: Sequence[int],
    ) -> Iterator[tuple[int, Any]]:
        """One step of an exchange; ``counts`` says how many clients have left each note."""
        federation = self._federation
        exchange.sent(message, len(asked))
        timeout = federation.participation.timeout
        call = Call(exchange.function, message, federation.seed, exchange.task, exchange.exchange, step, timeout)
        gate = Gate(federation.door, federation.privacy, self._method, exchange, step, message, answering)
        for answer in gate.admitted(federation.transport.map(call, answering), federation.stored):
            exchange.received(answer.reply, answer.seconds)
            exchange.noted(answer.notes, counts)
            if step == REPLY:
                exchange.answered += 1
                federation.on_answer(exchange)
            yield answer.client, answer.reply

    def _revealed(self, reply: Any, clients: Sequence[int]) -> int | None:
        """How many samples of these clients can be read off what the server sees; None where it is not measured."""
        ability = getattr(self._method, "class_sums", None)
        found = ability(reply) if ability and reply is not None else None
        return None if found is None else samples_revealed(found, self._federation.held(self.task.index, clients))

    def _timed(self, replies: Iterator[Any]) -> Iterator[Any]:
        while True:
            start = perf_counter()
            reply = next(replies, _END)
            self.seconds += perf_counter() - start
            if reply is _END:
                return
            yield reply


@dataclass
class Federation:
    """All clients over the whole stream."""

    stream: Stream
    inputs: Rows  # every training input
    labels: np.ndarray  # original labels of the training samples
    build: Callable[[], Any]  # makes a fresh method, for the sites where clients live
    transport: Transport
    participation: Participation
    seed: int
    privacy: Privacy = PLAIN
    on_answer: Callable[[Exchange], None] = lambda exchange: None
    on_exchange: Callable[[Exchange], None] = lambda exchange: None

    def __post_init__(self) -> None:
        self.stored: dict[int, int] = {}  # bytes that a client keeps
        who = self.participation
        self.door = Door(self.stream, who.on_bad_reply, who.max_norm, self.inputs)
        self._numbers = torch.from_numpy(self.stream.number[self.labels])
        self.transport.open(LocalSites(self.build, self.stream, self.inputs, self._numbers, self.privacy))

    def open(self, method: Any, task: Task, yielded: int = 0, exchanges: int = 0) -> Clients:
        """The clients as the method may reach them during ``task``, of which so much was done before."""
        public = self._public(task, future=getattr(method, "sees_future_classes", False))
        present = replace(task, yielded=yielded, public=public)
        return Clients(self, method, present, exchanges)

    def held(self, task: int, clients: Sequence[int]) -> ClientData:
        """The samples of some clients in a task."""
        shares = [self.stream.indices(task, client) for client in clients]
        indices = torch.from_numpy(np.concatenate(shares))
        return ClientData(self.inputs, indices, self._numbers[indices])

    def memories(self) -> Memories:
        """What clients keep, by client."""
        return self.transport.memories()

    def restore(self, memories: Memories) -> None:
        """Let clients remember what they kept in an earlier process."""
        self.transport.restore(memories)
        self.stored = {client: size(memory) for client, memory in memories.items()}

    @property
    def stored_bytes(self) -> int:
        """What all clients keep between calls."""
        return sum(self.stored.values())

    def _public(self, task: Task, future: bool) -> ClientData | None:
        """The reserved samples of the classes seen so far, or of all; None where the stream reserves none."""
        if len(self.stream.reserved) == 0:
            return None
        reserved = torch.from_numpy(self.stream.reserved)
        numbers = self._numbers[reserved]
        seen = (numbers >= 0) & (numbers < task.seen)
        if future:
            beyond = len(self.stream.number) + torch.from_numpy(self.labels)[reserved]
            return ClientData(self.inputs, reserved, torch.where(seen, numbers, beyond))
        return ClientData(self.inputs, reserved[seen], numbers[seen])
