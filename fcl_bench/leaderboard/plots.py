"""Figures of a paper from records: a kind of plot is a function from tables to named figures."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from fcl_bench.errors import UserError
from fcl_bench.leaderboard.boards import Board, Row
from fcl_bench.leaderboard.columns import COLUMNS
from fcl_bench.leaderboard.manifests import manifest
from fcl_bench.leaderboard.stream_picture import dense, picture
from fcl_bench.leaderboard.titles import differences, text, told_apart

# Okabe and Ito's colours, which colour-blind readers can tell apart; further methods get other lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")
LINES, MARKS = ("-", "--", ":", "-."), "osD^vPX*"
Named = Iterator[tuple[str, Figure]]  # a figure and the table it shows; no words if it shows them all
Styles = dict[str, dict[str, Any]]  # by row


def curves(boards: Sequence[Board]) -> Named:
    """Average accuracy after each task, mean and standard deviation over seeds."""
    yield _over_tasks(boards, "average_accuracy")


def retention(boards: Sequence[Board]) -> Named:
    """Knowledge retention after each task, mean and standard deviation over seeds."""
    yield _over_tasks(boards, "retention")


def matrix(boards: Sequence[Board]) -> Named:
    """Accuracy on every task after every task, mean over seeds, a figure per table."""
    for board, title in zip(boards, told_apart(boards), strict=True):
        columns = min(4, len(board.rows))
        lines = math.ceil(len(board.rows) / columns)
        figure = Figure(figsize=(1 + 2.8 * columns, 1 + 2.6 * lines), layout="constrained")
        panels = _panels(figure, lines, columns, len(board.rows))
        for row, panel in zip(board.rows, panels, strict=True):
            image = _heat_map(panel, row)
        figure.suptitle(title, fontsize=9)
        figure.supxlabel("tested on task", fontsize=9)
        figure.supylabel("after learning task", fontsize=9)
        figure.colorbar(image, ax=panels, label="accuracy (%)", aspect=40, pad=0.01)
        yield f"{board.heading} ({board.stream})", figure


def pareto(boards: Sequence[Board]) -> Named:
    """Accuracy beside what it cost in traffic and seconds, a line of panels per table; the front is drawn."""
    figure = Figure(figsize=(10, 0.6 + 3.4 * len(boards)), layout="constrained")
    panels = figure.subplots(len(boards), 2, squeeze=False)
    styles = _styles(boards)
    for board, title, (traffic, seconds) in zip(boards, told_apart(boards), panels, strict=True):
        _trade(traffic, board, styles, lambda row: _mean(row, "uplink_bytes") + _mean(row, "downlink_bytes"))
        _trade(seconds, board, styles, lambda row: _mean(row, "runtime_seconds"))
        traffic.set_xlabel("up and down (MB)")
        seconds.set_xlabel("client and server seconds")
        traffic.set_ylabel("average accuracy (%)")
        traffic.set_title(title, fontsize=8, loc="left")
    _legend(figure, boards)
    yield "", figure


def stream(boards: Sequence[Board]) -> Named:
    """Who holds which class when, a figure per table: the stream of its first seed."""
    for board in boards:
        runs = [run for row in board.rows for run in row.runs]
        first = min(runs, key=lambda run: run.result["seed"])
        found = manifest(run for run in runs if run.draw == first.draw)
        if found is None:
            raise UserError(
                f"There is no stream.json of the stream beside {first.path}: name folders of runs as they were written."
            )
        yield f"{board.heading} ({board.stream})", picture(dense(found.counts, found.tasks, found.clients))


def gamma(boards: Sequence[Board]) -> Named:
    """AFCL's accuracy for several values of gamma, a line per table."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    panel = figure.subplots()
    for number, (label, rows) in enumerate(_by_gamma(boards)):
        values = [row.runs[0].settings["gamma"] for row in rows]
        means, deviations = ([of(row, "average_accuracy") for row in rows] for of in (_mean, _deviation))
        style: Any = _style(number)
        panel.errorbar(values, means, deviations, label=label, capsize=2, **style)
    if not panel.containers:
        raise UserError(
            "There are no runs of AFCL with several gammas: run -m method=afcl method.gamma=0.001,0.1,1,10."
        )
    panel.set_xscale("symlog", linthresh=1e-3)
    panel.set_xlabel("gamma")
    panel.set_ylabel(COLUMNS["average_accuracy"].title)
    panel.legend(fontsize=6)
    yield "", figure


KINDS: dict[str, Callable[[Sequence[Board]], Named]] = {
    kind.__name__: kind for kind in (curves, retention, matrix, pareto, stream, gamma)
}


def front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those (cost, accuracy) that none is both cheaper and better than, by rising cost.

    >>> front([(1, 50), (2, 40), (2, 60), (5, 60), (9, 70)])
    [(1, 50), (2, 60), (9, 70)]
    """
    best, kept = -math.inf, []
    for cost, accuracy in sorted(points, key=lambda point: (point[0], -point[1])):
        if accuracy > best:
            best = accuracy
            kept.append((cost, accuracy))
    return kept


def _by_gamma(boards: Sequence[Board]) -> Iterator[tuple[str, list[Row]]]:
    """AFCL's rows that differ in nothing but gamma, with the table and the settings they share, by rising gamma."""
    for board, title in zip(boards, told_apart(boards), strict=True):
        rows = [row for row in board.rows if row.method == "afcl" and "gamma" in row.runs[0].settings]
        shared = [{key: value for key, value in row.runs[0].settings.items() if key != "gamma"} for row in rows]
        lines: dict[str, list[Row]] = {}
        for row, own in zip(rows, differences(shared), strict=True):
            words = " ".join(f"{key}={text(value)}" for key, value in own.items())
            lines.setdefault(f"{title} {words}".rstrip(), []).append(row)
        for label, line in lines.items():
            if len(line) > 1:
                yield label, sorted(line, key=lambda row: row.runs[0].settings["gamma"])


def _over_tasks(boards: Sequence[Board], metric: str) -> tuple[str, Figure]:
    columns = min(2, len(boards))
    lines = math.ceil(len(boards) / columns)
    figure = Figure(figsize=(2.4 + 5.0 * columns, 0.6 + 3.4 * lines), layout="constrained")
    styles = _styles(boards)
    panels = _panels(figure, lines, columns, len(boards), sharey=True)
    for board, title, panel in zip(boards, told_apart(boards), panels, strict=True):
        for row in board.rows:
            values = np.array([run.result["curves"][metric] for run in row.runs], dtype=float)
            mean, tasks = values.mean(axis=0), np.arange(1, values.shape[1] + 1)
            style = styles[row.name]
            panel.plot(tasks, mean, markersize=4, **style)
            if len(values) > 1:
                spread = values.std(axis=0, ddof=1)
                panel.fill_between(tasks, mean - spread, mean + spread, color=style["color"], alpha=0.15, linewidth=0)
        panel.set_title(title, fontsize=8)
        panel.set_xlabel("task")
        panel.set_xticks(tasks)
    figure.supylabel(COLUMNS[metric].title, fontsize=10)
    _legend(figure, boards)
    return "", figure


def _heat_map(panel: Axes, row: Row) -> Any:
    values = np.mean([run.result["matrix"] for run in row.runs], axis=0)
    image = panel.imshow(values, vmin=0, vmax=100, cmap="viridis")
    panel.set_title(row.name, fontsize=8)
    ticks = range(0, len(values), max(1, len(values) // 5))
    panel.set_xticks(ticks, [str(tick + 1) for tick in ticks])
    panel.set_yticks(ticks, [str(tick + 1) for tick in ticks])
    if len(values) <= 10:
        for (after, on), value in np.ndenumerate(values):
            panel.text(on, after, f"{value:.0f}", ha="center", va="center", fontsize=5, color=_ink(value))
    return image


def _ink(value: float) -> str:
    return "white" if value < 60 else "black"


def _trade(panel: Axes, board: Board, styles: Styles, cost: Callable[[Row], float]) -> None:
    points = {row.name: (cost(row), _mean(row, "average_accuracy")) for row in board.rows}
    for row in board.rows:
        style = styles[row.name] | {"linestyle": "none"}
        panel.errorbar(*points[row.name], yerr=_deviation(row, "average_accuracy"), capsize=2, **style)
    steps = front([points[row.name] for row in board.ranked])
    if steps:
        panel.step(*zip(*steps, strict=True), where="post", color="0.5", linewidth=0.8, zorder=0)
    panel.set_xscale("log" if min(point[0] for point in points.values()) > 0 else "symlog")
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter(NullFormatter())


def _mean(row: Row, metric: str) -> float:
    mean = row.scores[metric].mean
    return math.nan if mean is None else mean * COLUMNS[metric].scale


def _deviation(row: Row, metric: str) -> float:
    return row.scores[metric].deviation or 0.0


def _panels(figure: Figure, lines: int, columns: int, used: int, **shared: Any) -> list[Axes]:
    panels = figure.subplots(lines, columns, squeeze=False, **shared).ravel()
    for unused in panels[used:]:
        unused.remove()
    return list(panels[:used])


def _styles(boards: Sequence[Board]) -> Styles:
    """The same look for a row in every panel."""
    names = sorted({row.name for board in boards for row in board.rows})
    return {name: _style(number) | {"label": name} for number, name in enumerate(names)}


def _style(number: int) -> dict[str, Any]:
    again, index = divmod(number, len(COLOURS))
    mark = MARKS[(index + again) % len(MARKS)]  # colour and mark together are unique for 64 rows
    return {"color": COLOURS[index], "marker": mark, "linestyle": LINES[again % len(LINES)]}


def _legend(figure: Figure, boards: Sequence[Board]) -> None:
    """One for all panels, to their right."""
    found = {
        label: handle for panel in figure.axes for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    names = [row.name for board in boards for row in board.rows if row.name in found]
    order = list(dict.fromkeys(names))
    figure.legend([found[name] for name in order], order, loc="outside right upper", fontsize=7)
