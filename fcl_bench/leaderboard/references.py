"""What a leaderboard can be set beside, by the name in ``--against``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fcl_bench.leaderboard import literature
from fcl_bench.leaderboard.against import Section, against, published
from fcl_bench.leaderboard.boards import Board


@dataclass(frozen=True)
class Reference:
    """How tables are compared with it, and what the file about that begins with."""

    name: str
    title: str
    file: str
    introduction: Callable[[], str]
    compare: Callable[[Sequence[Board]], tuple[list[Section], list[str]]]


def _source() -> str:
    source: str = published()["source"]
    return source


REFERENCES = {
    "paper": Reference("the paper", "Our figures beside the paper's", "paper.md", _source, against),
    "literature": Reference(
        "the literature",
        "Our order beside the literature's",
        "literature.md",
        literature.introduction,
        literature.orders,
    ),
}
