"""A stream for the eye: a table for the terminal and a picture for a paper."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich import box
from rich.table import Table
from rich.text import Text

from fcl_bench.errors import ConfigError
from fcl_bench.stream import Stream

SHOWN_CLIENTS = 20  # rows per task; of larger federations the table shows the first
FORMATS = (".png", ".svg", ".pdf")


def table(stream: Stream, class_names: Sequence[str]) -> Table:
    """One row per task and client: how many samples and classes, how unequal, and which classes most.

    The effective number of classes (exp of the label entropy) is the number of equally large classes just as diverse.
    """
    names = [class_names[label] for label in stream.order]
    rows = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("task", "client", "samples", "classes", "effective"):
        rows.add_column(heading, justify="right", no_wrap=True, min_width=len(heading))
    rows.add_column("largest classes")
    held = dense(stream.counts, len(stream.tasks), stream.clients)
    for task, counts in zip(stream.tasks, held, strict=True):
        facts = f"{len(task.new)} new, {len(task.known)} known; {stream.test_sizes[task.index]:,} test samples"
        rows.add_row(str(task.index + 1), "all", *_figures(counts.sum(axis=0)), _line(facts), style="bold")
        for client, own in enumerate(counts[:SHOWN_CLIENTS]):
            rows.add_row("", str(client), *_figures(own), _line(_largest(own, names)))
        if stream.clients > SHOWN_CLIENTS:
            rest = stream.sizes[task.index, SHOWN_CLIENTS:]
            facts = f"{len(rest):,} more clients with {rest.min():,} to {rest.max():,} samples"
            rows.add_row("", "...", f"{rest.sum():,}", "", "", _line(facts))
        rows.add_section()
    return rows


def picture(counts: np.ndarray) -> Figure:
    """Clients x classes for every task, the number of samples (tasks, clients, classes) as colour.

    A red line ends the classes seen so far.
    """
    tasks, _, classes = counts.shape
    columns = min(tasks, 5 if tasks <= 10 else 10)
    lines = math.ceil(tasks / columns)
    figure = Figure(figsize=(1.6 + 2.0 * columns, 0.8 + lines * np.clip(0.06 * classes, 2.2, 8)), layout="constrained")
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for unused in grid[tasks:]:
        unused.remove()
    panels = list(grid[:tasks])
    scale = LogNorm(1, max(10, counts.max(initial=0)))
    before = 0
    for task, (held, panel) in enumerate(zip(counts, panels, strict=True), start=1):
        present = np.flatnonzero(held.sum(axis=0))
        seen = max(before, present.max(initial=-1) + 1)
        known = np.count_nonzero(present < before)
        shown = np.ma.masked_equal(held.T, 0)
        image = panel.imshow(shown, norm=scale, cmap="viridis_r", aspect="auto", interpolation="none")
        panel.axhline(seen - 0.5, color="tab:red", linewidth=0.8)
        panel.set_title(f"task {task}: {seen - before} new, {known} known", fontsize=9)
        before = seen
    panel.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    panel.yaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    figure.supxlabel("client", fontsize=10)
    figure.supylabel("class, in order of registration", fontsize=10)
    figure.colorbar(image, ax=panels, label="training samples (log scale)", format="{x:g}", aspect=40, pad=0.01)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the suffix of ``path`` is the format."""
    if path.suffix not in FORMATS:
        raise ConfigError(f"Expected a picture name ending in {', '.join(FORMATS)}, but got {path.name}.")
    figure.savefig(path, dpi=150)


def dense(counts: np.ndarray, tasks: int, clients: int) -> np.ndarray:
    """The ``counts`` of a stream as an array (tasks, clients, classes)."""
    found = np.zeros((tasks, clients, counts[:, 2].max(initial=-1) + 1), dtype=np.int64)
    found[tuple(counts[:, :3].T)] = counts[:, 3]
    return found


def effective(counts: np.ndarray) -> float:
    """Effective number of classes.

    >>> round(effective(np.array([5, 5, 0, 5])), 6), effective(np.array([0, 0]))
    (3.0, 0.0)
    """
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else 0.0


def _figures(counts: np.ndarray) -> tuple[str, str, str]:
    return f"{counts.sum():,}", str(np.count_nonzero(counts)), f"{effective(counts):.1f}"


def _line(text: str) -> Text:
    """Text that a narrow terminal cuts off, before it touches the columns of numbers."""
    return Text(text, no_wrap=True, overflow="ellipsis")


def _largest(counts: np.ndarray, names: Sequence[str]) -> str:
    ranked = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    shown = ranked if len(ranked) <= 12 else ranked[:8]
    more = f", {len(ranked) - len(shown)} more" if len(ranked) > len(shown) else ""
    return ", ".join(f"{names[number]} {counts[number]}" for number in shown) + more
