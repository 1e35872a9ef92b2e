"""What a table says in sentences, computed from its records: who is best when, at what price, and how sure it is."""

from collections.abc import Callable, Iterable, Iterator
from statistics import mode

from fcl_bench.leaderboard.boards import Board, Row
from fcl_bench.leaderboard.columns import HEADLINE, column
from fcl_bench.leaderboard.printed import beside_best, digits

DURING = "anytime_accuracy"
SIGNIFICANT = 0.05
COSTS = (  # metric, and what to write behind the number
    ("uplink_bytes", "MB up"),
    ("downlink_bytes", "MB down"),
    ("runtime_seconds", "seconds"),
    ("stored_bytes", "MB stored by clients"),
    ("samples_revealed", "samples revealed"),
)
UNEVEN = "Not all rows have the same seeds and streams: their means are not quite comparable."


def statements(board: Board) -> list[str]:
    """All that can be said of a table, in the order of a reader's questions."""
    return [
        *_end_and_during(board),
        *_significance(board),
        *_price(board),
        *_yield(board),
        *_tuning(board),
        *_seeds(board),
        *([UNEVEN] if board.uneven else []),
    ]


def _end_and_during(board: Board) -> Iterator[str]:
    """Who is best at the end of the stream, where another one is best during it."""
    last, during = (_best(board, metric) for metric in (HEADLINE, DURING))
    if last and during and last is not during:
        yield (
            f"Best at the end of the stream: {last.name} ({_percent(last, HEADLINE)}; {_percent(last, DURING)} during "
            f"it); best during it: {during.name} ({_percent(during, DURING)}; {_percent(during, HEADLINE)} at the end)."
        )


def _significance(board: Board) -> Iterator[str]:
    """From whom the best can be told apart, in the metric of the order."""
    if len(board.ranked) < 2:
        return
    best, *others = board.ranked
    clear = [row for row in others if _is_clear(row)]
    single = [row.name for row in others if row.comparison is None or row.comparison.p_holm is None]
    unclear = [f"{row.name} (p {beside_best(row)})" for row in others if row not in clear and row.name not in single]
    title = column(board.sort).title
    parts = [f"In {title}, {best.name} is better than {len(clear)} of {len(others)} others at the 5 % level"]
    if unclear:
        parts.append(f"not told apart from it: {', '.join(unclear)}")
    if single:
        parts.append(f"with fewer than two seeds in common: {', '.join(single)}")
    yield f"{'; '.join(parts)}."


def _price(board: Board) -> Iterator[str]:
    """What the best row costs, stores and reveals."""
    if not board.ranked:
        return
    best = board.ranked[0]
    known = []
    for metric, words in COSTS:
        mean = best.scores[metric].mean
        if mean is not None:
            known.append(f"{digits(mean, metric)} {words}")
    if known:
        yield f"What {best.name} costs: {', '.join(known)}."


def _yield(board: Board) -> Iterator[str]:
    """Who brings most for a byte and for a second."""
    by_name: dict[str, list[str]] = {}
    for metric in ("accuracy_per_megabyte", "accuracy_per_second"):
        row = _best(board, metric)
        if row:
            value = f"{digits(row.scores[metric].mean, metric)} {column(metric).title}"
            by_name.setdefault(row.name, []).append(value)
    if by_name:
        parts = [f"{name} ({' and '.join(values)})" for name, values in by_name.items()]
        yield f"Most accuracy for its price: {', '.join(parts)}."


def _tuning(board: Board) -> Iterator[str]:
    """Whether all were tuned alike."""
    tuned = {row.name: row.tuned for row in _own_rows(board) if row.tuned is not None and row.tuned.name == "tuned"}
    trials = {name: node.trials for name, node in tuned.items() if node.hyperparameters}
    if trials:
        usual = mode(trials.values())
        others = [f"{name} had {number}" for name, number in trials.items() if number != usual]
        exceptions = f", but {', '.join(others)}" if others else ""
        yield f"Every tuned row that has something to tune had {usual} trials{exceptions}."
    nothing = [name for name in tuned if name not in trials]
    if nothing:
        yield f"With nothing to tune: {', '.join(nothing)}."


def _seeds(board: Board) -> Iterator[str]:
    """Which rows have fewer seeds than the protocol publishes, and which have others."""
    protocol = board.conditions["protocol"]
    wanted = set(board.published)
    fewer = _by_seeds(board, lambda seeds: wanted - seeds)
    if fewer:
        yield f"{protocol} publishes the seeds {_numbers(wanted)}, of which some are missing: {fewer}."
    others = _by_seeds(board, lambda seeds: seeds - wanted) if wanted else ""
    if others:
        yield f"{protocol} does not publish these seeds: {others}."


def _by_seeds(board: Board, chosen: Callable[[set[int]], set[int]]) -> str:
    """Seeds chosen of those of each row, with the rows that they are chosen for."""
    rows: dict[str, list[str]] = {}
    for row in _own_rows(board):
        seeds = chosen(set(row.seeds))
        if seeds:
            rows.setdefault(_numbers(seeds), []).append(row.name)
    return "; ".join(f"{seeds} of {', '.join(names)}" for seeds, names in rows.items())


def _own_rows(board: Board) -> list[Row]:
    """The other classifiers of a method have its runs."""
    return [row for row in board.rows if row.role != "other classifier"]


def _best(board: Board, metric: str) -> Row | None:
    """Of the competitors that have the metric; the first of equal ones."""
    known = [(row.scores[metric].mean, row) for row in board.ranked if metric in row.scores]
    means = [(mean, row) for mean, row in known if mean is not None]
    if not means:
        return None
    pick = min if column(metric).lower_is_better else max
    return pick(means, key=lambda pair: pair[0])[1]


def _is_clear(row: Row) -> bool:
    p = row.comparison.p_holm if row.comparison else None
    return p is not None and p < SIGNIFICANT


def _percent(row: Row, metric: str) -> str:
    return f"{digits(row.scores[metric].mean, metric)} %"


def _numbers(values: Iterable[int]) -> str:
    """Whole numbers in a row, three and more neighbours by their ends.

    >>> _numbers([1, 2, 3, 4, 5]), _numbers({5, 2, 4})
    ('1 to 5', '2, 4, 5')
    """
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    parts: list[str] = []
    for run in runs:
        parts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    return ", ".join(parts)
