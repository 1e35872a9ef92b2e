"""The tables as one CSV: a line per row of every table, numbers in the units of the records."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from fcl_bench.leaderboard.boards import Board, Row

STATISTICS = ("mean", "sd", "low", "high")  # low and high: Student's 95 % interval
COMPARISON = ("pairs", "difference", "p", "p_holm")
FORMULA = ("=", "+", "-", "@")  # with which a cell begins that a spreadsheet would compute
Cell = str | float | None


def sheet(boards: Sequence[Board]) -> str:
    """The conditions that name a table, the method, every metric, and the comparison with the best."""
    conditions: dict[str, None] = {}
    for board in boards:
        conditions |= dict.fromkeys(board.conditions)
    metrics = boards[0].metrics
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(map(_text, ["heading", *conditions, *_titles(metrics)]))
    for board in boards:
        values = [board.conditions.get(key) for key in conditions]
        for row in board.rows:
            lines.writerow(map(_text, [board.heading, *values, *_cells(row, metrics, board.sort)]))
    return file.getvalue()


def _text(cell: Any) -> Any:
    """A text that looks like a formula begins with an apostrophe, as one types it; numbers are as they are.

    >>> _text("=1+1"), _text(-1.0), _text("afcl")
    ("'=1+1", -1.0, 'afcl')
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def _titles(metrics: Sequence[str]) -> Iterator[str]:
    yield from ("method", "row", "classifier", "facts", "settings", "hyperparameters", "trials", "seeds")
    for metric in metrics:
        for name in STATISTICS:
            yield f"{metric}_{name}"
    yield "compared_by"
    for name in COMPARISON:
        yield f"{name}_to_best"


def _cells(row: Row, metrics: Sequence[str], sort: str) -> Iterator[Cell]:
    """As :func:`_titles`."""
    yield row.method
    yield row.name
    yield row.runs[0].classifier
    yield " ".join(row.facts)
    yield row.tuned.name if row.tuned else None
    yield " ".join(row.tuned.hyperparameters or ()) if row.tuned else None
    yield row.tuned.trials if row.tuned else None
    yield len(row.runs)
    for metric in metrics:
        score = row.scores[metric]
        yield score.mean
        yield score.deviation
        yield from score.interval or (None, None)
    yield sort
    for name in COMPARISON:
        yield getattr(row.comparison, name, None)
