"""The numbers of a table as they are printed: in the unit of their column, with their spread."""

from fcl_bench.leaderboard.boards import Board, Row
from fcl_bench.leaderboard.columns import column
from fcl_bench.leaderboard.statistics import Score


def number(score: Score, metric: str) -> str:
    """A score with its deviation; a cost is a mean alone."""
    if score.mean is None:
        return "n/a"
    mean = digits(score.mean, metric)
    return f"{mean} ± {digits(score.deviation, metric)}" if column(metric).score else mean


def digits(value: float | None, metric: str) -> str:
    """In the unit of the column's title."""
    shown = column(metric)
    return "n/a" if value is None else f"{value * shown.scale:.{shown.decimals}f}"


def interval(row: Row, metric: str) -> str:
    """The 95 % interval of a score."""
    ends = row.scores[metric].interval
    return " to ".join(digits(end, metric) for end in ends) if ends else "n/a"


def beside_best(row: Row) -> str:
    """The p-value of the comparison with the best; nothing for a row that is not compared."""
    if row.comparison is None:
        return ""
    p = row.comparison.p_holm
    if p is None:
        return "n/a"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def seeds(row: Row, board: Board) -> str:
    """How many, and of how many that the protocol publishes if some of these are missing."""
    if set(row.seeds) >= set(board.published):
        return str(len(row.runs))
    return f"{len(row.runs)} of {len(board.published)}"


def tuned(row: Row) -> str:
    """How many hyper-parameters were tuned in how many trials."""
    node = row.tuned
    if node is None:
        return "not recorded"
    if node.name == "faithful":
        return "faithful"
    return f"{len(node.hyperparameters)} in {node.trials} trials" if node.hyperparameters else "nothing to tune"
