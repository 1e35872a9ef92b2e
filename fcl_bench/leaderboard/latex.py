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
    leading = distinguishing_keys(boards)
    ranked = by_mean(boards, "competitor")[::-1]
    oracles = by_mean(boards, "oracle")
    unranked = [*by_mean(boards, "other classifier"), *oracles]
    titles = [SYMBOLS.get(key, escaped(key)) for key in leading]
    titles += [*map(escaped, ranked), "Improve"]
    titles += [f"{escaped(name)} (oracle)" if name in oracles else escaped(name) for name in unranked]
    caption = f"{escaped(column(boards[0].sort).title)}: mean and standard deviation over seeds"
    alignment = "l" * len(leading) + "r" * (len(titles) - len(leading))
    tabular = [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", _line(titles), r"\midrule"]
    tabular += [_line(_cells(board, leading, ranked, unranked)) for board in boards]
    tabular += [r"\bottomrule", r"\end{tabular}"]
    if len(titles) > MOST_COLUMNS:
        tabular = [r"\resizebox{\linewidth}{!}{%", *tabular, "}"]
    lines = [
        r"% \usepackage{booktabs,graphicx}",
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{caption}; best bold, second underlined.}}",
        *tabular,
        r"\end{table}",
    ]
    return "\n".join([*lines, ""])


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


def _line(cells: Iterator[str] | Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _cells(board: Board, leading: Sequence[str], ranked: Sequence[str], unranked: Sequence[str]) -> Iterator[str]:
    rows = {row.name: row for row in board.rows}
    means = {_mean(row, board) for row in board.ranked}
    best = sorted(means, reverse=not column(board.sort).lower_is_better)[:2]
    for key in leading:
        yield escaped(text(board.conditions.get(key, "")))
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
    return rf"{shown} {{\scriptsize $\pm$ {deviation * column(board.sort).scale:.2f}}}"


def _mean(row: Row, board: Board) -> float:
    """As printed: what looks equal is equal."""
    return round((row.scores[board.sort].mean or 0.0) * column(board.sort).scale, 2)
