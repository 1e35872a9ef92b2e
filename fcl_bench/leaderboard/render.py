"""Tables for a terminal, for a pipe, and as Markdown: the same cells."""

from collections.abc import Iterable, Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fcl_bench.leaderboard.boards import COLUMNS, Board, Row, Score

ROOMY = 120  # columns of a terminal
TITLES = ["method", "seeds", *(column.title for column in COLUMNS.values())]


def show(boards: Iterable[Board], console: Console) -> None:
    """Drawn by rich on a terminal; elsewhere plain lines, whatever their length."""
    for number, board in enumerate(boards):
        console.print("\n" * bool(number), Text(board.heading, "bold"), sep="", soft_wrap=True)
        console.print(Text(board.conditions), soft_wrap=True)
        if console.is_terminal:
            console.print(_drawn(board, roomy=console.width >= ROOMY))
        else:
            console.print(*_plain(board), sep="\n", markup=False, soft_wrap=True)


def markdown(boards: Iterable[Board]) -> str:
    """A heading, the settings of the stream and a table for each."""
    return "\n".join(line for board in boards for line in _markdown(board))


def _drawn(board: Board, roomy: bool) -> Table:
    """Where there is little room, numbers and titles take two lines."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, int(roomy), 0, 0), pad_edge=False, show_edge=False)
    table.add_column(TITLES[0], overflow="fold")
    for title in TITLES[1:]:
        table.add_column(title if roomy else title.replace(" ", "\n"), justify="right", no_wrap=True)
    for name, *numbers in map(_cells, board.rows):
        table.add_row(Text(name), *(number if roomy else number.replace(" ± ", "\n±") for number in numbers))
    return table


def _plain(board: Board) -> Iterator[str]:
    lines = [TITLES, *map(_cells, board.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for name, *numbers in lines:
        padded = (number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True))
        yield "  ".join([name.ljust(widths[0]), *padded])


def _markdown(board: Board) -> Iterator[str]:
    yield from (f"## {board.heading}", "", board.conditions, "")
    yield f"| {' | '.join(TITLES)} |"
    yield f"|---|{'---:|' * (len(TITLES) - 1)}"
    for name, *numbers in map(_cells, board.rows):
        escaped = name.replace("|", "\\|")
        yield f"| {' | '.join([f'`{escaped}`', *numbers])} |"
    yield ""


def _cells(row: Row) -> list[str]:
    numbers = (_number(row.scores[key], column.spread) for key, column in COLUMNS.items())
    return [row.name, str(row.seeds), *numbers]


def _number(score: Score, spread: bool) -> str:
    mean, deviation = ("n/a" if value is None else f"{value:.2f}" for value in (score.mean, score.deviation))
    return f"{mean} ± {deviation}" if spread and score.mean is not None else mean
