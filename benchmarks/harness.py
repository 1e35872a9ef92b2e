"""The harness as a run uses it, without record and console."""

from typing import Any

from fcl_bench.config.compose import composed
from fcl_bench.federation import Meter
from fcl_bench.method import Method
from fcl_bench.run.allocator import keep_freed_memory
from fcl_bench.run.scenario import World, deal, prepare


def make_world(*overrides: str) -> World:
    """The world of the run that ``python -m fcl_bench OVERRIDES`` would be."""
    keep_freed_memory()  # as the command does
    config = composed(*overrides)
    return prepare(config, deal(config), lambda what: lambda done, total: None)


def learn(world: World, method: Method | None = None) -> tuple[Any, Meter]:
    """The whole stream, task after task as in a run: the last state, and the seconds it took."""
    method, meter, memories = method or world.method(), Meter(), dict[int, Any]()
    state = method.init()
    for task in world.stream.tasks:
        state = learn_task(world, method, state, task.index, memories, meter)
    return state, meter


def learn_task(world: World, method: Method, state: Any, task: int, memories: dict[int, Any], meter: Meter) -> Any:
    """The state after one task more; clients' memories change, and the meter goes on."""
    federation = world.federation(memories, lambda exchange: None, lambda exchange: None)
    for state in meter.learn(method, state, federation.open(method, world.stream.tasks[task])):
        pass
    meter.serve(method.classifier, state)
    return state
