"""The metrics of a record as columns: what a reader calls them, in which unit, and which end is better."""

from collections.abc import Sequence
from dataclasses import dataclass

from fcl_bench.errors import ConfigError, choices


@dataclass(frozen=True)
class Column:
    """How a metric is shown."""

    title: str
    lower_is_better: bool = False
    score: bool = True  # of learning, with its deviation over seeds; otherwise a cost
    scale: float = 1.0  # from the record's unit to that of the title
    shown: bool = True  # in tables, unless others are asked for


def _cost(title: str, scale: float = 1.0, shown: bool = True) -> Column:
    return Column(title, lower_is_better=True, score=False, scale=scale, shown=shown)


COLUMNS = {
    "average_accuracy": Column("average (%)"),
    "anytime_accuracy": Column("anytime (%)"),
    "retention": Column("retention"),
    "stability": Column("stability (%)"),
    "plasticity": Column("plasticity (%)"),
    "forgetting": Column("forgetting", lower_is_better=True),
    "backward_transfer": Column("backward transfer", shown=False),
    "seen_accuracy": Column("seen (%)", shown=False),
    "whole_accuracy": Column("whole (%)", shown=False),
    "retention_as_printed": Column("retention as printed", lower_is_better=True, shown=False),
    "uplink_bytes": _cost("up (MB)", 1e-6),
    "downlink_bytes": _cost("down (MB)", 1e-6),
    "exchanges": _cost("exchanges", shown=False),
    "client_seconds": _cost("client (s)", shown=False),
    "server_seconds": _cost("server (s)", shown=False),
    "runtime_seconds": _cost("seconds"),
    "peak_memory_mb": _cost("memory (MB)"),
    "stored_bytes": _cost("stored (MB)", 1e-6),
}
SHOWN = tuple(name for name, column in COLUMNS.items() if column.shown)


def known(names: Sequence[str]) -> tuple[str, ...]:
    """The names of columns, once it is sure that they are some."""
    for name in names:
        if name not in COLUMNS:
            raise ConfigError(f"There is no metric '{name}'; choose from: {choices(name, COLUMNS)}.")
    return tuple(names)
