"""A stream for the eye: a table for the terminal and a picture for a paper."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from rich import box
from rich.table import Table
from rich.text import Text

from fcl_bench.leaderboard.plot_style import panel_grid
from fcl_bench.stream import Stream, Task

SHOWN_CLIENTS = 20  # rows per task; of larger federations the table shows the first
SHOWN_CLASSES = 8  # of a client that has more than MOST_CLASSES
MOST_CLASSES = 12


def table(stream: Stream, class_names: Sequence[str]) -> Table:
    """One row per task and client: how many samples and classes, how unequal, and which classes most.

    The effective number of classes (exp of the label entropy) is the number of equally large classes just as diverse.
    """
    names = [class_names[label] for label in stream.order]
    rows = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("task", "client", "samples", "classes", "effective"):
        rows.add_column(heading, justify="right", no_wrap=True, min_width=len(heading))
    rows.add_column("largest classes")
    counts = dense_counts(stream.counts, len(stream.tasks), stream.clients)
    for task in stream.tasks:
        _add_task(rows, stream, task, counts[task.index], names)
    return rows


def picture(counts: np.ndarray) -> Figure:
    """Clients x classes for every task, the number of samples (tasks, clients, classes) as colour.

    A red line ends the classes seen so far.
    """
    tasks, _, classes = counts.shape
    columns = min(tasks, 5 if tasks <= 10 else 10)
    lines = math.ceil(tasks / columns)
    line_height = min(max(2.2, 0.06 * classes), 8)
    figure = Figure(
        figsize=(1.6 + 2.0 * columns, 0.8 + lines * line_height),
        layout="constrained",
    )
    panels = panel_grid(figure, lines, columns, tasks, sharex=True, sharey=True)
    scale = LogNorm(1, max(10, counts.max(initial=0)))
    seen = 0
    for task, panel in enumerate(panels):
        present = np.flatnonzero(counts[task].sum(axis=0))  # numbers of classes
        known = np.count_nonzero(present < seen)
        new = max(0, present.max(initial=-1) + 1 - seen)
        seen += new
        image = _draw_counts(panel, counts[task], scale)
        panel.axhline(seen - 0.5, color="tab:red", linewidth=0.8)
        panel.set_title(f"task {task + 1}: {new} new, {known} known", fontsize=9)
    _name_axes(figure, panels, image)
    return figure


def dense_counts(counts: np.ndarray, tasks: int, clients: int) -> np.ndarray:
    """The ``counts`` of a stream, (shares, 4), as an array (tasks, clients, classes)."""
    classes = counts[:, 2].max(initial=-1) + 1
    dense = np.zeros((tasks, clients, classes), dtype=np.int64)
    dense[tuple(counts[:, :3].T)] = counts[:, 3]
    return dense


def effective_classes(counts: np.ndarray) -> float:
    """Effective number of classes.

    >>> round(effective_classes(np.array([5, 5, 0, 5])), 6), effective_classes(np.array([0, 0]))
    (3.0, 0.0)
    """
    present = counts[counts > 0]
    if len(present) == 0:
        return 0.0
    shares = present / present.sum()
    entropy = -(shares * np.log(shares)).sum()
    return float(np.exp(entropy))


def _add_task(rows: Table, stream: Stream, task: Task, counts: np.ndarray, names: Sequence[str]) -> None:
    """A line for the task and one for each of the first clients; ``counts`` is (clients, classes)."""
    tests = stream.test_sizes[task.index]
    summary = f"{len(task.new)} new, {len(task.known)} known; {tests:,} test samples"
    numbers = _numbers(counts.sum(axis=0))
    rows.add_row(f"{task.index + 1}", "all", *numbers, _one_line(summary), style="bold")
    for client, held in enumerate(counts[:SHOWN_CLIENTS]):
        largest = _largest(held, names)
        rows.add_row("", f"{client}", *_numbers(held), _one_line(largest))
    if stream.clients > SHOWN_CLIENTS:
        rest = stream.sizes[task.index, SHOWN_CLIENTS:]
        summary = f"{len(rest):,} more clients with {rest.min():,} to {rest.max():,} samples"
        rows.add_row("", "...", f"{rest.sum():,}", "", "", _one_line(summary))
    rows.add_section()


def _draw_counts(panel: Axes, counts: np.ndarray, scale: LogNorm) -> AxesImage:
    """One task, (clients, classes); a class of which a client has no samples is left blank."""
    return panel.imshow(
        np.ma.masked_equal(counts.T, 0),
        norm=scale,
        cmap="viridis_r",
        aspect="auto",
        interpolation="none",
    )


def _name_axes(figure: Figure, panels: list[Axes], image: AxesImage) -> None:
    shared = panels[-1]  # all panels have its axes
    shared.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    shared.yaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    figure.supxlabel("client", fontsize=10)
    figure.supylabel("class, in order of registration", fontsize=10)
    figure.colorbar(
        image,
        ax=panels,
        label="training samples (log scale)",
        format="{x:g}",
        aspect=40,
        pad=0.01,
    )


def _numbers(counts: np.ndarray) -> tuple[str, str, str]:
    """Samples, classes and effective classes."""
    classes = np.count_nonzero(counts)
    effective = effective_classes(counts)
    return f"{counts.sum():,}", f"{classes}", f"{effective:.1f}"


def _one_line(words: str) -> Text:
    """Text that a narrow terminal cuts off, before it touches the columns of numbers."""
    return Text(words, no_wrap=True, overflow="ellipsis")


def _largest(counts: np.ndarray, names: Sequence[str]) -> str:
    present = np.count_nonzero(counts)
    ranked = np.argsort(-counts, kind="stable")[:present]
    shown = ranked if present <= MOST_CLASSES else ranked[:SHOWN_CLASSES]
    parts = [f"{names[number]} {counts[number]}" for number in shown]
    if len(shown) < present:
        parts.append(f"{present - len(shown)} more")
    return ", ".join(parts)
