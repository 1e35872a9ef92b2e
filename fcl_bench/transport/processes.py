"""Clients in several processes of this machine. A client always lives in the same one, and so does its memory.

All that crosses the border is bytes: calls with their encoded message, answers with their encoded reply. Inputs do not
cross it: a worker opens the memory-mapped file itself, and the system shares its pages between workers.
"""

import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

from joblib import wrap_non_picklable_objects
from pydantic import PositiveInt

from fcl_bench.decoding import Classes, decode
from fcl_bench.errors import UserError
from fcl_bench.interruption import apart
from fcl_bench.message import encode
from fcl_bench.new_processes import quick_context
from fcl_bench.traffic import size
from fcl_bench.transport import Answer, Call, Failed, Memories, Site
from fcl_bench.transport.worker import Failure, Reply, serve

PATIENCE = 2.0  # seconds that workers have to end by themselves
GRACE = 5.0  # seconds more than twice its time that a client has to be interrupted by its own process


class Processes:
    """``workers`` processes; by default as many as there are cores that this process may use."""

    def __init__(self, workers: PositiveInt | None = None):
        self.workers = workers or usable_cores()
        self._workers: list[Worker] = []
        self._classes: Classes = {}
        self._packed = b""  # what makes a site
        self._copies: dict[int, bytes] = {}  # of memories, for clients whose process may have to be replaced

    def open(self, site: Callable[[], Site]) -> None:
        """See :class:`fcl_bench.transport.Transport`; workers that run already are used again."""
        import torch

        self._threads = torch.get_num_threads()  # not a share: sums of large tensors may depend on their number
        while len(self._workers) < self.workers:
            self._workers.append(Worker(len(self._workers), self._threads))
        self._packed = _pickled(site)
        self._copies = {}
        with self._all_or_nothing():
            for worker in self._workers:
                worker.send("open", self._packed, sys.path)
            for worker in self._workers:
                self._classes = worker.receive("while it prepared its clients")

    def map(self, call: Call, clients: Sequence[int]) -> Iterator[Answer]:
        """See :class:`fcl_bench.transport.Transport`.

        A worker answers for its clients one by one and waits when its answers are not fetched, so answers that are
        ready early do not pile up. A worker that does not even stop a client whose time is over is replaced: its
        clients remember what they kept before the exchange, or after their answer if they have given one.
        """
        message = encode(call.message)
        bare = replace(call, message=())
        with self._all_or_nothing():
            for worker in self._workers:
                self._ask(worker, bare, message, clients)
            for place, client in enumerate(clients):
                worker = self._home(client)
                if call.timeout and not worker.pipe.poll(2 * call.timeout + GRACE):
                    self._ask(self._replaced(worker), bare, message, clients[place + 1 :])
                    yield self._out_of_time(client, call.timeout)
                    continue
                reply: Reply = worker.receive(f"while client {client} was at {call.function}")
                if reply.memory is not None:
                    self._copies[client] = reply.memory
                answer = decode(reply.message, self._classes)
                yield Answer(client, answer, reply.seconds, reply.stored, reply.notes, failed=reply.failed)

    def memories(self) -> Memories:
        """See :class:`fcl_bench.transport.Transport`."""
        memories: Memories = {}
        with self._all_or_nothing():
            for worker in self._workers:
                worker.send("memories")
            for worker in self._workers:
                packed = worker.receive("while it handed over memories")
                memories |= decode(packed, self._classes, share=True)
        return memories

    def restore(self, memories: Memories) -> None:
        """See :class:`fcl_bench.transport.Transport`."""
        self._copies = {client: encode(memory) for client, memory in memories.items()}
        with self._all_or_nothing():
            for worker in self._workers:
                own = {client: memory for client, memory in memories.items() if self._home(client) is worker}
                worker.send("restore", encode(own, share=True))
            for worker in self._workers:
                worker.receive("while it took over memories")

    @property
    def process_ids(self) -> list[int]:
        """Of the workers, for those who want to look at them."""
        return [worker.process.pid or 0 for worker in self._workers]

    def close(self) -> None:
        """End all workers, whatever they do."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.pipe.close()
        patience = time.monotonic() + PATIENCE
        for worker in workers:
            worker.end_by(patience)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """After a failure nobody knows what is left in the pipes: all workers end, and ``open`` starts new ones."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _ask(self, worker: "Worker", call: Call, message: bytes, clients: Sequence[int]) -> None:
        """Have a worker answer for those of the clients who live there."""
        own = [client for client in clients if self._home(client) is worker]
        if own:
            worker.send("answer", call, message, own)

    def _replaced(self, old: "Worker") -> "Worker":
        """A new worker in the place of one that hangs, with the memories of its clients."""
        number = self._workers.index(old)
        old.end()
        new = self._workers[number] = Worker(number, self._threads)
        own = {
            client: decode(memory, self._classes)
            for client, memory in self._copies.items()
            if self._home(client) is new
        }
        new.send("open", self._packed, sys.path)
        new.receive("while it prepared its clients")
        new.send("restore", encode(own, share=True))
        new.receive("while it took over memories")
        return new

    def _out_of_time(self, client: int, timeout: float) -> Answer:
        """Of a client whose process has been replaced."""
        reason = f"it took much longer than federation.timeout={timeout:g} seconds, and its process was replaced"
        stored = size(decode(self._copies[client], self._classes)) if client in self._copies else 0
        return Answer(client, None, timeout, stored, {}, Failed(reason, late=True))

    def _home(self, client: int) -> "Worker":
        return self._workers[client % len(self._workers)]


class Worker:
    """A process that runs :func:`fcl_bench.transport.worker.serve`, and the pipe to it."""

    def __init__(self, number: int, threads: int):
        context = quick_context()
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, threads), name=f"worker {number}", daemon=True)
        apart(self.process.start)
        theirs.close()  # so that the pipe ends when the worker does

    def send(self, *request: Any) -> None:
        """Ask for something."""
        try:
            self.pipe.send(request)
        except OSError:
            self._died("before it could be asked")

    def receive(self, when: str) -> Any:
        """The next thing it sends; what went wrong there is raised here."""
        try:
            received = self.pipe.recv()
        except (EOFError, OSError):
            self._died(when)
        if isinstance(received, Failure):
            raise received.error()
        return received

    def end_by(self, moment: float) -> None:
        """Wait until then for the process to notice that its pipe is closed."""
        self.process.join(max(0.0, moment - time.monotonic()))
        self.process.kill()
        self.process.join()

    def end(self) -> None:
        """End the process now."""
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def _died(self, when: str) -> NoReturn:
        self.process.join(PATIENCE)
        raise UserError(
            f"A process of transport=processes ended {when} (exit code {self.process.exitcode}). The same command goes "
            "on from the last checkpoint; if memory ran out, with a smaller transport.workers."
        )


def usable_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _pickled(site: Callable[[], Site]) -> bytes:
    """By value where it has no name to be found by, such as a method that a test makes by a lambda."""
    try:
        return pickle.dumps(site)
    except (pickle.PicklingError, AttributeError, TypeError):
        return pickle.dumps(wrap_non_picklable_objects(site))
