"""What of a record a W&B run repeats: rows, metrics and tables."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fcl_bench.run.result import Result

MOST_SAMPLES = 10_000  # in a table of predictions: W&B draws no more
Table = tuple[list[str | int], list[list[Any]]]  # names of columns, rows


def rows(folder: Path, result: Result) -> Iterator[dict[str, Any]]:
    """The history: of every finished task its exchanges, then its metrics; both axes count from 1."""
    lines = map(json.loads, (folder / "exchanges.jsonl").read_text().splitlines())
    exchanges = list(enumerate(lines, start=1))
    curves = of_all_classifiers(result, "curves")
    for task in range(len(result["curves"]["average_accuracy"])):
        for number, exchange in exchanges:
            if exchange["task"] == task:
                yield {"exchange": number, **{f"exchange/{name}": value for name, value in exchange.items()}}
        yield {"task": task + 1, **{f"task/{name}": curve[task] for name, curve in curves.items()}}


def tables(folder: Path, result: Result) -> dict[str, Table]:
    """The accuracy matrix and the predictions of the first samples, for each classifier."""
    found: dict[str, Table] = {}
    tasks = range(1, len(result["matrix"]) + 1)
    with np.load(folder / "predictions.npz") as saved:
        for prefix, scores in _classifiers(result).items():
            predictions = saved[f"predictions_{prefix[:-1]}" if prefix else "predictions"]
            samples = np.arange(min(len(saved["targets"]), MOST_SAMPLES))
            columns = np.stack([samples, saved["targets"][samples], *predictions[:, samples]], axis=1)
            matrix = [[task, *row] for task, row in zip(tasks, scores["matrix"], strict=True)]
            found[f"{prefix}matrix"] = (["after task", *(f"task {task}" for task in tasks)], matrix)
            found[f"{prefix}predictions"] = (
                ["sample", "target", *(f"after task {task}" for task in tasks)],
                columns.tolist(),
            )
    return found


def _classifiers(result: Result) -> dict[str, Any]:
    """The scores of a method's classifiers, by the prefix of their names: none for the classifier."""
    return {"": result, **{f"{name}/": scores for name, scores in result["other_classifiers"].items()}}


def of_all_classifiers(result: Result, kind: Literal["curves", "metrics"]) -> dict[str, Any]:
    """Curves or metrics by name; those of other classifiers as ``classifier/name``."""
    return {
        f"{prefix}{name}": value
        for prefix, scores in _classifiers(result).items()
        for name, value in scores[kind].items()
    }
