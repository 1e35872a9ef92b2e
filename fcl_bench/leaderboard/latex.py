"""The tables as one LaTeX table in the manner of a paper: a line per setting, a column per method."""

from collections.abc import Iterator, Sequence

from fcl_bench.leaderboard.boards import Board, Row, by_mean, telling, text
from fcl_bench.leaderboard.columns import COLUMNS

SYMBOLS = {"tasks": "$T$", "alpha": r"$\alpha$", "clients": "$K$"}
MOST_COLUMNS = 7  # on a page; of wider tables the letters become smaller
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    character: f"\\{character}" for character in "&%$#_{}"
}


def latex(boards: Sequence[Board]) -> str:
    """Mean and deviation of the metric by which the tables are sorted; a document needs booktabs and graphicx for it.

    The best is bold, the second underlined; Improve says by how much of the second the best is better. Oracles come
    last, unranked.
    """
    column = COLUMNS[boards[0].sort]
    leading, names = telling(boards), by_mean(boards, oracles=False)[::-1]
    oracles = by_mean(boards, oracles=True)
    titles = [SYMBOLS.get(key, escaped(key)) for key in leading]
    titles += [*map(escaped, names), "Improve", *(f"{escaped(name)} (oracle)" for name in oracles)]
    wide = [r"\resizebox{\linewidth}{!}{%", "}"] if len(titles) > MOST_COLUMNS else []
    lines = [
        r"% \usepackage{booktabs,graphicx}",
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{escaped(column.title)}: mean and standard deviation over seeds; best bold, second underlined.}}",
        *wide[:1],
        rf"\begin{{tabular}}{{{'l' * len(leading)}{'r' * (len(titles) - len(leading))}}}",
        r"\toprule",
        f"{' & '.join(titles)} \\\\",
        r"\midrule",
        *(f"{' & '.join(_line(board, leading, names, oracles))} \\\\" for board in boards),
        *(r"\bottomrule", r"\end{tabular}", *wide[1:], r"\end{table}"),
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


def _line(board: Board, leading: Sequence[str], names: Sequence[str], oracles: Sequence[str]) -> Iterator[str]:
    rows = {row.name: row for row in board.rows}
    means = sorted({_mean(row, board) for row in board.ranked}, reverse=not COLUMNS[board.sort].lower_is_better)
    yield from (escaped(text(board.conditions.get(key, ""))) for key in leading)
    for name in names:
        yield _cell(rows.get(name), board, means)
    better = improvement(*means[:2]) if len(means) > 1 else None
    yield "--" if better is None else rf"{better:.2f}\,\%"
    for name in oracles:
        yield _cell(rows.get(name), board, [])


def _cell(row: Row | None, board: Board, means: Sequence[float]) -> str:
    score = row.scores[board.sort] if row else None
    if row is None or score is None or score.mean is None:
        return "--"
    shown, scale = f"{_mean(row, board):.2f}", COLUMNS[board.sort].scale
    for command, mean in zip((r"\textbf", r"\underline"), means, strict=False):
        if _mean(row, board) == mean:
            shown = f"{command}{{{shown}}}"
    spread = COLUMNS[board.sort].score and score.deviation is not None
    return rf"{shown} {{\scriptsize $\pm$ {(score.deviation or 0.0) * scale:.2f}}}" if spread else shown


def _mean(row: Row, board: Board) -> float:
    """As printed: what looks equal is equal."""
    return round((row.scores[board.sort].mean or 0.0) * COLUMNS[board.sort].scale, 2)
