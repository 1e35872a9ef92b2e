"""What the page shows, as plain data: numbers short, texts as the tables write them, equal things once."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from fcl_bench.config.protocol import flattened
from fcl_bench.leaderboard.boards import Board, Row
from fcl_bench.leaderboard.columns import column
from fcl_bench.leaderboard.page_streams import pictures
from fcl_bench.leaderboard.render import FACTS, NOTE, beside_best, digits, interval, number
from fcl_bench.leaderboard.runs import Run
from fcl_bench.leaderboard.titles import text

CURVES = ("average_accuracy", "retention", "stability", "plasticity")
SIGNIFICANT, ORDERING = 6, 12  # digits of what is drawn; of what rows are sorted by
Data = dict[str, Any]


class Pool:
    """Texts that many runs share, each once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._known: dict[str, int] = {}

    def add(self, part: Data) -> int:
        """The number of the text of some settings, one per line as on a command line."""
        key = json.dumps(part)
        if key not in self._known:
            self._known[key] = len(self.texts)
            self.texts.append("\n".join(f"{name}={text(value)}" for name, value in flattened(part).items()))
        return self._known[key]


def page_data(boards: Sequence[Board]) -> Data:
    """All that ``page.js`` reads."""
    pool = Pool()
    return {
        "columns": [
            {"key": key, "title": it.title, "lower": it.lower_is_better, "score": it.score, "shown": it.shown}
            for key in boards[0].metrics
            if (it := column(key))
        ],
        "facts": FACTS,
        "note": NOTE,
        "curves": CURVES,
        "methods": sorted({row.method for board in boards for row in board.rows}),
        "boards": [_board(board, pool) for board in boards],
        "pool": pool.texts,
        "streams": pictures(boards),
    }


def marks(board: Board) -> dict[str, dict[str, int]]:
    """By metric, the rows to mark: 1 is best, 2 second best, as shown; equals alone are not."""
    return {metric: _marks(board, metric) for metric in board.metrics}


def _marks(board: Board, metric: str) -> dict[str, int]:
    competitors = [row for row in board.rows if row.role == "competitor"]
    means = {row.name: mean for row in competitors if (mean := row.scores[metric].mean) is not None}
    shown = {name: float(digits(mean, metric)) for name, mean in means.items()}
    places = sorted(set(shown.values()), reverse=not column(metric).lower_is_better)[:2]
    return {name: 1 + places.index(value) for name, value in shown.items() if value in places and len(places) == 2}


def _board(board: Board, pool: Pool) -> Data:
    marked = marks(board)
    return {
        "heading": board.heading,
        "stream": board.stream,
        "sort": board.sort,
        "best": board.ranked[0].name if board.ranked else None,
        "rows": [_row(row, board, marked, pool) for row in board.rows],
    }


def _row(row: Row, board: Board, marked: dict[str, dict[str, int]], pool: Pool) -> Data:
    scores = row.scores
    return {
        "name": row.name,
        "method": row.method,
        "facts": row.facts,
        "means": _short((_in_unit(scores[metric].mean, metric) for metric in board.metrics), ORDERING),
        "deviations": _short(_in_unit(scores[metric].deviation, metric) for metric in board.metrics),
        "texts": [number(scores[metric], metric) for metric in board.metrics],
        "intervals": [interval(row, metric) for metric in board.metrics],
        "marks": [marked[metric].get(row.name, 0) for metric in board.metrics],
        "p": beside_best(row),
        "p_value": row.comparison.p_holm if row.comparison else None,
        "runs": [_run(run, board.metrics, pool) for run in row.runs],
    }


def _run(run: Run, metrics: Sequence[str], pool: Pool) -> Data:
    result = run.result
    return {
        "seed": result["seed"],
        "id": result["run_id"],
        "stream": result["stream"]["hash"],
        "command": result.get("command"),
        "inputs": result.get("inputs"),
        "config": [pool.add({key: value}) for key, value in result["config"].items()],
        "environment": pool.add(result["environment"]),
        "commit": result["environment"].get("git_commit"),
        "values": [digits(run.values.get(metric), metric) for metric in metrics],
        "curves": [_short(result["curves"][name]) for name in CURVES],
        "matrix": [_short(line) for line in result["matrix"]],
    }


def _in_unit(value: float | None, metric: str) -> float | None:
    return None if value is None else value * column(metric).scale


def _short(values: Iterable[float | None], digits: int = SIGNIFICANT) -> list[float | None]:
    """Numbers of a few digits; whole ones without a point.

    >>> _short([200 / 3, 85.0, None])
    [66.6667, 85, None]
    """
    return [None if value is None or not math.isfinite(value) else _rounded(value, digits) for value in values]


def _rounded(value: float, digits: int) -> float:
    found = float(f"{value:.{digits}g}")
    return int(found) if found.is_integer() else found
