"""The tables as one CSV: a line per row of every table, numbers in the units of the records."""

import csv
import io
from collections.abc import Iterator, Sequence

from fcl_bench.leaderboard.boards import Board, Row

STATISTICS = ("mean", "sd", "low", "high")  # low and high: 95 % bootstrap interval
COMPARISON = ("pairs", "difference", "p", "p_holm")
Cell = str | float | None


def sheet(boards: Sequence[Board]) -> str:
    """The conditions that name a table, the method, every metric, and the comparison with the best."""
    conditions = list(dict.fromkeys(key for board in boards for key in board.conditions))
    metrics = boards[0].metrics
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(_titles(conditions, metrics))
    for board in boards:
        values = [board.conditions.get(key) for key in conditions]
        for row in board.rows:
            lines.writerow([board.heading, *values, *_row(row, metrics), board.sort, *_comparison(row)])
    return file.getvalue()


def _titles(conditions: Sequence[str], metrics: Sequence[str]) -> list[str]:
    titles = ["heading", *conditions, "method", "row", "classifier", "facts", "seeds"]
    titles += [f"{metric}_{name}" for metric in metrics for name in STATISTICS]
    return [*titles, "compared_by", *(f"{name}_to_best" for name in COMPARISON)]


def _row(row: Row, metrics: Sequence[str]) -> Iterator[Cell]:
    yield from (row.method, row.name, row.runs[0].classifier, " ".join(row.facts), len(row.runs))
    for metric in metrics:
        score = row.scores[metric]
        low, high = score.interval or (None, None)
        yield from (score.mean, score.deviation, low, high)


def _comparison(row: Row) -> list[Cell]:
    return [getattr(row.comparison, name, None) for name in COMPARISON]
