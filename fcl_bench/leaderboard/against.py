"""Our figures and published ones side by side, with the differences of protocol in words.

The published figures are in ``paper.yaml``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from omegaconf import OmegaConf

from fcl_bench.leaderboard.boards import Board, Row
from fcl_bench.leaderboard.columns import HEADLINE, column, in_view
from fcl_bench.leaderboard.printed import number
from fcl_bench.leaderboard.render import Cells
from fcl_bench.leaderboard.statistics import Score
from fcl_bench.leaderboard.titles import text

CURVES = {  # of the paper, for streams of ten tasks, with the metric of ours that is the same quantity
    "stability": in_view("step_stability", "present"),
    "plasticity": in_view("step_plasticity", "present"),
    "runtime_seconds": "runtime_seconds",
}
TASKS = 10
RETENTION = in_view("retention", "present")
UNDEFINED = Score(None, None, None)  # of a metric that no record has
Figures = dict[str, dict[str, float]]  # by metric of ours and method


@dataclass(frozen=True)
class Section:
    """What can be said about one table."""

    heading: str
    tables: tuple[Cells, ...]
    words: tuple[str, ...]  # where the two differ


@cache
def published() -> dict[str, Any]:
    """The data file."""
    content = (files("fcl_bench.leaderboard") / "paper.yaml").read_text(encoding="utf-8")
    figures: Any = OmegaConf.to_container(OmegaConf.create(content))
    return figures


def against(boards: Sequence[Board]) -> tuple[list[Section], list[str]]:
    """A section for every table that the paper has figures for, and a sentence for every other one."""
    sections = []
    others = []
    for board in boards:
        figures = _figures(board)
        if figures:
            tables = [_compared(board, figures), _compared_by_gamma(board), _compared_in_words(board)]
            sections.append(Section(board.heading, tuple(filter(None, tables)), tuple(_words(board, figures))))
        else:
            others.append(f"The paper has no figures for {board.heading} ({board.stream}).")
    return sections, others


def _figures(board: Board) -> Figures:
    """What the paper has for a table; nothing for streams that it has not run."""
    ours = board.conditions
    paper = published()
    if any(ours[key] != paper["conditions"][key] for key in ("stream", "partition")):
        return {}
    figures: Figures = {}
    for entry in paper[HEADLINE]:
        if all(entry[key] == ours.get(key) for key in ("dataset", "tasks", "alpha")):
            figures[HEADLINE] = entry["values"]
    if figures and ours["tasks"] == TASKS:
        for curve, metric in CURVES.items():
            figures[metric] = {method: values[-1] for method, values in paper[curve][ours["dataset"]].items()}
    return figures


def _compared(board: Board, figures: Figures) -> Cells:
    titles = ["method"]
    for metric in figures:
        titles += [column(metric).title, "paper", "difference"]
    rows = [row for row in board.rows if row.method in figures[HEADLINE]]
    lines = [[row.name, *_beside(row, row.method, figures)] for row in rows]
    ran = {row.method for row in rows}
    for method in figures[HEADLINE]:
        if method not in ran:
            lines.append([method, *_beside(None, method, figures)])
    return [titles, *lines]


def _beside(row: Row | None, method: str, figures: Figures) -> Iterator[str]:
    """For each metric our figure, the paper's, and the difference."""
    for metric, values in figures.items():
        score = row.scores.get(metric, UNDEFINED) if row else None
        yield number(score, metric) if score else "not run"
        yield f"{values[method]:.2f}"
        yield _difference(score, values[method])


def _difference(score: Score | None, theirs: float) -> str:
    return "" if score is None or score.mean is None else f"{score.mean - theirs:+.2f}"


def _compared_by_gamma(board: Board) -> Cells:
    """AFCL for several values of its only hyper-parameter; nothing unless it was run with several of the paper's."""
    published_values = published()["gamma"].get(board.conditions["dataset"], {})
    rows = [row for row in board.rows if row.method == "afcl" and _gamma(row) in published_values]
    if len(rows) < 2:
        return []
    lines = [["gamma", column(HEADLINE).title, "paper", "difference"]]
    for row in sorted(rows, key=_gamma):
        score = row.scores[HEADLINE]
        theirs = published_values[_gamma(row)]
        lines.append([row.name, number(score, HEADLINE), f"{theirs:.2f}", _difference(score, theirs)])
    return lines


def _compared_in_words(board: Board) -> Cells:
    """Retention, of which the paper says only on which side of 1 it is; nothing unless one of its methods was run."""
    claims = published()["retention"]
    lines = [["method", column(RETENTION).title, "paper"]]
    for row in board.rows:
        if row.method in claims:
            score = row.scores.get(RETENTION, UNDEFINED)
            lines.append([row.name, number(score, RETENTION), claims[row.method]])
    return lines if len(lines) > 1 else []


def _gamma(row: Row) -> Any:
    """None for what is not a number."""
    value = row.runs[0].settings.get("gamma")
    return value if isinstance(value, (int, float)) else None


def _words(board: Board, figures: Figures) -> Iterator[str]:
    paper = published()
    ours = board.conditions
    for key, theirs in paper["conditions"].items():
        if ours.get(key) != theirs:
            yield f"{key}: {text(ours.get(key))} here, {text(theirs)} in the paper."
    if ours["track"] == "frozen":
        yield "Track: methods that train learn a head on frozen features here."
    else:
        yield "Track: methods train the whole network here."
    yield from _budgets(board)
    others = sorted({row.method for row in board.rows} - set(figures[HEADLINE]))
    if others:
        yield f"Not in the paper: {', '.join(others)}."
    published_here = [HEADLINE, *(curve for curve, metric in CURVES.items() if metric in figures)]
    for name in ("all", *published_here):
        yield from paper["remarks"].get(name, ())


def _budgets(board: Board) -> Iterator[str]:
    """Methods that differ from the paper in rounds or epochs, those of equal budgets together."""
    names: dict[str, list[str]] = {}
    for row in board.rows:
        if row.role == "other classifier":  # of a run that is named already
            continue
        theirs = published()["budget"].get(row.method)
        settings = row.runs[0].settings
        ours = [settings.get("rounds"), settings.get("epochs")]
        if theirs and None not in ours and ours != theirs:
            budget = f"{ours[0]} x {ours[1]} here, {theirs[0]} x {theirs[1]} in the paper"
            names.setdefault(budget, []).append(row.name)
    for budget, methods in names.items():
        yield f"Rounds x epochs per task: {budget} ({', '.join(methods)})."
