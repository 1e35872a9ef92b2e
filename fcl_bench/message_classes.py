"""Which dataclasses the messages of a method are made of: when bytes are read, only these are constructed.

Annotations say it: what ``init`` and ``learn`` give, what functions for clients take and give, and the fields of all
these classes. A method whose clients keep something else names its classes in the attribute ``message_classes``.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from fcl_bench.client import Client
from fcl_bench.decoding import Classes
from fcl_bench.message import name_of


def declared_classes(kind: type) -> Classes:
    """Those that a method's class declares, or another class with functions for clients."""
    hints: list[Any] = list(getattr(kind, "message_classes", ()))
    for name, function in inspect.getmembers(kind, inspect.isfunction):
        hints += _of_messages(name, function)
    return named(*hints)


def named(*hints: Any) -> Classes:
    """All dataclasses in some annotations and, in turn, in those of their fields."""
    found: dict[str, type] = {}
    waiting = list(hints)
    while waiting:
        hint = waiting.pop()
        waiting += get_args(hint)
        kind = get_origin(hint) or hint
        if isinstance(kind, type) and is_dataclass(kind) and name_of(kind) not in found:
            found[name_of(kind)] = kind
            waiting += _hints(kind).values()
    return found


def _of_messages(name: str, function: Callable[..., Any]) -> Iterator[Any]:
    """The annotations in a function that are of messages."""
    hints = _hints(function)
    if name in ("init", "learn"):
        yield hints.get("return")
    elif Client in hints.values():
        yield from _without_client(hints.values())


def _without_client(hints: Iterable[Any]) -> Iterator[Any]:
    return (hint for hint in hints if hint is not Client)


def _hints(annotated: Any) -> dict[str, Any]:
    """Nothing if a name in them exists for type checkers only; what is missing is named when it is met."""
    try:
        return get_type_hints(annotated)
    except NameError:
        return {}
