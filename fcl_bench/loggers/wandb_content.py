"""The parts of a record that a W&B run repeats: rows, metrics and tables."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fcl_bench.loggers.exchanges import read_exchanges
from fcl_bench.run.result import Result

MOST_SAMPLES = 10_000  # in a table of predictions: W&B draws no more
Table = tuple[list[str | int], list[list[Any]]]  # names of columns, rows


def rows(folder: Path, result: Result) -> Iterator[dict[str, Any]]:
    """The history: of every finished task its exchanges, then its metrics; both axes count from 1."""
    exchanges = read_exchanges(folder)
    curves = of_all_classifiers(result, "curves")
    for task in range(len(result["curves"]["average_accuracy"])):
        for number, exchange in enumerate(exchanges, start=1):
            if exchange["task"] == task:
                yield {"exchange": number, **_prefixed("exchange", exchange)}
        values = {name: curve[task] for name, curve in curves.items()}
        yield {"task": task + 1, **_prefixed("task", values)}


def of_all_classifiers(result: Result, kind: Literal["curves", "metrics"]) -> dict[str, Any]:
    """Curves or metrics by name; those of other classifiers as ``classifier/name``."""
    values = dict(result[kind])
    for classifier, scores in result["other_classifiers"].items():
        values |= _prefixed(classifier, scores[kind])
    return values


def tables(folder: Path, result: Result) -> dict[str, Table]:
    """The accuracy matrix and the predictions of the first samples, for each classifier."""
    with np.load(folder / "predictions.npz") as saved:
        targets = saved["targets"]
        made = _tables(result["matrix"], saved["predictions"], targets)
        for name, scores in result["other_classifiers"].items():
            own = _tables(scores["matrix"], saved[f"predictions_{name}"], targets)
            made |= _prefixed(name, own)
    return made


def _tables(matrix: list[list[float]], predictions: np.ndarray, targets: np.ndarray) -> dict[str, Table]:
    """Of one classifier; the predictions are (tasks, samples), their table has a line per sample."""
    tasks = range(1, len(matrix) + 1)
    accuracies = [[task, *row] for task, row in zip(tasks, matrix, strict=True)]
    samples = np.arange(min(len(targets), MOST_SAMPLES))
    lines = np.stack([samples, targets[samples], *predictions[:, samples]], axis=1)
    return {
        "matrix": (["after task", *_numbered("task", tasks)], accuracies),
        "predictions": (["sample", "target", *_numbered("after task", tasks)], lines.tolist()),
    }


def _numbered(word: str, numbers: Iterable[int]) -> list[str]:
    return [f"{word} {number}" for number in numbers]


def _prefixed(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}/{name}": value for name, value in values.items()}
