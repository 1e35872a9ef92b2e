"""JSON files that strangers may have written: strict, of a size that can be read, and never waited for."""

import json
from pathlib import Path
from typing import Any, NoReturn

from fcl_bench.bounded import read_bytes

MOST_BYTES = 32 * 2**20  # a record of a thousand tasks has less
MOST_LEVELS = 60
MOST_DIGITS = 25  # of a whole number


def read_json(path: Path, most: int = MOST_BYTES) -> Any:
    """The content of a file of at most ``most`` bytes. A ``ValueError`` or an ``OSError`` says why there is none.

    Refused is what no JSON writer of ours makes, as readers would not agree on it: a name that comes twice in an
    object, numbers that are not finite, half of a surrogate pair, nesting without end.
    """
    text = read_bytes(path, most).decode()
    try:
        content = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse_number,
            parse_float=_finite,
            parse_int=_whole,
        )
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _check_levels(content)
    if "\\ud" in text.lower():
        json.dumps(content, ensure_ascii=False).encode()  # half of a pair cannot be
    return content


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} comes twice in an object")
    return content


def _finite(digits: str) -> float:
    value = float(digits)
    if value - value != 0:  # infinite
        _refuse_number(digits)
    return value


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"{digits[:MOST_DIGITS]}... is larger than any number that is counted")
    return int(digits)


def _refuse_number(digits: str) -> NoReturn:
    raise ValueError(f"{digits[:20]} is not a finite number")


def _check_levels(content: Any) -> None:
    level = [content]
    for _ in range(MOST_LEVELS):
        level = _children(level)
        if not level:
            break
    else:
        raise ValueError(_TOO_DEEP)


def _children(level: list[Any]) -> list[Any]:
    """What the lists and objects among some values hold."""
    found: list[Any] = []
    for value in level:
        if isinstance(value, list):
            found += value
        elif isinstance(value, dict):
            found += value.values()
    return found


_TOO_DEEP = f"it is nested more than {MOST_LEVELS} levels deep"
