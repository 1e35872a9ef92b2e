"""Accuracy and what it costs: a point per row, and the front of those that no other one beats."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from fcl_bench.leaderboard.boards import Board, Row
from fcl_bench.leaderboard.columns import HEADLINE, column
from fcl_bench.leaderboard.plot_style import NamedFigures, Style, add_legend, fitted_title, row_names, row_styles
from fcl_bench.leaderboard.titles import told_apart

COSTS = {  # by the title of their axis: the metrics whose sum it is
    "up and down (MB)": ("uplink_bytes", "downlink_bytes"),
    "client and server seconds": ("runtime_seconds",),
}
PANEL_WIDTH = 4.0  # inches
Point = tuple[float, float]  # cost and accuracy


def pareto(boards: Sequence[Board]) -> NamedFigures:
    """Accuracy against what it cost in traffic and seconds, a line of panels per table; the front is drawn."""
    figure = Figure(
        figsize=(PANEL_WIDTH * len(COSTS), 0.6 + 3.4 * len(boards)),
        layout="constrained",
    )
    grid = figure.subplots(len(boards), len(COSTS), squeeze=False)
    styles = row_styles(boards)
    for board, title, panels in zip(boards, told_apart(boards), grid, strict=True):
        for panel, (words, metrics) in zip(panels, COSTS.items(), strict=True):
            _draw_trade(panel, board, metrics, styles)
            panel.set_xlabel(words)
        first = panels[0]
        first.set_ylabel("average accuracy (%)")
        first.set_title(fitted_title(title, PANEL_WIDTH), fontsize=8, loc="left")
    add_legend(figure, row_names(boards))
    yield "", figure


def front(points: Sequence[Point]) -> list[Point]:
    """Those (cost, accuracy) that none is both cheaper and better than, by rising cost.

    >>> front([(1, 50), (2, 40), (2, 60), (5, 60), (9, 70)])
    [(1, 50), (2, 60), (9, 70)]
    """
    best = -math.inf
    steps = []
    for cost, accuracy in sorted(points, key=lambda point: (point[0], -point[1])):
        if accuracy > best:
            best = accuracy
            steps.append((cost, accuracy))
    return steps


def _draw_trade(panel: Axes, board: Board, metrics: Sequence[str], styles: dict[str, Style]) -> None:
    """A point per row that tells its cost and its accuracy, and the front of those that compete."""
    points = {}
    for row in board.rows:
        cost = _cost(row, metrics)
        accuracy = row.scores[HEADLINE]
        if cost is None or accuracy.mean is None:
            continue
        points[row.name] = (cost, accuracy.mean)
        look = styles[row.name] | {"linestyle": "none"}
        panel.errorbar(cost, accuracy.mean, accuracy.deviation or 0.0, capsize=2, **look)
    competing = [points[row.name] for row in board.ranked if row.name in points]
    _draw_front(panel, competing)
    has_zero = any(cost == 0 for cost, _ in points.values())
    panel.set_xscale("symlog" if has_zero else "log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter(NullFormatter())


def _draw_front(panel: Axes, points: Sequence[Point]) -> None:
    steps = front(points)
    if steps:
        costs, accuracies = zip(*steps, strict=True)
        panel.step(costs, accuracies, where="post", color="0.5", linewidth=0.8, zorder=0)


def _cost(row: Row, metrics: Sequence[str]) -> float | None:
    """The sum of some metrics, in the units of their titles; None if one is missing."""
    total = 0.0
    for metric in metrics:
        mean = row.scores[metric].mean
        if mean is None:
            return None
        total += mean * column(metric).scale
    return total
