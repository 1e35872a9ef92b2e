"""Accuracy for several values of one setting of a method, as lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fcl_bench.errors import UserError, choices
from fcl_bench.leaderboard.boards import Board, Row
from fcl_bench.leaderboard.columns import HEADLINE, column
from fcl_bench.leaderboard.plot_style import NamedFigures, Style, add_legend, style
from fcl_bench.leaderboard.titles import differences, told_apart, words

WIDE_RANGE = 50  # from this ratio of the largest value to the smallest, the axis is logarithmic


@dataclass(frozen=True)
class Line:
    """Rows that differ in nothing but the setting."""

    table: str
    method: str
    others: str  # the other settings in which lines of this table and method differ, in words
    rows: dict[float, Row]  # by rising value of the setting


def over_setting(boards: Sequence[Board], name: str) -> NamedFigures:
    """Accuracy over the values of the setting ``name``, for every method that has runs with several of them."""
    key = name.removeprefix("method.")
    lines = _lines(boards, key)
    if not lines:
        raise UserError(_nothing_to_draw(boards, key))
    figure = Figure(figsize=(6, 4), layout="constrained")
    panel = figure.subplots()
    labels = _labels(lines)
    for number, line in enumerate(lines):
        _draw_line(panel, line, style(number) | {"label": labels[number]})
    _scale_axis(panel, lines)
    panel.set_xlabel(key)
    panel.set_ylabel(column(HEADLINE).title)
    add_legend(figure, labels)
    yield "", figure


def gamma(boards: Sequence[Board]) -> NamedFigures:
    """Accuracy over the values of gamma: short for ``--kind setting --setting gamma``."""
    return over_setting(boards, "gamma")


def _draw_line(panel: Axes, line: Line, look: Style) -> None:
    """Mean and deviation over seeds; a row without the metric leaves a gap."""
    scores = [row.scores[HEADLINE] for row in line.rows.values()]
    means = np.array([score.mean for score in scores], dtype=float)
    deviations = [score.deviation or 0.0 for score in scores]
    panel.errorbar(list(line.rows), means, deviations, capsize=2, **look)


def _lines(boards: Sequence[Board], key: str) -> list[Line]:
    lines = []
    for board, table in zip(boards, told_apart(boards), strict=True):
        own = [row for row in board.rows if row.role != "other classifier"]
        rows = [row for row in own if _is_number(_value(row, key))]
        for method in sorted({row.method for row in rows}):
            of_method = [row for row in rows if row.method == method]
            for others, alike in _by_other_settings(of_method, key).items():
                values = {_value(row, key): row for row in alike}
                if len(values) > 1:
                    rising = dict(sorted(values.items()))
                    lines.append(Line(table, method, others, rising))
    return lines


def _by_other_settings(rows: Sequence[Row], key: str) -> dict[str, list[Row]]:
    """Rows that agree in all settings but ``key`` together, by the settings in which they differ from the others."""
    settings = []
    for row in rows:
        others = dict(row.runs[0].settings)
        del others[key]
        settings.append(others)
    groups: dict[str, list[Row]] = {}
    for row, own in zip(rows, differences(settings), strict=True):
        groups.setdefault(words(own), []).append(row)
    return groups


def _labels(lines: Sequence[Line]) -> list[str]:
    """Table, method if there are several, and other settings."""
    methods = {line.method for line in lines}
    labels = []
    for line in lines:
        method = line.method if len(methods) > 1 else ""
        parts = filter(None, (line.table, method, line.others))
        labels.append(" ".join(parts))
    return labels


def _nothing_to_draw(boards: Sequence[Board], key: str) -> str:
    """The sentence for a setting without lines, with those that have some."""
    rows = [row for board in boards for row in board.rows]
    names = {name for row in rows for name in row.runs[0].settings}
    others = [name for name in names if _lines(boards, name)]
    remedy = f"run -m method=METHOD method.{key}=1,2,4"
    if others:
        remedy = f"choose from: {choices(key, others)}"
    return f"No method has runs that differ in the number {key} alone: {remedy}."


def _scale_axis(panel: Axes, lines: Sequence[Line]) -> None:
    """Logarithmic for values of very different size; around 0 such an axis is linear."""
    values = [value for line in lines for value in line.rows]
    sizes = [abs(value) for value in values if value != 0]
    if sizes and max(sizes) / min(sizes) >= WIDE_RANGE:
        panel.set_xscale("symlog", linthresh=min(sizes))


def _value(row: Row, key: str) -> Any:
    return row.runs[0].settings.get(key)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
