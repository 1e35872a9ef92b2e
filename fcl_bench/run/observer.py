"""Who is told how a run goes on, such as the console."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from fcl_bench.learning import Progress
from fcl_bench.run.result import Result
from fcl_bench.run.scenario import Scenario
from fcl_bench.stream import Task
from fcl_bench.traffic import Exchange


class Observer(Protocol):
    """Told what happens by :func:`fcl_bench.run.experiment.run`."""

    def filling(self, what: str) -> Callable[[int, int], None]:
        """Give a function that is told (rows done, rows in all) while inputs are computed."""
        ...

    def begin(self, scenario: Scenario, method: Any, progress: Progress) -> None:
        """Learning begins, or goes on from ``progress``."""
        ...

    def answered(self, exchange: Exchange) -> None:
        """A client has answered."""
        ...

    def round_done(self) -> None:
        """The method has handed out a model."""
        ...

    def learned(self, task: Task, result: Result) -> None:
        """A task is over."""
        ...

    def finished_before(self, result: Result, folder: Path) -> None:
        """Nothing was left to do."""
        ...

    def end(self, result: Result, folder: Path) -> None:
        """The run is complete."""
        ...
