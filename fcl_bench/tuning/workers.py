"""Trials one by one in this process, or several at once in processes that stay alive from trial to trial.

A process gets stream and labels once; it opens the memory-mapped inputs itself, and the system shares their pages.
"""

import signal
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from omegaconf import DictConfig

from fcl_bench.errors import UserError
from fcl_bench.interruption import apart
from fcl_bench.new_processes import end_with_the_parent, quick_context
from fcl_bench.run.allocator import keep_freed_memory
from fcl_bench.run.scenario import Scenario
from fcl_bench.tuning.trial import Done, carry_out

Job = tuple[str, DictConfig]  # the id and the settings of a trial


def all_done(scenario: Scenario, jobs: Sequence[Job], workers: int) -> Generator[Done]:
    """Each trial when it has come to its end."""
    if workers == 1 or len(jobs) < 2:
        keep_freed_memory()
        for job in jobs:
            yield carry_out(scenario, *job)
        return
    running = [Worker.started(scenario) for _ in range(min(workers, len(jobs)))]
    try:
        yield from _shared_out(running, jobs)
    finally:
        for worker in running:
            worker.end()


def _shared_out(running: Sequence["Worker"], jobs: Iterable[Job]) -> Generator[Done]:
    left = iter(jobs)
    busy: dict[Any, Worker] = {}
    for worker, job in zip(running, left, strict=False):
        worker.give(job)
        busy[worker.pipe] = worker
    while busy:
        for pipe in wait(list(busy)):
            worker = busy[pipe]
            done = worker.receive()
            following = next(left, None)
            if following is None:
                del busy[pipe]
            else:
                worker.give(following)
            yield done


@dataclass(frozen=True)
class Worker:
    """A process that carries out trials, and the pipe to it."""

    process: Any
    pipe: Connection

    @classmethod
    def started(cls, scenario: Scenario) -> "Worker":
        """A new one, which Ctrl-C does not reach."""
        context = quick_context()
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, scenario), daemon=True)
        apart(process.start)
        theirs.close()
        return cls(process, ours)

    def give(self, job: Job) -> None:
        """Have it carry out a trial."""
        with self._alive():
            self.pipe.send(job)

    def receive(self) -> Done:
        """What came of the trial that it was given."""
        with self._alive():
            return self.pipe.recv()

    def end(self) -> None:
        """End the process, whatever it does."""
        self.pipe.close()
        self.process.kill()
        self.process.join()

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """Say in a sentence that it is not."""
        try:
            yield
        except (EOFError, OSError):
            self.process.join()
            raise UserError(
                f"A process of tune ended in the middle of a trial (exit code {self.process.exitcode}). The same "
                "command goes on with the trials that are left; if memory ran out, with a smaller --workers."
            ) from None


def serve(pipe: Connection, scenario: Scenario) -> None:
    """Carry out the trials that come, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_the_parent()
    keep_freed_memory()
    while True:
        try:
            trial, config = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(carry_out(scenario, trial, config))
