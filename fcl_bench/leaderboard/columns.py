"""The metrics of a record as columns: what a reader calls them, in which unit, and which end is better.

A record may have any other metric. It is shown on request under its own name.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fcl_bench.errors import ConfigError, choices
from fcl_bench.run.content import HEADLINE as HEADLINE
from fcl_bench.run.result import VIEWS


@dataclass(frozen=True)
class Column:
    """How a metric is shown."""

    title: str
    lower_is_better: bool = False
    score: bool = True  # of learning, with its deviation over seeds; otherwise a cost
    scale: float = 1.0  # from the record's unit to that of the title
    shown: bool = True  # in tables, unless others are asked for
    decimals: int = 2  # as printed


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
    "samples_revealed": replace(_cost("samples revealed"), decimals=0),
    "accuracy_per_megabyte": Column("% per MB", score=False, decimals=3),  # from here on: of other metrics
    "accuracy_per_second": Column("% per second", score=False, decimals=3),
    "revealing_uploads": replace(_cost("revealing uploads", shown=False), decimals=0),
}
LATER = {  # not in records of earlier versions: columns of tables whose records have them
    "step_stability": Column("step stability (%)", shown=False),
    "step_plasticity": Column("step plasticity (%)", shown=False),
    "macro_f1": Column("macro F1 (%)", shown=False),
    "rejected_replies": replace(_cost("rejected replies", shown=False), decimals=0),
    "calibration_error": Column("calibration error (%)", lower_is_better=True, shown=False),
    "lost_answers": replace(_cost("lost answers", shown=False), decimals=0),
    "late_answers": replace(_cost("late answers", shown=False), decimals=0),
    "double_answers": replace(_cost("double answers", shown=False), decimals=0),
}
KNOWN = COLUMNS | LATER
IN_VIEWS = (  # what a record says about the tests of tasks, in each view
    *("average_accuracy", "retention", "stability", "plasticity", "forgetting", "backward_transfer"),
    *("step_stability", "step_plasticity", "retention_as_printed"),
)
SHOWN = tuple(name for name, column in COLUMNS.items() if column.shown)
CLOCK_AND_MEMORY = ("_seconds", "_mb")  # endings of what differs whenever a run is repeated
COSTS = (*CLOCK_AND_MEMORY, "_bytes")


def column(metric: str) -> Column:
    """How a metric is shown; of a metric that is not known here, the name tells whether it is a cost.

    >>> column("wall_seconds").lower_is_better, column("personal_accuracy").lower_is_better
    (True, False)
    >>> column("forgetting (present)")
    Column(title='forgetting (present)', lower_is_better=True, score=True, scale=1.0, shown=False, decimals=2)
    """
    if metric in KNOWN:
        return KNOWN[metric]
    base, _, view = metric.partition(" (")
    if view:
        of_view = column(base)
        return replace(of_view, title=f"{of_view.title} ({view}", shown=False)
    if metric.endswith(COSTS):
        return _cost(metric, shown=False)
    return Column(metric, shown=False)


def derived(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Metrics that follow from others of a record: what a byte, up or down, and a second have brought.

    >>> derived({"average_accuracy": 60.0, "uplink_bytes": 2e6, "downlink_bytes": 1e6, "runtime_seconds": 0.0})
    {'accuracy_per_megabyte': 20.0, 'accuracy_per_second': None}
    """
    up, down = (values.get(name) for name in ("uplink_bytes", "downlink_bytes"))
    megabytes = None if up is None or down is None else (up + down) / 1e6
    return {
        "accuracy_per_megabyte": _ratio(values.get(HEADLINE), megabytes),
        "accuracy_per_second": _ratio(values.get(HEADLINE), values.get("runtime_seconds")),
    }


def in_view(metric: str, view: str) -> str:
    """The name of a metric in a view; in that of the headline it is the metric's own.

    >>> in_view("retention", "dealt"), in_view("retention", "present")
    ('retention', 'retention (present)')
    """
    return metric if view == VIEWS[0] else f"{metric} ({view})"


def _ratio(gain: float | None, price: float | None) -> float | None:
    """Undefined where either is, and where nothing was paid."""
    return gain / price if gain is not None and price else None


def view_metrics() -> list[str]:
    """The names of all metrics in all views but the headline's."""
    return [in_view(metric, view) for view in VIEWS[1:] for metric in IN_VIEWS]


def repeats_exactly(metric: str) -> bool:
    """Whether two runs of the same settings must agree in a metric."""
    return not metric.endswith(CLOCK_AND_MEMORY)


def metrics_in(several: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """The metrics of several records: those known here first, then the others.

    >>> metrics_in([["epsilon", "retention"], ["wall_seconds", "epsilon"]])[-2:]
    ('epsilon', 'wall_seconds')
    """
    names = dict.fromkeys(COLUMNS)
    for metrics in several:
        names |= dict.fromkeys(metrics)
    return tuple(names)


def check_metric_names(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise a :class:`ConfigError` for the first name that is none of a known metric."""
    for name in names:
        if name not in known:
            raise ConfigError(f"There is no metric '{name}'; choose from: {choices(name, known)}.")
