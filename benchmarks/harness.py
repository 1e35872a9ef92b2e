"""The harness as a run uses it, without record and console."""

from contextlib import closing
from typing import Any

from fcl_bench.config.compose import build, composed
from fcl_bench.federation import Federation
from fcl_bench.learning import Costs, Progress, beginning, learn
from fcl_bench.method import Method
from fcl_bench.run.allocator import keep_freed_memory
from fcl_bench.run.scenario import Scenario, materialise, plan


def make_scenario(*overrides: str) -> Scenario:
    """The scenario of the run that ``python -m fcl_bench OVERRIDES`` would be."""
    keep_freed_memory()  # as the command does
    config = composed(*overrides)
    return materialise(config, plan(config), lambda what: lambda done, total: None)


def learn_all(scenario: Scenario, method: Method | None = None) -> tuple[Any, Costs]:
    """The whole stream, task after task as in a run: the last state, and what it has cost."""
    method = method or scenario.method()
    with closing(build(scenario.config.transport)) as transport:
        progress = beginning(method)
        for progress in learn(method, scenario.federation(transport), progress):
            pass
    method.classifier(progress.state)
    return progress.state, progress.costs


def learn_one_task(method: Method, federation: Federation, start: Progress) -> Progress:
    """How far a method is after one more task; clients remember in the federation's transport."""
    return next(progress for progress in learn(method, federation, start) if progress.between_tasks)
