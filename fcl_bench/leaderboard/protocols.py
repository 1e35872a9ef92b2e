"""In what two protocols differ: a sentence from their YAML files, as runs of both stand in tables of their own."""

from collections.abc import Iterator, Sequence
from typing import Any

from fcl_bench.config.protocol import named
from fcl_bench.leaderboard.boards import Board, by_protocol
from fcl_bench.leaderboard.titles import text

NOT_NAMED = "not named"


def protocol_sentences(boards: Sequence[Board]) -> list[str]:
    """What a reader of tables of several protocols must know; nothing for those of one."""
    protocols = sorted(by_protocol(boards), key=lambda name: (name is not None, name or ""))
    if len(protocols) < 2:
        return []
    listed = ", ".join(name or "none" for name in protocols)
    sentences = [f"Runs of several protocols ({listed}) have tables of their own and are never mixed."]
    first, *others = [name for name in protocols if name is not None]
    return [*sentences, *(difference(first, other) for other in others)]


def difference(first: str, second: str) -> str:
    """Everything that the files of two protocols do not say alike."""
    ours, theirs = named(first), named(second)
    for name, settings in ((first, ours), (second, theirs)):
        if not settings:
            return f"What the protocol {name} fixes is not known here, as it has no file in configs/protocol."
    clauses = list(_clauses(ours, theirs))
    if not clauses:
        return f"The protocols {first} and {second} name the same settings."
    return f"{second} differs from {first} in {', '.join(clauses)}; the rest of what they name is equal."


def _clauses(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[str]:
    """The second one's setting, and that of the first in brackets."""
    for key in dict.fromkeys([*theirs, *ours]):
        before, after = (text(side[key]) if key in side else NOT_NAMED for side in (ours, theirs))
        if before != after:
            yield f"{key} {after} (there {before})"
