"""The order of methods in our tables beside the order in published ones, pair by pair.

Accuracies of other networks, data and budgets are not ours, but which method is above which should be. The published
figures are in ``literature.yaml``; those of the AFCL paper are in ``paper.yaml``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import permutations
from statistics import fmean
from typing import Any, Literal

from omegaconf import OmegaConf

from fcl_bench.leaderboard.against import Section, published
from fcl_bench.leaderboard.boards import Board, Row
from fcl_bench.leaderboard.columns import HEADLINE
from fcl_bench.leaderboard.statistics import interval

MARGIN = 1.0  # points of accuracy; the sources name no deviations, and what is closer is in no order
TITLES = ["published order", "source", "its difference", "here", "95 %", "found"]
Verdict = Literal["the same", "opposite", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("the same", "opposite", "undecided")


@dataclass(frozen=True)
class Source:
    """One published table: for each method its accuracies in the settings of the table."""

    name: str
    source: str
    setting: str
    values: dict[str, list[float]]


@dataclass(frozen=True)
class Pair:
    """Two methods in a published order, and our rows of them."""

    source: Source
    above: Row
    below: Row

    @property
    def differences(self) -> list[float]:
        """Ours, one for each draw that both rows have seen."""
        return _differences(self.above, self.below)


def orders(boards: Sequence[Board]) -> tuple[list[Section], list[str]]:
    """A section for every table whose order somebody has published, and a sentence for every other one."""
    sections = []
    others = []
    for board in boards:
        sources = list(_sources_for(board))
        if sources:
            sections.append(_section(board, sources))
        else:
            others.append(f"No source has orders for {board.heading} ({board.stream}).")
    return sections, others


def verdict(differences: Sequence[float]) -> Verdict:
    """What the differences of two methods say about their order, one for each draw.

    >>> verdict([4.0, 5.0, 6.0]), verdict([-4.0, -5.0, -6.0]), verdict([-1.0, 5.0, 6.0]), verdict([5.0])
    ('the same', 'opposite', 'undecided', 'undecided')
    """
    if len(differences) < 2:
        return "undecided"
    low, high = interval(differences)
    if low > 0:
        return "the same"
    return "opposite" if high < 0 else "undecided"


def in_order(above: Sequence[float], below: Sequence[float]) -> bool:
    """Whether a published table has one method above another: in all of its settings, by a point or more on average.

    >>> in_order([5.0, 3.0], [4.0, 1.0]), in_order([5.0, 3.0], [1.0, 3.5]), in_order([5.0, 3.0], [4.9, 2.9])
    (True, False, False)
    """
    gaps = [one - other for one, other in zip(above, below, strict=True)]
    return min(gaps) > 0 and fmean(gaps) >= MARGIN


@cache
def literature() -> list[dict[str, Any]]:
    """The data file."""
    content = (files("fcl_bench.leaderboard") / "literature.yaml").read_text(encoding="utf-8")
    sources: Any = OmegaConf.to_container(OmegaConf.create(content))
    return sources


def introduction() -> str:
    """Where the published figures are from, and what counts as an order."""
    named = [f"{source['name']}: {source['source']}." for source in literature()]
    named.append(f"AFCL paper: {published()['source']}.")
    rule = (
        f"A source has one method above another if it is so in all of its settings, by {MARGIN:g} point or more on "
        "average. Here it is so if the 95 % interval of the difference on equal seeds is on one side of zero."
    )
    return "\n".join([rule, "", *(f"* {sentence}" for sentence in named)])


def _sources_for(board: Board) -> Iterator[Source]:
    """What was published for the data set, stream and number of tasks of a table of networks trained end to end."""
    ours = board.conditions
    if ours["track"] != "end_to_end":
        return
    for entry in literature():
        if (entry["dataset"], entry["stream"]) != (ours["dataset"], ours["stream"]):
            continue
        for table in entry["tables"]:
            if table["tasks"] in (None, ours["tasks"]):
                yield Source(entry["name"], entry["source"], entry["setting"], table["values"])
    yield from _afcl_paper(board)


def _afcl_paper(board: Board) -> Iterator[Source]:
    """Its Table 1, of which each alpha is a setting."""
    ours = board.conditions
    paper = published()
    if ours["stream"] != paper["conditions"]["stream"]:
        return
    tables = [entry for entry in paper[HEADLINE] if all(entry[key] == ours[key] for key in ("dataset", "tasks"))]
    if tables:
        values = {name: [table["values"][name] for table in tables] for name in tables[0]["values"]}
        alphas = " and ".join(f"{table['alpha']:g}" for table in tables)
        setting = f"ResNet-18, 5 clients; Dirichlet {alphas}; it does not say how its networks began"
        yield Source("AFCL paper", paper["source"], setting, values)


def _section(board: Board, sources: Sequence[Source]) -> Section:
    pairs = [pair for source in sources for pair in _pairs(board, source)]
    lines = [TITLES, *map(_line, pairs)]
    return Section(board.heading, (lines,) if pairs else (), tuple(_words(board, sources, pairs)))


def _pairs(board: Board, source: Source) -> Iterator[Pair]:
    """All published orders of methods that were run."""
    for one, other in permutations(source.values, 2):
        if in_order(source.values[one], source.values[other]):
            for above in _rows(board, one):
                for below in _rows(board, other):
                    yield Pair(source, above, below)


def _rows(board: Board, method: str) -> list[Row]:
    return [row for row in board.rows if row.method == method and row.role == "competitor"]


def _line(pair: Pair) -> list[str]:
    theirs = pair.source.values
    gaps = [one - other for one, other in zip(theirs[pair.above.method], theirs[pair.below.method], strict=True)]
    ours = pair.differences
    low_high = "{:+.2f} to {:+.2f}".format(*interval(ours)) if len(ours) > 1 else ""
    return [
        f"{pair.above.name} above {pair.below.name}",
        pair.source.name,
        f"{fmean(gaps):+.2f}",
        f"{fmean(ours):+.2f}" if ours else "n/a",
        low_high,
        verdict(ours),
    ]


def _differences(one: Row, other: Row) -> list[float]:
    """In the headline metric, for each draw that both have seen."""
    theirs = {run.draw: run.values[HEADLINE] for run in other.runs}
    found = []
    for run in one.runs:
        here, there = run.values[HEADLINE], theirs.get(run.draw)
        if here is not None and there is not None:
            found.append(here - there)
    return found


def _words(board: Board, sources: Sequence[Source], pairs: Sequence[Pair]) -> Iterator[str]:
    yield f"Here: {board.stream}."
    for source in sources:
        found = [verdict(pair.differences) for pair in pairs if pair.source is source]
        yield f"{source.name} ({source.setting}): {_counted(found, 'published orders')}."
    for oracle in (row for row in board.rows if row.role == "oracle"):
        rivals = [row for row in board.rows if row.role == "competitor"]
        found = [verdict(_differences(oracle, row)) for row in rivals]
        yield f"{oracle.name}, which trains on all data so far, above each method: {_counted(found, 'orders')}."
    known = {name for source in sources for name in source.values}
    unknown = sorted({row.method for row in board.rows if row.role == "competitor"} - known)
    if unknown:
        yield f"In none of these sources: {', '.join(unknown)}."


def _counted(found: Iterable[Verdict], what: str) -> str:
    """How many orders were found to be the same, opposite or undecided.

    >>> _counted(["the same", "undecided", "the same"], "orders")
    'of 3 orders, the same 2, opposite 0, undecided 1'
    """
    verdicts = list(found)
    numbers = ", ".join(f"{name} {verdicts.count(name)}" for name in VERDICTS)
    return f"of {len(verdicts)} {what}, {numbers}"
