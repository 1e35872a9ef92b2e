"""Loggers: where the numbers of a run go beside its record."""

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from fcl_bench.files import write_atomically, writing_to
from fcl_bench.run.result import Result

Log = Callable[[Result], None]  # told the result so far after every task


class Logger(Protocol):
    """Somewhere for numbers to go."""

    def opened(self, folder: Path) -> AbstractContextManager[Log]:
        """For the time of a run, whose record is being written to ``folder``.

        The record is the source: it may hold tasks already, if the run was resumed, and on leaving it is complete,
        unless an exception has ended the run.
        """
        ...


class CSV:
    """``metrics.csv`` in the run folder: a row per task, a column per curve."""

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Log]:
        """Write the whole table anew after every task: it is small, and a resumed run then has no double rows."""

        def log(result: Result) -> None:
            table = io.StringIO()
            rows = csv.writer(table)
            rows.writerow(["task", *result["curves"]])
            rows.writerows(enumerate_rows(result["curves"]))
            with writing_to(folder, "output_dir"):
                write_atomically(folder / "metrics.csv", table.getvalue().encode())

        yield log


def enumerate_rows(curves: dict[str, list[float | None]]) -> list[list[float | None]]:
    """The curves as rows, numbered from 1.

    >>> enumerate_rows({"a": [1.0, 2.0], "b": [3.0, None]})
    [[1, 1.0, 3.0], [2, 2.0, None]]
    """
    return [[number, *values] for number, values in enumerate(zip(*curves.values(), strict=True), start=1)]


class Nothing:
    """No log."""

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Log]:
        """Do nothing."""
        yield lambda result: None
