"""Our figures beside published ones, with the differences of protocol in words. The figures are in ``paper.yaml``."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from omegaconf import OmegaConf

from fcl_bench.leaderboard.boards import Board, Row, text
from fcl_bench.leaderboard.columns import COLUMNS
from fcl_bench.leaderboard.render import Cells, number
from fcl_bench.leaderboard.statistics import Score

PAPER = ("paper",)  # what there is to compare with
CURVES = ("stability", "plasticity", "runtime_seconds")  # published for streams of ten tasks
TASKS = 10


@dataclass(frozen=True)
class Section:
    """What can be said about one table."""

    heading: str
    tables: tuple[Cells, ...]
    words: tuple[str, ...]  # where the two differ


@cache
def published() -> dict[str, Any]:
    """The data file."""
    found: Any = OmegaConf.to_container(OmegaConf.create((files("fcl_bench.leaderboard") / "paper.yaml").read_text()))
    return found


def against(boards: Sequence[Board]) -> tuple[list[Section], list[str]]:
    """A section for every table that the paper has figures for, and a sentence for every other one."""
    sections, others = [], []
    for board in boards:
        figures = _figures(board)
        if figures:
            by_gamma = _by_gamma(board)
            tables = (_beside(board, figures), *([by_gamma] if by_gamma else []))
            sections.append(Section(board.heading, tables, tuple(_words(board, figures))))
        else:
            others.append(f"The paper has no figures for {board.heading} ({board.stream}).")
    return sections, others


def _figures(board: Board) -> dict[str, dict[str, float]]:
    """By metric and method; empty for streams that the paper has not run."""
    ours, paper = board.conditions, published()
    if any(ours[key] != paper["conditions"][key] for key in ("stream", "partition")):
        return {}
    found: dict[str, dict[str, float]] = {}
    for entry in paper["average_accuracy"]:
        if all(entry[key] == ours.get(key) for key in ("dataset", "tasks", "alpha")):
            found["average_accuracy"] = entry["values"]
    if found and ours["tasks"] == TASKS:
        for metric in CURVES:
            found[metric] = {method: curve[-1] for method, curve in paper[metric][ours["dataset"]].items()}
    return found


def _beside(board: Board, figures: dict[str, dict[str, float]]) -> Cells:
    titles = [part for metric in figures for part in (COLUMNS[metric].title, "paper", "difference")]
    rows = [row for row in board.rows if row.method in figures["average_accuracy"]]
    absent = [name for name in figures["average_accuracy"] if name not in {row.method for row in rows}]
    return [
        ["method", *titles],
        *([row.name, *_compared(row, row.method, figures)] for row in rows),
        *([name, *_compared(None, name, figures)] for name in absent),
    ]


def _compared(row: Row | None, method: str, figures: dict[str, dict[str, float]]) -> Iterator[str]:
    for metric, values in figures.items():
        score = row.scores[metric] if row else None
        yield number(score, metric) if score else "not run"
        yield f"{values[method]:.2f}"
        yield _difference(score, values[method])


def _difference(score: Score | None, theirs: float) -> str:
    return "" if score is None or score.mean is None else f"{score.mean - theirs:+.2f}"


def _by_gamma(board: Board) -> Cells:
    """AFCL for several values of its only hyper-parameter; nothing unless it was run with several of the paper's."""
    values = published()["gamma"].get(board.conditions["dataset"], {})
    rows = sorted(
        (row for row in board.rows if row.method == "afcl" and row.runs[0].settings.get("gamma") in values),
        key=lambda row: row.runs[0].settings["gamma"],
    )
    lines = []
    for row in rows:
        gamma = row.runs[0].settings["gamma"]
        score = row.scores["average_accuracy"]
        ours, theirs = number(score, "average_accuracy"), f"{values[gamma]:.2f}"
        lines.append([row.name, ours, theirs, _difference(score, values[gamma])])
    return [["gamma", "average (%)", "paper", "difference"], *lines] if len(lines) > 1 else []


def _words(board: Board, figures: dict[str, dict[str, float]]) -> Iterator[str]:
    paper, ours = published(), board.conditions
    for key, theirs in paper["conditions"].items():
        if ours.get(key) != theirs:
            yield f"{key}: {text(ours.get(key))} here, {text(theirs)} in the paper."
    yield (
        "Track: methods that train learn a head on frozen features here."
        if ours["track"] == "frozen"
        else "Track: methods train the whole network here."
    )
    yield from _budgets(board)
    others = sorted({row.method for row in board.rows} - set(figures["average_accuracy"]))
    if others:
        yield f"Not in the paper: {', '.join(others)}."
    for metric in ("all", *figures):
        yield from paper["remarks"].get(metric, ())


def _budgets(board: Board) -> Iterator[str]:
    """Methods that differ from the paper in rounds or epochs, those of equal budgets together."""
    found: dict[str, list[str]] = {}
    for row in board.rows:
        theirs, settings = published()["budget"].get(row.method), row.runs[0].settings
        ours = [settings.get("rounds"), settings.get("epochs")]
        if theirs and None not in ours and ours != theirs:
            budget = f"{ours[0]} x {ours[1]} here, {theirs[0]} x {theirs[1]} in the paper"
            found.setdefault(budget, []).append(row.name)
    for budget, names in found.items():
        yield f"Rounds x epochs per task: {budget} ({', '.join(names)})."
