"""The tables as one CSV: a line per row of every table, numbers in the units of the records."""

import csv
import io
from collections.abc import Iterator, Sequence

from fcl_bench.leaderboard.boards import Board, Row
from fcl_bench.leaderboard.columns import COLUMNS

STATISTICS = ("mean", "sd", "low", "high")  # low and high: 95 % bootstrap interval
COMPARISON = ("pairs", "difference", "p", "p_holm")


def sheet(boards: Sequence[Board]) -> str:
    """The conditions that name a table, the method, every metric, and the comparison with the best."""
    places = list(dict.fromkeys(key for board in boards for key in board.conditions))
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    metrics = [f"{metric}_{name}" for metric in COLUMNS for name in STATISTICS]
    beside = [f"{name}_to_best" for name in COMPARISON]
    lines.writerow(["heading", *places, "method", "row", "facts", "seeds", *metrics, "compared_by", *beside])
    for board in boards:
        where = [board.heading, *(board.conditions.get(key) for key in places)]
        for row in board.rows:
            facts = " ".join(row.facts)
            lines.writerow(
                [*where, row.method, row.name, facts, len(row.runs), *_numbers(row), board.sort, *_beside(row)]
            )
    return file.getvalue()


def _numbers(row: Row) -> Iterator[float | None]:
    for metric in COLUMNS:
        score = row.scores[metric]
        yield from (score.mean, score.deviation, *(score.interval or (None, None)))


def _beside(row: Row) -> list[float | None]:
    return [getattr(row.comparison, name) if row.comparison else None for name in COMPARISON]
