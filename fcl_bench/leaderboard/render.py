"""Tables for a terminal, for a pipe, and as Markdown: the same cells."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fcl_bench.leaderboard.boards import Board, Row, by_mean, told_apart
from fcl_bench.leaderboard.columns import COLUMNS, SHOWN
from fcl_bench.leaderboard.statistics import Score

FACTS = {"exact": "exact", "exemplar_free": "no exemplars", "needs_frozen_backbone": "frozen only", "oracle": "oracle"}
NOTE = (
    "± standard deviation over seeds; 95 %: bootstrap interval of the mean; p: paired t-test against the best method "
    "on the same seeds, Holm-corrected; an oracle is not compared."
)
UNEVEN = "Not all rows have the same seeds and streams: their means are not quite comparable."
Cells = list[list[str]]  # titles first, then a line per row; the first of each line is the name
LEFT = ("method", "gamma", "facts")  # columns of words
GAP, LONGEST_NAME = 2, 40


def show(boards: Sequence[Board], console: Console, columns: Sequence[str] = SHOWN) -> None:
    """On a terminal in as many pieces as its width needs; elsewhere in plain lines, whatever their length."""
    for board in boards:
        console.print(Text(board.heading, "bold"), soft_wrap=True)
        console.print(Text(board.stream), soft_wrap=True)
        show_cells(cells(board, columns), console)
        if board.uneven:
            console.print(Text(UNEVEN), soft_wrap=not console.is_terminal)
        console.print()
    if len(boards) > 1:
        console.print(Text(f"overview: {COLUMNS[boards[0].sort].title}", "bold"))
        show_cells(overview(boards), console)
        console.print()
    console.print(Text(NOTE, "dim"), soft_wrap=not console.is_terminal)


def show_cells(lines: Cells, console: Console) -> None:
    """One table."""
    if console.is_terminal:
        console.print(*map(_drawn, _pieces(lines, console.width)), sep="\n")
    else:
        console.print(*_plain(lines), sep="\n", markup=False, soft_wrap=True)


def markdown(boards: Sequence[Board], columns: Sequence[str] = SHOWN) -> str:
    """An overview of several tables, then a heading, the settings of the stream and the table for each."""
    title = f"## Overview: {COLUMNS[boards[0].sort].title}"
    parts = [[title, markdown_cells(overview(boards))]] if len(boards) > 1 else []
    for board in boards:
        part = [f"## {board.heading}", board.stream, markdown_cells(cells(board, columns))]
        parts.append([*part, UNEVEN] if board.uneven else part)
    return "\n\n".join([*("\n\n".join(part) for part in parts), NOTE]) + "\n"


def overview(boards: Sequence[Board]) -> Cells:
    """The metric of the order in all tables: a line per method, a column per table."""
    titles = told_apart(boards, shortly=True)
    rows = [{row.name: row for row in board.rows} for board in boards]
    lines = [["method", *titles]]
    for oracles in (False, True):
        for name in by_mean(boards, oracles):
            scores = (
                found[name].scores[board.sort] if name in found else None
                for board, found in zip(boards, rows, strict=True)
            )
            numbers = (number(score, boards[0].sort) if score else "" for score in scores)
            lines.append([f"{name} (oracle)" if oracles else name, *numbers])
    return lines


def markdown_cells(lines: Cells) -> str:
    """One table."""
    titles, *rows = lines
    rule = [":---" if title in LEFT else "---:" for title in titles]
    named = ([f"`{name}`", *rest] for name, *rest in rows)
    return "\n".join("| " + " | ".join(_escaped(cell) for cell in line) + " |" for line in (titles, rule, *named))


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def cells(board: Board, columns: Sequence[str] = SHOWN) -> Cells:
    """The table as text: the metric it is sorted by comes first, with its interval and the comparison."""
    order = [board.sort, *(name for name in columns if name != board.sort)]
    titles = [COLUMNS[name].title for name in order]
    best = board.ranked[0] if board.ranked else None
    lines = [["method", "seeds", titles[0], "95 %", "p", *titles[1:], "facts"]]
    for row in board.rows:
        first, *rest = (number(row.scores[name], name) for name in order)
        facts = ", ".join(FACTS.get(fact, fact) for fact in row.facts)
        beside = "best" if row is best else beside_best(row)
        lines.append([row.name, str(len(row.runs)), first, interval(row, board.sort), beside, *rest, facts])
    return lines


def number(score: Score, metric: str) -> str:
    """A score with its deviation; a cost is a mean alone."""
    if score.mean is None:
        return "n/a"
    mean, deviation = (digits(value, metric) for value in (score.mean, score.deviation))
    return f"{mean} ± {deviation}" if COLUMNS[metric].score else mean


def digits(value: float | None, metric: str) -> str:
    """In the unit of the column's title."""
    return "n/a" if value is None else f"{value * COLUMNS[metric].scale:.2f}"


def interval(row: Row, metric: str) -> str:
    """The 95 % interval of a score."""
    found = row.scores[metric].interval
    return " to ".join(digits(end, metric) for end in found) if found else "n/a"


def beside_best(row: Row) -> str:
    """The p-value of the comparison with the best; nothing for a row that is not compared."""
    if row.comparison is None:
        return ""
    p = row.comparison.p_holm
    return "n/a" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def _widths(lines: Cells) -> list[int]:
    name, *rest = (max(map(len, column)) for column in zip(*lines, strict=True))
    return [min(name, LONGEST_NAME), *rest]


def _pieces(lines: Cells, width: int) -> Iterator[Cells]:
    """Columns side by side while there is room, the names again in every piece."""
    widths = _widths(lines)
    room, chosen = width - widths[0], [0]
    for index, needed in enumerate(widths[1:], start=1):
        if needed + GAP > room and len(chosen) > 1:
            yield [[line[column] for column in chosen] for line in lines]
            room, chosen = width - widths[0], [0]
        room -= needed + GAP
        chosen.append(index)
    yield [[line[column] for column in chosen] for line in lines]


def _drawn(lines: Cells) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, GAP - 1, 0, 0), pad_edge=False, show_edge=False)
    for title, width in zip(lines[0], _widths(lines), strict=True):
        table.add_column(title, justify="left" if title in LEFT else "right", overflow="fold", width=width)
    for line in lines[1:]:
        table.add_row(*map(Text, line))
    return table


def _plain(lines: Cells) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (
            text.ljust(width) if title in LEFT else text.rjust(width)
            for title, text, width in zip(lines[0], line, widths, strict=True)
        )
        yield (" " * GAP).join(padded).rstrip()
