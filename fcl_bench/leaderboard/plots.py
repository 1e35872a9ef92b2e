"""Figures of a paper from records: a kind of plot is a function from tables to named figures."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from fcl_bench.errors import UserError
from fcl_bench.leaderboard.boards import Board, Row
from fcl_bench.leaderboard.columns import HEADLINE, column, in_view
from fcl_bench.leaderboard.manifests import find_manifest
from fcl_bench.leaderboard.plot_setting import gamma, over_setting
from fcl_bench.leaderboard.plot_style import (
    NamedFigures,
    Style,
    add_legend,
    fitted_title,
    panel_grid,
    row_names,
    row_styles,
)
from fcl_bench.leaderboard.plot_synthetic import synthetic
from fcl_bench.leaderboard.plot_trade import pareto
from fcl_bench.leaderboard.stream_picture import dense_counts, picture
from fcl_bench.leaderboard.titles import told_apart
from fcl_bench.run.result import VIEWS

CURVE_WIDTH = 5.0  # inches of a panel
MATRIX_WIDTH = 2.8


def curves(boards: Sequence[Board], view: str = VIEWS[0]) -> NamedFigures:
    """Average accuracy after each task, mean and standard deviation over seeds."""
    yield "", _over_tasks(boards, HEADLINE, view)


def retention(boards: Sequence[Board], view: str = VIEWS[0]) -> NamedFigures:
    """Knowledge retention after each task, mean and standard deviation over seeds."""
    yield "", _over_tasks(boards, "retention", view)


def matrix(boards: Sequence[Board], view: str = VIEWS[0]) -> NamedFigures:
    """Accuracy on every task after every task, mean over seeds, a figure per table."""
    _refuse_lack_of_view(boards, view)
    for board, title in zip(boards, told_apart(boards), strict=True):
        columns = min(4, len(board.rows))
        lines = math.ceil(len(board.rows) / columns)
        width = 1 + MATRIX_WIDTH * columns
        figure = Figure(figsize=(width, 1 + 2.6 * lines), layout="constrained")
        panels = panel_grid(figure, lines, columns, len(board.rows))
        for panel, row in zip(panels, board.rows, strict=True):
            image = _draw_matrix(panel, row, view)
        figure.suptitle(fitted_title(title, width), fontsize=9)
        figure.supxlabel(in_view("tested on task", view), fontsize=9)
        figure.supylabel("after learning task", fontsize=9)
        figure.colorbar(image, ax=panels, label="accuracy (%)", aspect=40, pad=0.01)
        yield _description(board), figure


def stream(boards: Sequence[Board]) -> NamedFigures:
    """Who holds which class when, a figure per table: the stream of its first seed."""
    for board in boards:
        runs = [run for row in board.rows for run in row.runs]
        first = min(runs, key=lambda run: run.result["seed"])
        manifest = find_manifest(run for run in runs if run.draw == first.draw)
        if manifest is None:
            raise UserError(f"There is no stream.json next to {first.path}: name folders of runs as they were written.")
        counts = dense_counts(manifest.counts, manifest.tasks, manifest.clients)
        yield _description(board), picture(counts)


VIEWED_KINDS: dict[str, Callable[[Sequence[Board], str], NamedFigures]] = {
    "curves": curves,
    "retention": retention,
    "matrix": matrix,
}
KINDS: dict[str, Callable[..., NamedFigures]] = VIEWED_KINDS | {
    "pareto": pareto,
    "stream": stream,
    "synthetic": synthetic,
    "gamma": gamma,
}
SETTING = "setting"  # a kind that also needs the name of the setting


def draw(kind: str, boards: Sequence[Board], setting: str | None = None, view: str = VIEWS[0]) -> NamedFigures:
    """The figures of a kind; ``setting`` is for the kind of that name, ``view`` for those that draw tests of tasks."""
    if setting is not None:
        return over_setting(boards, setting)
    if kind in VIEWED_KINDS:
        return VIEWED_KINDS[kind](boards, view)
    return KINDS[kind](boards)


def _description(board: Board) -> str:
    return f"{board.heading} ({board.stream})"


def _refuse_lack_of_view(boards: Sequence[Board], view: str) -> None:
    runs = [run for board in boards for row in board.rows for run in row.runs]
    if all(run.scores_in(view) is None for run in runs):
        raise UserError(f"No record has the view {view}: all are of earlier versions. Run again, or leave --view out.")


def _over_tasks(boards: Sequence[Board], metric: str, view: str) -> Figure:
    _refuse_lack_of_view(boards, view)
    columns = min(2, len(boards))
    lines = math.ceil(len(boards) / columns)
    figure = Figure(
        figsize=(0.6 + CURVE_WIDTH * columns, 0.6 + 3.4 * lines),
        layout="constrained",
    )
    panels = panel_grid(figure, lines, columns, len(boards), sharey=True)
    styles = row_styles(boards)
    for board, title, panel in zip(boards, told_apart(boards), panels, strict=True):
        for row in board.rows:
            _draw_curve(panel, row, metric, view, styles[row.name])
        first = board.rows[0].runs[0]
        tasks = len(first.result["matrix"])
        panel.set_xticks(range(1, tasks + 1))
        panel.set_xlabel("task")
        panel.set_title(fitted_title(title, CURVE_WIDTH), fontsize=8)
    figure.supylabel(column(in_view(metric, view)).title, fontsize=10)
    add_legend(figure, row_names(boards))
    return figure


def _draw_curve(panel: Axes, row: Row, metric: str, view: str, style: Style) -> None:
    """Mean and band over seeds; nothing if a run has no such curve."""
    scores = [run.scores_in(view) for run in row.runs]
    seeds = [own["curves"].get(metric) if own else None for own in scores]
    if None in seeds:
        return
    values = np.array(seeds, dtype=float)  # (seeds, tasks), NaN where it is undefined
    mean = values.mean(axis=0)
    if np.isnan(mean).all():
        return
    tasks = range(1, len(mean) + 1)
    panel.plot(tasks, mean, markersize=4, **style)
    if len(seeds) > 1:
        deviation = values.std(axis=0, ddof=1)
        panel.fill_between(
            tasks,
            mean - deviation,
            mean + deviation,
            color=style["color"],
            alpha=0.15,
            linewidth=0,
        )


def _draw_matrix(panel: Axes, row: Row, view: str) -> AxesImage:
    """The mean over seeds; empty if a run does not have the view."""
    unknown = np.full(np.shape(row.runs[0].result["matrix"]), np.nan)
    matrices = [own["matrix"] if (own := run.scores_in(view)) else unknown for run in row.runs]
    values = np.array(matrices, dtype=float).mean(axis=0)  # (after, on), NaN where it is undefined
    image = panel.imshow(values, vmin=0, vmax=100, cmap="viridis")
    panel.set_title(fitted_title(row.name, MATRIX_WIDTH), fontsize=8)
    tasks = len(values)
    ticks = range(0, tasks, max(1, tasks // 5))
    names = [str(tick + 1) for tick in ticks]
    panel.set_xticks(ticks, names)
    panel.set_yticks(ticks, names)
    if tasks <= 10:
        _write_values(panel, values)
    return image


def _write_values(panel: Axes, values: np.ndarray) -> None:
    for (after, on), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        panel.text(
            on,
            after,
            f"{value:.0f}",
            ha="center",
            va="center",
            fontsize=5,
            color="white" if value < 60 else "black",
        )
