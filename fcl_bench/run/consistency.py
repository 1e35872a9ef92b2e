"""Whether the numbers of a record follow from each other: what can be said without any file beside it."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fcl_bench.config.run_id import settings_hash
from fcl_bench.run.metrics import MATRIX_METRICS, curves
from fcl_bench.run.result import VIEWS, Result

TOLERANCE = 1e-9  # relative: other versions of numpy add in another order
ADD_UP = ("uplink_bytes", "downlink_bytes", "exchanges", "client_seconds", "samples_revealed", "revealing_uploads")
WHOLE = ("uplink_bytes", "downlink_bytes", "exchanges", "samples_revealed", "revealing_uploads", "stored_bytes")
NOT_NEGATIVE = (*ADD_UP, "stored_bytes", "wall_seconds", "peak_memory_mb", "retention", "retention_as_printed")
PERCENT = (
    *("average_accuracy", "stability", "plasticity", "step_stability", "step_plasticity", "seen_accuracy"),
    *("whole_accuracy", "anytime_accuracy", "personal_accuracy", "macro_f1", "calibration_error"),
)
COPIES = {  # what a record says twice: place, and the name of the metric
    ("traffic", "uplink_bytes"): "uplink_bytes",
    ("traffic", "downlink_bytes"): "downlink_bytes",
    ("traffic", "exchanges"): "exchanges",
    ("seconds", "client"): "client_seconds",
    ("seconds", "server"): "server_seconds",
    ("seconds", "total"): "runtime_seconds",
}
RUN_ID = re.compile(r"seed(-?\d+)-([0-9a-f]{8})(-without-\w+)*", re.ASCII)
Curve = Sequence[float | None]


def contradictions_in(result: Result) -> Iterator[str]:
    """What does not follow, as clauses; the ``result`` has the form that :mod:`fcl_bench.run.content` describes."""
    yield from _of_classifier(result)
    for name, scores in result.get("other_classifiers", {}).items():
        for clause in _of_classifier(scores):
            yield f"{clause} (classifier {name})"
    yield from _of_costs(result)
    yield from _of_settings(result)
    yield from _of_run_id(result)


def agree(one: Curve, other: Curve) -> bool:
    """Whether two curves are equal but for rounding; None and NaN are undefined.

    >>> agree([1.0, None], [1.0 + 1e-12, math.nan]), agree([1.0], [1.0001])
    (True, False)
    """
    return len(one) == len(other) and all(map(_close, one, other))


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None or one != one or other != other:
        return (one is None or one != one) and (other is None or other != other)
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _of_classifier(scores: Mapping[str, Any]) -> Iterator[str]:
    yield from _of_scores(scores)
    yield from _of_seen(scores["curves"])
    for view, own in scores.get("views", {}).items():
        if view not in VIEWS[1:]:
            yield f"there is no view {view}"
        for clause in _of_scores(own):
            yield f"{clause} (view {view})"


def _of_scores(scores: Mapping[str, Any]) -> Iterator[str]:
    """Metrics are the ends of curves, and curves follow from the matrix."""
    metrics, found = scores["metrics"], scores["curves"]
    matrix = np.array(scores["matrix"], dtype=float)
    if not ((matrix >= 0) & (matrix <= 100) | np.isnan(matrix)).all():
        yield "an accuracy of the matrix is not between 0 and 100"
    expected = curves(matrix)
    for name, curve in found.items():
        if name not in metrics:
            yield f"there is a curve of {name}, but no metric of that name"
        elif metrics[name] != curve[-1]:
            yield f"the metric {name} is not the end of its curve"
        elif name in expected and not agree(expected[name].tolist(), curve):
            yield f"the curve of {name} does not follow from the matrix"
        elif name in PERCENT and not _between(curve, 0, 100):
            yield f"{name} is not between 0 and 100"
    for metric in MATRIX_METRICS:
        if metric.__name__ in metrics and metric.__name__ not in found:
            yield f"there is a metric {metric.__name__}, but no curve of that name"


def _of_seen(found: Mapping[str, Curve]) -> Iterator[str]:
    """The anytime accuracy is the mean of what came before it."""
    if "seen_accuracy" not in found or "anytime_accuracy" not in found:
        return
    means = []
    known: list[float] = []
    for value in found["seen_accuracy"]:
        known += [] if value is None else [value]
        means.append(math.fsum(known) / len(known) if known else None)
    if not agree(means, found["anytime_accuracy"]):
        yield "the curve of anytime_accuracy does not follow from that of seen_accuracy"


def _of_costs(result: Result) -> Iterator[str]:
    metrics, found = result["metrics"], result["curves"]
    for name in (*ADD_UP, *NOT_NEGATIVE):
        curve = found.get(name, ())
        if not _between(curve, 0, math.inf):
            yield f"{name} is negative"
        if name in ADD_UP and not _never_falls(curve):
            yield f"{name} falls from one task to the next, though it is a sum over tasks"
        if name in WHOLE and not all(value is None or float(value).is_integer() for value in curve):
            yield f"{name} is not a whole number"
    for (place, name), metric in COPIES.items():
        if place in result and result[place].get(name) != (metrics.get(metric) or 0):
            yield f"{place}.{name} is not the metric {metric}"
    parts = [found.get(name) for name in ("client_seconds", "server_seconds", "runtime_seconds")]
    if all(parts) and not agree([_plus(*pair) for pair in zip(*parts[:2], strict=True)], parts[2] or ()):
        yield "runtime_seconds is not the sum of client_seconds and server_seconds"


def _of_settings(result: Result) -> Iterator[str]:
    """What a record says of itself is what its configuration says."""
    config = result["config"]
    stream = result["stream"]
    named = {
        "seed": config["seed"],
        "dataset": config["dataset"].get("name", result["dataset"]),
        "backbone": config["backbone"].get("name", result["backbone"]),
        "method": config["method"].get("name") or result["method"],
        "protocol": config.get("protocol", result["protocol"]),
        "track": "end_to_end" if config["backbone"].get("trainable", result["track"] == "end_to_end") else "frozen",
    }
    for name, value in named.items():
        if result[name] != value:
            yield f"{name} is not that of the configuration"
    if stream["tasks"] != len(result["matrix"]):
        yield f"the stream has {stream['tasks']} tasks, but the matrix {len(result['matrix'])}"
    if "digests" not in result:  # a class of somebody else may keep its settings in another form
        yield from _of_stream(stream, config)


def _of_stream(stream: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    """A replayed manifest has the parameters that it was made with."""
    if config.get("stream", {}).get("manifest"):
        return
    for group, own in (("stream", "name"), ("partition", "partition")):
        settings = {own if name == "name" else name: value for name, value in config.get(group, {}).items()}
        for name, value in settings.items():
            if name in stream and stream[name] != value:
                yield f"stream.{name} is not that of the configuration"


def _of_run_id(result: Result) -> Iterator[str]:
    """Seed, and a hash of the settings; records of the time before methods had names have another one."""
    found = RUN_ID.fullmatch(result["run_id"])
    if found is None:
        yield "run_id is not of the form seed<k>-<8 letters>"
        return
    if int(found[1]) != result["seed"]:
        yield "run_id has another seed"
    if "name" in result["config"]["method"] and found[2] != settings_hash(result["config"]):
        yield "run_id is not that of the configuration"


def _between(curve: Curve, low: float, high: float) -> bool:
    slack = TOLERANCE * 100
    return all(value is None or low - slack <= value <= high + slack for value in curve)


def _never_falls(curve: Curve) -> bool:
    known = [value for value in curve if value is not None]
    return known == sorted(known)


def _plus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
