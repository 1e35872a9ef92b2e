"""The one learning loop: a method learns a stream, and progress is a value from which it can go on."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from time import perf_counter
from typing import Any

from fcl_bench.errors import UserError
from fcl_bench.federation import Exchange, Federation
from fcl_bench.registration import Task
from fcl_bench.seeds import derive, seeded

_END = object()


@dataclass(frozen=True)
class Costs:
    """Traffic and time so far. Client seconds are work: several clients at once add up to more than the wall's."""

    uplink_bytes: int = 0
    downlink_bytes: int = 0
    exchanges: int = 0
    client_seconds: float = 0.0
    server_seconds: float = 0.0
    wall_seconds: float = 0.0

    def __add__(self, other: "Costs") -> "Costs":
        sums = {each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)}
        return Costs(**sums)


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
    """One task, or the rest of it."""
    clients = federation.open(method, task, start.yielded, start.exchanges)
    name = type(method).__name__
    costs = start.costs
    state = start.state
    yielded = start.yielded
    states = None
    while True:
        before = len(clients.exchanges)
        behind_the_door = clients.seconds
        with seeded(_server_seed(federation.seed, task.index, yielded)):
            begun = perf_counter()
            if states is None:
                states = _states(method.learn(state, clients.task, clients), name)
            handed_out = next(states, _END)
            clients.finish()
            elapsed = perf_counter() - begun
        server = elapsed - (clients.seconds - behind_the_door)
        costs = costs + _spent(clients.exchanges[before:], server, elapsed)
        if handed_out is _END:
            break
        state = handed_out
        yielded += 1
        yield Progress(task.index, yielded, start.exchanges + len(clients.exchanges), state, costs)
    if yielded == 0:
        raise UserError(f"{name}.learn has handed out no state in task {task.index + 1}: it must yield at least one.")
    yield Progress(task.index + 1, 0, 0, state, costs)


def _states(returned: Any, name: str) -> Iterator[Any]:
    if not isinstance(returned, Iterator):
        raise UserError(
            f"Expected {name}.learn to yield states, but it returned {type(returned).__name__}: "
            "write `yield state` where there is a model worth scoring."
        )
    return returned


def _server_seed(seed: int, task: int, yielded: int) -> int:
    """Randomness of the server belongs to a step, so a task that is resumed draws as an uninterrupted one."""
    if yielded == 0:
        return derive(seed, "server", task)
    return derive(seed, "server", task, yielded)


def _spent(exchanges: list[Exchange], server_seconds: float, wall_seconds: float) -> Costs:
    return Costs(
        uplink_bytes=sum(exchange.uplink_bytes for exchange in exchanges),
        downlink_bytes=sum(exchange.downlink_bytes for exchange in exchanges),
        exchanges=len(exchanges),
        client_seconds=sum(exchange.client_seconds for exchange in exchanges),
        server_seconds=server_seconds,
        wall_seconds=wall_seconds,
    )
