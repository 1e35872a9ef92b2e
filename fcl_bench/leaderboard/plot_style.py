"""What all figures share: one look per row, and room for titles and legends of any length."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from fcl_bench.leaderboard.boards import Board

# The colours of Okabe and Ito, which colour-blind readers can tell apart; further rows get other marks and lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")
LINES = ("-", ":", "-.")
ORACLE = {"linestyle": "--", "markerfacecolor": "none"}  # a method of the same accuracy is seen through it
MARKS = "osD^vPX*"
TALLEST_LEGEND = 8.0  # inches; a longer one gets a second column
LABEL_LETTERS = 44  # in a line of a legend
LETTERS_PER_INCH = 14  # of titles, roughly

NamedFigures = Iterator[tuple[str, Figure]]  # each with the table that it shows; no words if it shows them all
Style = dict[str, Any]


def style(number: int) -> Style:
    """The look of a line; colour and mark together are unique for 64 numbers."""
    again, index = divmod(number, len(COLOURS))
    return {
        "color": COLOURS[index],
        "marker": MARKS[(index + again) % len(MARKS)],
        "linestyle": LINES[again % len(LINES)],
    }


def row_styles(boards: Sequence[Board]) -> dict[str, Style]:
    """The same look for a row in every panel, by the name of the row."""
    rows = {row.name: row for board in boards for row in board.rows}
    styles = {}
    for number, name in enumerate(sorted(rows)):
        styles[name] = style(number) | {"label": name}
        if "oracle" in rows[name].facts:
            styles[name] |= ORACLE
    return styles


def row_names(boards: Sequence[Board]) -> list[str]:
    """Every row once, in the order of the tables."""
    return list(dict.fromkeys(row.name for board in boards for row in board.rows))


def panel_grid(figure: Figure, lines: int, columns: int, used: int, **shared: Any) -> list[Axes]:
    """The first ``used`` panels of a grid; the others are removed."""
    panels = figure.subplots(lines, columns, squeeze=False, **shared).ravel()
    for unused in panels[used:]:
        unused.remove()
    return list(panels[:used])


def fitted_title(title: str, inches: float) -> str:
    """A title in as many lines as the width needs."""
    return _wrapped(title, int(inches * LETTERS_PER_INCH))


def add_legend(figure: Figure, order: Sequence[str]) -> None:
    """One legend for all panels, to their right, for the labels of ``order`` that are drawn.

    The figure grows by the size of the legend, so that the panels keep theirs.
    """
    drawn = _drawn_labels(figure)
    shown = {label: drawn[label] for label in order if label in drawn}
    if not shown:
        return
    legend = _place_legend(figure, shown, columns=1)
    _, legend_height = _inches(figure, legend)
    if legend_height > TALLEST_LEGEND:
        columns = math.ceil(legend_height / TALLEST_LEGEND)
        legend.remove()
        legend = _place_legend(figure, shown, columns)
    width, height = figure.get_size_inches()
    legend_width, legend_height = _inches(figure, legend)
    figure.set_size_inches(width + legend_width, max(height, legend_height))


def _drawn_labels(figure: Figure) -> dict[str, Artist]:
    drawn: dict[str, Artist] = {}
    for panel in figure.axes:
        handles, labels = panel.get_legend_handles_labels()
        drawn |= zip(labels, handles, strict=True)
    return drawn


def _place_legend(figure: Figure, shown: dict[str, Artist], columns: int) -> Legend:
    return figure.legend(
        handles=list(shown.values()),
        labels=[_wrapped(label, LABEL_LETTERS) for label in shown],
        loc="outside right upper",
        fontsize=7,
        handlelength=3,
        ncols=columns,
    )


def _inches(figure: Figure, legend: Legend) -> tuple[float, float]:
    """Width and height, with a border, and with room for letters that other resolutions round up to whole pixels."""
    box = legend.get_window_extent()
    width = box.width / figure.dpi
    height = box.height / figure.dpi
    return 1.1 * width + 0.1, 1.1 * height + 0.1


def _wrapped(words: str, letters: int) -> str:
    """In lines; a dollar is one, and not the beginning of a formula."""
    return textwrap.fill(words, letters, break_on_hyphens=False).replace("$", r"\$")
