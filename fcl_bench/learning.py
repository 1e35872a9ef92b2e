"""The one learning loop: a method learns a stream task by task. Progress is a value, and learning goes on from it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from time import perf_counter
from typing import Any

from fcl_bench.errors import UserError
from fcl_bench.federation import Clients, Federation
from fcl_bench.registration import Task
from fcl_bench.seeds import seeded, server_step_seed

_END = object()


@dataclass(frozen=True)
class Costs:
    """Traffic, time, samples revealed and faults so far.

    Client seconds are work: several clients at once add up to more than the wall's. None is not measured.
    """

    uplink_bytes: int = 0
    downlink_bytes: int = 0
    exchanges: int = 0
    client_seconds: float = 0.0
    server_seconds: float = 0.0
    wall_seconds: float = 0.0
    samples_revealed: int | None = None
    revealing_uploads: int | None = None
    lost_answers: int | None = None
    late_answers: int | None = None
    double_answers: int | None = None
    rejected_replies: int = 0  # answers of clients that the method was not given

    def __add__(self, other: "Costs") -> "Costs":
        names = [each.name for each in fields(self)]
        return Costs(**{name: _sum([getattr(self, name), getattr(other, name)]) for name in names})


@dataclass(frozen=True)
class Progress:
    """How far a run is: all that ``learn`` needs to go on, except what clients keep."""

    task: int  # the task under way; between two tasks, the next one
    yielded: int  # states of this task that were handed out; 0 between two tasks
    exchanges: int  # of this task, carried out
    state: Any
    costs: Costs

    @property
    def between_tasks(self) -> bool:
        """Whether the task before is over and the next has not begun."""
        return self.yielded == 0

    def at(self, state: Any) -> "Progress":
        """The same, with a state that was saved and loaded."""
        return replace(self, state=state)

    def plus(self, costs: Costs) -> "Progress":
        """The same, after more was spent."""
        return replace(self, costs=self.costs + costs)


def beginning(method: Any) -> Progress:
    """Before the first task."""
    return Progress(0, 0, 0, method.init(), Costs())


def learn(method: Any, federation: Federation, start: Progress) -> Iterator[Progress]:
    """Progress after every state that the method hands out, and once more at the end of each task."""
    progress = start
    for task in federation.stream.tasks[start.task :]:
        for progress in _learn_task(method, federation, task, progress):
            yield progress


def _learn_task(method: Any, federation: Federation, task: Task, start: Progress) -> Iterator[Progress]:
    """One task, or the rest of it: step by step, each up to the next state that is handed out."""
    clients = federation.open(method, task, start.yielded, start.exchanges)
    states = _states(method, start.state, clients)
    progress = replace(start, task=task.index)
    while True:
        with seeded(server_step_seed(federation.seed, task.index, progress.yielded)):
            meter = _Meter(clients)
            state = next(states, _END)
            clients.finish()
            costs = progress.costs + meter.costs()
        if state is _END:
            break
        exchanges = start.exchanges + len(clients.exchanges)
        progress = Progress(task.index, progress.yielded + 1, exchanges, state, costs)
        yield progress
    if progress.yielded == 0:
        name = type(method).__name__
        raise UserError(f"{name}.learn has handed out no state in task {task.index + 1}: it must yield at least one.")
    yield Progress(task.index + 1, 0, 0, progress.state, costs)


def _states(method: Any, state: Any, clients: Clients) -> Iterator[Any]:
    returned = method.learn(state, clients.task, clients)
    if not isinstance(returned, Iterator):
        raise UserError(
            f"Expected {type(method).__name__}.learn to yield states, but it returned {type(returned).__name__}: "
            "write `yield state` where there is a model worth scoring."
        )
    yield from returned


class _Meter:
    """What a step costs. The server's seconds are those that were not spent behind the door to the clients."""

    def __init__(self, clients: Clients):
        self.clients = clients
        self.exchanges = len(clients.exchanges)
        self.behind_the_door = clients.seconds
        self.start = perf_counter()

    def costs(self) -> Costs:
        """Since the meter was made."""
        elapsed = perf_counter() - self.start
        exchanges = self.clients.exchanges[self.exchanges :]
        return Costs(
            uplink_bytes=sum(exchange.uplink_bytes for exchange in exchanges),
            downlink_bytes=sum(exchange.downlink_bytes for exchange in exchanges),
            exchanges=len(exchanges),
            client_seconds=sum(exchange.client_seconds for exchange in exchanges),
            server_seconds=elapsed - (self.clients.seconds - self.behind_the_door),
            wall_seconds=elapsed,
            samples_revealed=_sum(exchange.samples_revealed for exchange in exchanges),
            revealing_uploads=_sum(exchange.revealing_uploads for exchange in exchanges),
            lost_answers=sum(exchange.lost for exchange in exchanges),
            late_answers=sum(exchange.late for exchange in exchanges),
            double_answers=sum(exchange.double for exchange in exchanges),
            rejected_replies=sum(exchange.rejected_replies for exchange in exchanges),
        )


def _sum(values: Iterable[Any]) -> Any:
    """Of what was measured; None if nothing was."""
    measured = [value for value in values if value is not None]
    return sum(measured) if measured else None
