"""What the page shows, as plain data: numbers short, texts as the tables write them, equal things once."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from fcl_bench.config.nested import flattened
from fcl_bench.leaderboard.boards import Board, Row
from fcl_bench.leaderboard.columns import column
from fcl_bench.leaderboard.page_streams import stream_pictures
from fcl_bench.leaderboard.printed import beside_best, digits, interval, number, seeds, tuned
from fcl_bench.leaderboard.protocols import protocol_sentences
from fcl_bench.leaderboard.render import FACTS, NOTE
from fcl_bench.leaderboard.runs import Run
from fcl_bench.leaderboard.statements import statements
from fcl_bench.leaderboard.titles import text
from fcl_bench.run.result import VIEWS
from fcl_bench.visible import visible

CURVES = {  # with the titles of their figures
    "average_accuracy": "Average accuracy (%)",
    "retention": "Retention",
    "stability": "Stability (%)",
    "plasticity": "Plasticity (%)",
}
DRAWN_DIGITS = 6  # significant ones, of what is drawn
SORTED_DIGITS = 12  # of what rows are sorted by
Data = dict[str, Any]
Marks = dict[str, int]  # by name of the row: 1 is best, 2 second best


class Pool:
    """Texts that many runs share, each once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def add(self, settings: Data) -> int:
        """The number of the text of some settings, one per line as on a command line."""
        key = json.dumps(settings)
        if key not in self._numbers:
            lines = [f"{name}={text(value)}" for name, value in flattened(settings).items()]
            self._numbers[key] = len(self.texts)
            self.texts.append("\n".join(lines))
        return self._numbers[key]


def page_data(boards: Sequence[Board]) -> Data:
    """All that the scripts of the page read."""
    pool = Pool()
    metrics = boards[0].metrics if boards else ()
    rows = [row for board in boards for row in board.rows]
    return {
        "columns": [_column(metric) for metric in metrics],
        "facts": FACTS,
        "note": NOTE,
        "protocols": protocol_sentences(boards),
        "curves": list(CURVES.values()),
        "views": list(VIEWS),
        "methods": sorted({row.method for row in rows}),
        "runs": len({run.path for row in rows for run in row.runs}),
        "boards": [_board(board, pool) for board in boards],
        "pool": pool.texts,
        "streams": stream_pictures(boards),
    }


def marks(board: Board, metric: str) -> Marks:
    """The best and the second best row as shown, among those that compete; none if all are equal."""
    shown = {}
    for row in board.ranked:
        mean = row.scores[metric].mean
        if mean is not None:
            shown[row.name] = float(digits(mean, metric))
    values = sorted(set(shown.values()), reverse=not column(metric).lower_is_better)
    if len(values) < 2:
        return {}
    best, second = values[:2]
    places = {best: 1, second: 2}
    return {name: places[value] for name, value in shown.items() if value in places}


def _column(metric: str) -> Data:
    its = column(metric)
    return {
        "key": metric,
        "title": its.title,
        "lower": its.lower_is_better,
        "score": its.score,
        "shown": its.shown,
    }


def _board(board: Board, pool: Pool) -> Data:
    ranked = [row.name for row in board.ranked]
    marks_by_metric = {metric: marks(board, metric) for metric in board.metrics}
    rows = []
    for row in board.rows:
        data = _row(row, marks_by_metric, pool)
        data["seeds"] = seeds(row, board)
        data["ranked"] = row.name in ranked
        rows.append(data)
    return {
        "heading": board.heading,
        "stream": board.stream,
        "sort": board.sort,
        "statements": statements(board),
        "tuning": board.tells_tuning,
        "best": ranked[0] if ranked else None,
        "rows": rows,
    }


def _row(row: Row, marks_by_metric: dict[str, Marks], pool: Pool) -> Data:
    metrics = list(marks_by_metric)
    means = [_in_unit(row.scores[metric].mean, metric) for metric in metrics]
    deviations = [_in_unit(row.scores[metric].deviation, metric) for metric in metrics]
    return {
        "name": row.name,
        "method": row.method,
        "facts": row.facts,
        "tuned": tuned(row),
        "means": _short(means, SORTED_DIGITS),
        "deviations": _short(deviations),
        "texts": [number(row.scores[metric], metric) for metric in metrics],
        "intervals": [interval(row, metric) for metric in metrics],
        "marks": [marks_by_metric[metric].get(row.name, 0) for metric in metrics],
        "p": beside_best(row),
        "p_value": row.comparison.p_holm if row.comparison else None,
        "runs": [_run(run, metrics, pool) for run in row.runs],
    }


def _run(run: Run, metrics: Sequence[str], pool: Pool) -> Data:
    result = run.result
    environment = result["environment"]
    return {
        "seed": result["seed"],
        "id": result["run_id"],
        "stream": result["stream"]["hash"],
        "command": result.get("command"),
        "inputs": result.get("inputs"),
        "trust": run.trust,
        "certificate": visible(run.certificate.sentence) if run.certificate else None,
        "config": [pool.add({key: value}) for key, value in result["config"].items()],
        "environment": pool.add(environment),
        "commit": environment.get("git_commit"),
        "values": [digits(run.values.get(metric), metric) for metric in metrics],
        **_over_tasks(result),
        "views": {view: _over_tasks(scores) for view, scores in result["views"].items()},
    }


def _over_tasks(scores: Data) -> Data:
    """The curves and the matrix of a view."""
    return {
        "curves": [_short(scores["curves"].get(name, ())) for name in CURVES],
        "matrix": [_short(line) for line in scores["matrix"]],
    }


def _in_unit(value: float | None, metric: str) -> float | None:
    """In the unit of the column's title."""
    return None if value is None else value * column(metric).scale


def _short(values: Iterable[float | None], significant: int = DRAWN_DIGITS) -> list[float | None]:
    """Numbers of a few digits; whole ones without a point.

    >>> _short([200 / 3, 85.0, None, math.nan])
    [66.6667, 85, None, None]
    """
    return [_rounded(value, significant) for value in values]


def _rounded(value: float | None, significant: int) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.{significant}g}")
    return int(rounded) if rounded.is_integer() else rounded
