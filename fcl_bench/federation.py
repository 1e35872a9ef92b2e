"""Clients, and the one door to them: ``clients.map(function, message)``.

The harness decides who takes part, seeds every client call, and counts what crosses the door.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Annotated, Any, Literal, TypeVar, overload

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fcl_bench.message import size
from fcl_bench.seeds import derive, generator, seeded
from fcl_bench.stream import Registration, Stream, Task
from fcl_bench.transport import Request, Transport

Message = TypeVar("Message")
Reply = TypeVar("Reply")


class Share:
    """One client's samples of one task. Inputs stay in the memory map until they are asked for."""

    def __init__(self, inputs: Tensor, numbers: Tensor, indices: np.ndarray):
        self._inputs, self._indices = inputs, torch.from_numpy(indices)
        self.labels = numbers[self._indices]  # (n,) registered class numbers

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        return self._inputs[self._indices[positions]], self.labels[positions]

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """All inputs and labels, in memory."""
        return self._inputs[self._indices], self.labels

    def batches(self, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and labels in the order in which the samples lie on disk, each sample once."""
        for positions in self._indices.argsort().split(batch_size):
            if len(positions):
                yield self[positions]


@dataclass(frozen=True)
class Client:
    """What a client function sees: this client's share of this task, and its own memory."""

    id: int
    data: Share
    registration: Registration  # which of its classes were known when it registered, and which are new
    memory: dict[str, Any] = field(default_factory=dict)  # private, kept between calls, never sent; holds messages


@dataclass(frozen=True)
class Participation:
    """Who takes part in an exchange, and in which order the answers come."""

    participation: Annotated[float, Field(gt=0, le=1)] = 1.0  # share of the clients asked
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0  # probability that an asked client never answers
    arrival: Literal["ordered", "shuffled"] = "ordered"

    def draw(self, clients: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The clients asked, and those of them that answer, in order of arrival."""
        asked = random.permutation(clients)[: max(1, round(self.participation * clients))]
        answering = asked[random.random(len(asked)) >= self.dropout]
        return asked, answering if self.arrival == "shuffled" else np.sort(answering)


@dataclass
class Exchange:
    """The account of one ``clients.map``."""

    task: int
    exchange: int
    function: str
    asked: int
    answered: int = 0
    downlink_bytes: int = 0
    uplink_bytes: int = 0
    client_seconds: float = 0.0


class Clients:
    """The clients during one task."""

    def __init__(self, federation: "Federation", method: Any, task: Task):
        self._federation, self._method, self.task, self.seed = federation, method, task, federation.seed
        self._pending: Iterator[Any] = iter(())
        self.exchanges: list[Exchange] = []

    def __len__(self) -> int:
        return self._federation.stream.clients

    @overload
    def map(self, function: Callable[[Client], Reply], /) -> Iterator[Reply]: ...

    @overload
    def map(self, function: Callable[[Client, Message], Reply], message: Message, /) -> Iterator[Reply]: ...

    def map(self, function: Callable[..., Any], /, *message: Any) -> Iterator[Any]:
        """Run ``function(client[, message])``, a method of the method, at every client that takes part.

        Replies come one by one, so memory does not grow with the number of clients. An exchange that was begun is
        always carried through, even where its replies are not wanted.
        """
        if getattr(function, "__self__", None) is not self._method:
            raise TypeError(
                f"Expected clients.map to get a function of {type(self._method).__name__} itself (self.some_function), "
                f"but got {function!r}: clients could not find it by name."
            )
        self.finish()
        exchange = Exchange(self.task.index, len(self.exchanges), function.__name__, asked=0)
        self.exchanges.append(exchange)
        self._pending = self._carry_out(exchange, function, message)
        return self._pending

    def tell(self, function: Callable[..., None], /, *message: Any) -> None:
        """Run ``function(client[, message])`` at every client that takes part, now; no reply is wanted."""
        self.map(function, *message)
        self.finish()

    def finish(self) -> None:
        """Carry the exchange under way through to its end."""
        for _ in self._pending:
            pass

    def _carry_out(self, exchange: Exchange, function: Callable[..., Any], message: tuple) -> Iterator[Any]:
        federation = self._federation
        place = (federation.seed, self.task.index, exchange.exchange)
        random = generator(*place, "participation")
        asked, answering = federation.participation.draw(len(self), random)
        exchange.asked = len(asked)
        exchange.downlink_bytes = len(asked) * size(message)
        request = Request(federation.build, function, message, place)
        present = (federation.client(self.task, int(number)) for number in answering)
        for reply, seconds in federation.transport.map(request, present):
            exchange.answered += 1
            exchange.uplink_bytes += size(reply, f"the reply of {function.__name__}")
            exchange.client_seconds += seconds
            federation.on_answer(exchange)
            yield reply
        federation.on_exchange(exchange)


@dataclass
class Federation:
    """All clients over the whole stream."""

    stream: Stream
    inputs: Tensor  # every training input, memory-mapped
    labels: np.ndarray  # original labels of the training samples
    build: Callable[[], Any]  # makes a fresh method, for transports that run clients elsewhere
    transport: Transport
    participation: Participation
    seed: int
    on_answer: Callable[[Exchange], None] = lambda exchange: None
    on_exchange: Callable[[Exchange], None] = lambda exchange: None
    memories: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = torch.from_numpy(self.stream.number[self.labels])

    def open(self, method: Any, task: Task) -> Clients:
        """The clients as the method may reach them during ``task``."""
        return Clients(self, method, task)

    def client(self, task: Task, number: int) -> Client:
        """Client ``number`` with its share of ``task``."""
        share = Share(self.inputs, self._numbers, self.stream.indices(task.index, number))
        return Client(number, share, task.registrations[number], self.memories.setdefault(number, {}))

    @property
    def stored_bytes(self) -> int:
        """What all clients keep between tasks."""
        return sum(size(memory, f"the memory of client {client}") for client, memory in self.memories.items())


_END = object()


@dataclass
class Meter:
    """Splits the time of a method's ``learn`` into clients' and server's share."""

    client_seconds: float = 0.0
    server_seconds: float = 0.0

    def learn(self, method: Any, state: Any, clients: Clients) -> Iterator[Any]:
        """The states of ``method.learn`` with the server's randomness of this task; no exchange is half done at any."""
        with seeded(derive(clients.seed, "server", clients.task.index)):
            yield from self._timed(method.learn(state, clients.task, clients), clients)

    def serve(self, function: Callable[[Any], Reply], state: Any) -> Reply:
        """What the server does outside of ``learn``, such as making a classifier from a state."""
        start = perf_counter()
        result = function(state)
        self.server_seconds += perf_counter() - start
        return result

    def _timed(self, states: Iterator[Any], clients: Clients) -> Iterator[Any]:
        while True:
            begun, start = len(clients.exchanges), perf_counter()
            state = next(states, _END)
            clients.finish()
            elapsed = perf_counter() - start
            in_clients = sum(exchange.client_seconds for exchange in clients.exchanges[begun:])
            self.client_seconds += in_clients
            self.server_seconds += max(0.0, elapsed - in_clients)
            if state is _END:
                return
            yield state
