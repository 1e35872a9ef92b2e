"""Where a client call runs: a site makes the client out of its data and memory, seeds the call, and runs it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from fcl_bench.client import Client, Memory
from fcl_bench.client_data import ClientData, Rows
from fcl_bench.decoding import Classes
from fcl_bench.errors import UserError
from fcl_bench.message_classes import declared_classes
from fcl_bench.privacy import PLAIN, Privacy
from fcl_bench.seeds import client_call_seed, seeded
from fcl_bench.stream import Stream
from fcl_bench.threads import threads_for
from fcl_bench.traffic import size
from fcl_bench.transport import Answer, Call, Failed, Memories
from fcl_bench.transport.time_limit import OutOfTime, time_limit


@dataclass
class LocalSite:
    """Any number of clients, which share a method object."""

    method: Any
    stream: Stream
    inputs: Rows  # every training input
    numbers: Tensor  # (training samples,) registered class numbers
    privacy: Privacy = PLAIN
    kept: Memories = field(default_factory=dict)

    @property
    def classes(self) -> Classes:
        """See :class:`fcl_bench.transport.Site`."""
        return {**declared_classes(type(self.method)), **declared_classes(type(self.privacy))}

    def answer(self, call: Call, client: int) -> Answer:
        """See :class:`fcl_bench.transport.Site`.

        Each call has its own randomness, so neither the order nor the place of calls matters. It has one thread; a
        function with large tensors asks for more by ``threads_for``. After a call that fails, the client remembers what
        it did before.
        """
        memory = self.kept.setdefault(client, {})
        before = dict(memory)
        present = self._client(call.task, client, memory)
        start = perf_counter()
        try:
            with seeded(client_call_seed(call.seed, call.task, call.exchange, client)), threads_for(0):
                start = perf_counter()
                with time_limit(call.timeout):
                    reply = self.privacy.answer(self.method, call.function, present, call.step, call.message)
                seconds = perf_counter() - start
            stored = size(memory, f"the memory of client {client}") if memory else 0
            return Answer(client, reply, seconds, stored, present.notes)
        except UserError:
            raise
        except OutOfTime as error:
            failed = Failed(str(error), late=True)
        except Exception as error:
            failed = Failed(f"it has raised {type(error).__name__}: {error}".rstrip(" .:"), error)
        memory.clear()
        memory.update(before)
        return Answer(client, None, perf_counter() - start, size(memory), {}, failed)

    def memories(self) -> Memories:
        """See :class:`fcl_bench.transport.Site`."""
        return {client: memory for client, memory in self.kept.items() if memory}

    def restore(self, memories: Memories) -> None:
        """See :class:`fcl_bench.transport.Site`; the dictionaries are copied, as clients write into them."""
        self.kept = {client: dict(memory) for client, memory in memories.items()}

    def _client(self, task: int, client: int, memory: Memory) -> Client:
        indices = torch.from_numpy(self.stream.indices(task, client))
        data = ClientData(self.inputs, indices, self.numbers[indices])
        return Client(client, data, self.stream.tasks[task].registrations[client], memory)


@dataclass(frozen=True)
class LocalSites:
    """Makes sites, here or in another process: it pickles to little more than the stream."""

    build: Callable[[], Any]  # makes a fresh method
    stream: Stream
    inputs: Rows
    numbers: Tensor
    privacy: Privacy = PLAIN

    def __call__(self) -> LocalSite:
        """A new site."""
        return LocalSite(self.build(), self.stream, self.inputs, self.numbers, self.privacy)
