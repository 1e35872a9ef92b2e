"""Loggers: where the numbers of a run go beside its record."""

import csv
import io
from pathlib import Path
from typing import Any, Protocol

from fcl_bench.files import write_atomically, writing_to


class Logger(Protocol):
    """Somewhere for numbers to go."""

    def log(self, folder: Path, result: dict[str, Any]) -> None:
        """Told the result so far after every task."""
        ...


class CSV:
    """``metrics.csv`` in the run folder: a row per task, a column per curve."""

    def log(self, folder: Path, result: dict[str, Any]) -> None:
        """Write the whole table anew: it is small, and a resumed run then has no double rows."""
        table = io.StringIO()
        rows = csv.writer(table)
        rows.writerow(["task", *result["curves"]])
        rows.writerows(enumerate_rows(result["curves"]))
        with writing_to(folder, "output_dir"):
            write_atomically(folder / "metrics.csv", table.getvalue().encode())


def enumerate_rows(curves: dict[str, list[float | None]]) -> list[list[float | None]]:
    """The curves as rows, numbered from 1.

    >>> enumerate_rows({"a": [1.0, 2.0], "b": [3.0, None]})
    [[1, 1.0, 3.0], [2, 2.0, None]]
    """
    return [[number, *values] for number, values in enumerate(zip(*curves.values(), strict=True), start=1)]


class Nothing:
    """No log."""

    def log(self, folder: Path, result: dict[str, Any]) -> None:
        """Do nothing."""
