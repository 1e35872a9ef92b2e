"""Tables for a terminal, for a pipe, and as Markdown: the same cells."""

import re
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from fcl_bench.leaderboard.boards import CERTIFIED, DIFFERS, OTHER_CLASSIFIER, ROLES, Board, by_mean, by_protocol
from fcl_bench.leaderboard.columns import HEADLINE, SHOWN, column
from fcl_bench.leaderboard.printed import beside_best, interval, number, seeds, tuned
from fcl_bench.leaderboard.protocols import protocol_sentences
from fcl_bench.leaderboard.statements import DURING, statements
from fcl_bench.leaderboard.titles import told_apart

FACTS = {
    "exact": "exact",
    "exemplar_free": "stores no samples",
    "needs_frozen_backbone": "frozen only",
    "oracle": "oracle",
    "sees_future_classes": "sees future classes",
    OTHER_CLASSIFIER: "other classifier",
    CERTIFIED: "certified",
    DIFFERS: "not what one place gives",
}
NOTE = (
    "± standard deviation over seeds; 95 %: Student's interval of the mean; p: paired t-test against the best method "
    "on the same seeds, Holm-corrected; oracles and other classifiers of a method, in [brackets], are not compared."
)
Cells = list[list[str]]  # titles first, then a line per row; the first of each line is the name
LEFT = ("method", "gamma", "tuned", "facts")  # columns of words
GAP = 2
ACTS_IN_MARKDOWN = re.compile(r"<(?=[A-Za-z/!?])|(?<=\])\(")  # a tag, the address of a link
REJECTED = "rejected_replies"
LONGEST_NAME = 40


def show(boards: Sequence[Board], console: Console, columns: Sequence[str] = SHOWN) -> None:
    """On a terminal in as many pieces as its width needs; elsewhere in plain lines, whatever their length."""
    for board in boards:
        console.print(Text(board.heading, "bold"), soft_wrap=True)
        console.print(Text(board.stream), soft_wrap=True)
        show_cells(cells(board, columns), console)
        _show_sentences(statements(board), console)
        console.print()
    for title, table in overviews(boards):
        console.print(Text(f"overview: {title}", "bold"))
        show_cells(table, console)
        console.print()
    _show_sentences(protocol_sentences(boards), console)
    console.print(Text(NOTE, "dim"), soft_wrap=not console.is_terminal)


def _show_sentences(sentences: Sequence[str], console: Console) -> None:
    for sentence in sentences:
        console.print(Text(f"- {sentence}"), soft_wrap=not console.is_terminal)


def show_cells(lines: Cells, console: Console) -> None:
    """One table."""
    if console.is_terminal:
        console.print(*map(_drawn, _pieces(lines, console.width)), sep="\n")
    else:
        console.print(*_plain(lines), sep="\n", markup=False, soft_wrap=True)


def markdown(boards: Sequence[Board], columns: Sequence[str] = SHOWN) -> str:
    """An overview of several tables, then a heading, the settings of the stream and the table for each."""
    parts = _markdown_list(protocol_sentences(boards))
    for title, table in overviews(boards):
        parts += [f"## Overview: {in_markdown(title)}", markdown_cells(table)]
    for board in boards:
        parts += [f"## {in_markdown(board.heading)}", in_markdown(board.stream), markdown_cells(cells(board, columns))]
        parts += _markdown_list(statements(board))
    return "\n\n".join([*parts, NOTE]) + "\n"


def _markdown_list(sentences: Sequence[str]) -> list[str]:
    """A list of the sentences, if there are any."""
    return ["\n".join(f"* {in_markdown(sentence)}" for sentence in sentences)] if sentences else []


def markdown_cells(lines: Cells) -> str:
    """One table."""
    titles, *rows = lines
    rule = [":---" if title in LEFT else "---:" for title in titles]
    named = [[_code(name), *map(in_markdown, rest)] for name, *rest in rows]
    return "\n".join(map(_markdown_line, [[*map(in_markdown, titles)], rule, *named]))


def in_markdown(words: str) -> str:
    r"""Words of a record as text: no tags, no links.

    >>> print(in_markdown("<b>x</b> [z](http://there) p <0.001"))
    \<b>x\</b> [z]\(http://there) p <0.001
    """
    return ACTS_IN_MARKDOWN.sub(r"\\\g<0>", words)


def overviews(boards: Sequence[Board]) -> Iterator[tuple[str, Cells]]:
    """For each protocol with several tables its overview, of accuracy at the end also one of that during the stream."""
    groups = by_protocol(boards)
    for protocol, own in groups.items():
        suffix = f", protocol {protocol or 'none'}" if len(groups) > 1 else ""
        sort = own[0].sort
        for metric in (HEADLINE, DURING) if sort == HEADLINE else (sort,):
            if len(own) > 1:
                yield f"{column(metric).title}{suffix}", overview(own, metric)


def overview(boards: Sequence[Board], metric: str | None = None) -> Cells:
    """One metric in all tables, that of their order if none is named: a line per row, a column per table.

    Competitors come first, each group in the order of the tables.
    """
    lines = [["method", *told_apart(boards, shortly=True)]]
    for role in ROLES:
        for name in by_mean(boards, role):
            title = f"{name} (oracle)" if role == "oracle" else name
            lines.append([title, *_over_boards(name, boards, metric or boards[0].sort)])
    return lines


def cells(board: Board, columns: Sequence[str] = SHOWN) -> Cells:
    """The table as text: the metric it is sorted by comes first, with its interval and the comparison."""
    others = [name for name in _with_rejected(columns, board) if name != board.sort]
    titles = [column(name).title for name in others]
    best = board.ranked[0] if board.ranked else None
    tuning = ["tuned"] if board.tells_tuning else []
    lines = [["method", "seeds", column(board.sort).title, "95 %", "p", *titles, *tuning, "facts"]]
    for row in board.rows:
        line = [
            row.name,
            seeds(row, board),
            number(row.scores[board.sort], board.sort),
            interval(row, board.sort),
            "best" if row is best else beside_best(row),
            *(number(row.scores[name], name) for name in others),
            *(tuned(row) for _ in tuning),
            ", ".join(FACTS.get(fact, fact) for fact in row.facts),
        ]
        lines.append(line)
    return lines


def _with_rejected(columns: Sequence[str], board: Board) -> Sequence[str]:
    """Where replies were dropped, the table says how many, whatever columns were asked for."""
    dropped = [row.scores[REJECTED].mean for row in board.rows if REJECTED in row.scores]
    return [*columns, REJECTED] if any(dropped) and REJECTED not in columns else columns


def _over_boards(name: str, boards: Sequence[Board], metric: str) -> Iterator[str]:
    """The score of a row in each table; nothing in a table that does not have the row."""
    for board in boards:
        rows = {row.name: row for row in board.rows}
        yield number(rows[name].scores[metric], metric) if name in rows else ""


def _code(name: str) -> str:
    return f"`{name.replace('`', chr(39))}`"


def _markdown_line(line: Sequence[str]) -> str:
    escaped = (cell.replace("|", "\\|") for cell in line)
    return f"| {' | '.join(escaped)} |"


def _widths(lines: Cells) -> list[int]:
    return [max(map(len, column)) for column in zip(*lines, strict=True)]


def _terminal_widths(lines: Cells) -> list[int]:
    """As :func:`_widths`, but long names are folded."""
    name, *rest = _widths(lines)
    return [min(name, LONGEST_NAME), *rest]


def _pieces(lines: Cells, width: int) -> Iterator[Cells]:
    """As many columns as there is room for, then the names again with the next ones."""
    name, *widths = _terminal_widths(lines)
    chosen = [0]
    room = width - name
    for index, needed in enumerate(widths, start=1):
        if needed + GAP > room and len(chosen) > 1:
            yield _chosen_columns(lines, chosen)
            chosen = [0]
            room = width - name
        chosen.append(index)
        room -= needed + GAP
    yield _chosen_columns(lines, chosen)


def _chosen_columns(lines: Cells, chosen: Sequence[int]) -> Cells:
    return [[line[index] for index in chosen] for line in lines]


def _drawn(lines: Cells) -> Table:
    titles, *rows = lines
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, GAP - 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for title, width in zip(titles, _terminal_widths(lines), strict=True):
        side: JustifyMethod = "left" if title in LEFT else "right"
        table.add_column(title, justify=side, overflow="fold", width=width)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _plain(lines: Cells) -> Iterator[str]:
    titles = lines[0]
    widths = _widths(lines)
    for line in lines:
        padded = []
        for title, cell, width in zip(titles, line, widths, strict=True):
            padded.append(cell.ljust(width) if title in LEFT else cell.rjust(width))
        yield (" " * GAP).join(padded).rstrip()
