"""The tables as one LaTeX table in the manner of a paper: a line per setting, a column per method."""

from collections.abc import Iterator, Sequence

from fcl_bench.leaderboard.boards import Board, Row, by_mean
from fcl_bench.leaderboard.columns import column
from fcl_bench.leaderboard.titles import distinguishing_keys, text

SYMBOLS = {"tasks": "$T$", "alpha": r"$\alpha$", "clients": "$K$"}
MOST_COLUMNS = 7  # on a page; of wider tables the letters become smaller
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {character: f"\\{character}" for character in "&%$#_{}"}


def latex(boards: Sequence[Board]) -> str:
    """Mean and deviation of the metric by which the tables are sorted; a document needs booktabs and graphicx for it.

    The best is bold, the second underlined; Improve says by how much of the second the best is better. Other
    classifiers of a method and oracles come last, unranked.
    """
    conditions = distinguishing_keys(boards)
    ranked = by_mean(boards, "competitor")[::-1]
    others = by_mean(boards, "other classifier")
    oracles = by_mean(boards, "oracle")
    titles = [
        *(SYMBOLS.get(key, escaped(key)) for key in conditions),
        *map(escaped, ranked),
        "Improve",
        *map(escaped, others),
        *(f"{escaped(name)} (oracle)" for name in oracles),
    ]
    alignment = "l" * len(conditions) + "r" * (len(titles) - len(conditions))
    lines = [
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        _line(titles),
        r"\midrule",
        *(_line(_cells(board, conditions, ranked, others + oracles)) for board in boards),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if len(titles) > MOST_COLUMNS:
        lines = [r"\resizebox{\linewidth}{!}{%", *lines, "}"]
    return "\n".join(_in_table(lines, column(boards[0].sort).title))


def escaped(words: str) -> str:
    r"""Text that LaTeX prints as it is.

    >>> print(escaped("a_b 5 % ^"))
    a\_b 5 \% \textasciicircum{}
    """
    return "".join(SPECIAL.get(character, character) for character in words)


def improvement(best: float, second: float) -> float | None:
    """How much better than the second the best is, in percent of the second.

    >>> round(improvement(58.56, 43.34), 2), round(improvement(22.96, 368.11), 2), improvement(1.0, 0.0)
    (35.12, 93.76, None)
    """
    return 100 * abs(best - second) / abs(second) if second else None


def _in_table(tabular: Sequence[str], metric: str) -> list[str]:
    caption = f"{escaped(metric)}: mean and standard deviation over seeds; best bold, second underlined."
    return [
        r"% \usepackage{booktabs,graphicx}",
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{caption}}}",
        *tabular,
        r"\end{table}",
        "",
    ]


def _line(cells: Iterator[str] | Sequence[str]) -> str:
    """A bracket at the beginning would belong to the end of the line before."""
    line = " & ".join(cells)
    return f"{'{}' if line.startswith(('[', '*')) else ''}{line} \\\\"


def _cells(
    board: Board,
    conditions: Sequence[str],
    ranked: Sequence[str],
    unranked: Sequence[str],
) -> Iterator[str]:
    rows = {row.name: row for row in board.rows}
    means = {_mean(row, board) for row in board.ranked}
    best = sorted(means, reverse=not column(board.sort).lower_is_better)[:2]
    for key in conditions:
        value = board.conditions.get(key, "")
        yield escaped(text(value))
    for name in ranked:
        yield _cell(rows.get(name), board, best)
    better = improvement(*best) if len(best) == 2 else None
    yield "--" if better is None else rf"{better:.2f}\,\%"
    for name in unranked:
        yield _cell(rows.get(name), board, [])


def _cell(row: Row | None, board: Board, best: Sequence[float]) -> str:
    if row is None or row.scores[board.sort].mean is None:
        return "--"
    mean = _mean(row, board)
    shown = f"{mean:.2f}"
    for command, marked in zip((r"\textbf", r"\underline"), best, strict=False):
        if mean == marked:
            shown = f"{command}{{{shown}}}"
    deviation = row.scores[board.sort].deviation
    if deviation is None or not column(board.sort).score:
        return shown
    spread = deviation * column(board.sort).scale
    return rf"{shown} {{\scriptsize $\pm$ {spread:.2f}}}"


def _mean(row: Row, board: Board) -> float:
    """As printed: what looks equal is equal."""
    mean = row.scores[board.sort].mean or 0.0
    return round(mean * column(board.sort).scale, 2)
