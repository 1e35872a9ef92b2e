"""Loggers: where the numbers of a run go in addition to its record. A logger reads the record and never changes it."""

import csv
import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from omegaconf import DictConfig

from fcl_bench.files import write_atomically, writing_to
from fcl_bench.loggers.exchanges import read_exchanges
from fcl_bench.run.result import Result, read_result

Log = Callable[[Result], None]  # called with the result so far after every task
OWN_FILES = ("fcl_bench.loggers.CSV", "fcl_bench.loggers.NoLogger")  # they write to the run folder, or nothing


class Logger(Protocol):
    """Somewhere for numbers to go."""

    def opened(self, folder: Path) -> AbstractContextManager[Log]:
        """For the time of a run, whose record is being written to ``folder``.

        The record is the source: it may hold tasks already, if the run was resumed, and on leaving it is complete,
        unless an exception has ended the run.
        """
        ...


class CSV:
    """Two tables in the run folder: ``metrics.csv`` with a row per task, ``exchanges.csv`` with a row per exchange."""

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Log]:
        """Write both tables again after every task, and at the end: they are small, and there are no double rows."""

        def log(result: Result) -> None:
            curves = result["curves"]
            _write(folder / "metrics.csv", ["task", *curves], enumerate_rows(curves))
            exchanges = read_exchanges(folder)
            columns = list(dict.fromkeys(name for row in exchanges for name in row))
            _write(folder / "exchanges.csv", columns, ([row.get(name) for name in columns] for row in exchanges))

        yield log
        log(read_result(folder / "result.json"))  # some curves come when the run is complete


class NoLogger:
    """No log."""

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Log]:
        """Do nothing."""
        yield lambda result: None


def enumerate_rows(curves: dict[str, list[float | None]]) -> list[list[float | None]]:
    """The curves as rows, numbered from 1.

    >>> enumerate_rows({"a": [1.0, 2.0], "b": [3.0, None]})
    [[1, 1.0, 3.0], [2, 2.0, None]]
    """
    return [[number, *values] for number, values in enumerate(zip(*curves.values(), strict=True), start=1)]


def warn_of_unused_logger(config: DictConfig) -> None:
    """Say that a run which was finished before has not been logged again."""
    target = config.logger["_target_"]
    if target not in OWN_FILES:
        name = target.rpartition(".")[2]
        warnings.warn(
            f"The logger {name} was not used, as nothing was computed: a run is logged while it runs; "
            "resume=false runs it again and logs it.",
            stacklevel=2,
        )


def _write(path: Path, titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    table = io.StringIO()
    lines = csv.writer(table)
    lines.writerow(titles)
    lines.writerows(rows)
    with writing_to(path.parent, "output_dir"):
        write_atomically(path, table.getvalue().encode())
