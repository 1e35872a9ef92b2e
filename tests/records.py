"""Hand-made records for the tests of the leaderboard."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from fcl_bench.config.run_id import settings_hash
from fcl_bench.leaderboard.boards import Board, boards
from fcl_bench.leaderboard.columns import COLUMNS
from fcl_bench.leaderboard.runs import run_of
from fcl_bench.run.content import check_form
from fcl_bench.run.digests import sealed
from fcl_bench.run.trust import Trust

METRICS = dict.fromkeys(COLUMNS, 10.0) | {
    "anytime_accuracy": 40.0,
    "retention": None,
    "uplink_bytes": 2_000_000,
    "downlink_bytes": 0,
    "stored_bytes": 500_000,
    "runtime_seconds": 1.5,
}


def record(method: str = "afcl", seed: int = 1, accuracy: float = 50.0, **changes: Any) -> dict[str, Any]:
    """A ``result.json`` with some changes by dotted names, dots written as two underscores."""
    metrics = METRICS | {"average_accuracy": accuracy, "forgetting": 100 - accuracy}
    whole = {
        "schema": 1,
        "status": "complete",
        "run_id": f"seed{seed}-{method}",
        "method": method,
        "dataset": "digits",
        "backbone": "none",
        "seed": seed,
        "protocol": None,
        "track": "frozen",
        "facts": {"exact": False, "exemplar_free": False, "needs_frozen_backbone": False, "oracle": False},
        "stream": {
            "name": "si_blurry",
            "tasks": 3,
            "partition": "dirichlet",
            "clients": 3,
            "alpha": 0.1,
            "seed": seed,
            "hash": f"hash {seed}",
        },
        "metrics": metrics,
        "curves": {name: curve(value) for name, value in metrics.items()},
        "matrix": [[90.0, 0.0, 0.0], [60.0, 80.0, 0.0], [30.0, accuracy, 70.0]],
        "other_classifiers": {},
        "environment": {"fcl-bench": "0.1.0", "torch": "2.9", "git_commit": "abc", "platform": "any"},
        "command": f"python -m fcl_bench method={method} seed={seed}",
        "inputs": "0123",
        "config": {
            "seed": seed,
            "limit_train": None,
            "limit_test": None,
            "dataset": {"name": "digits", "data_dir": "data"},
            "backbone": {"name": "none", "seed": seed},
            "federation": {"dropout": 0.0},
            "method": {
                "_target_": f"fcl_bench.methods.{method}.M",
                "name": method,
                "lr": 0.01,
                "optimizer": {"momentum": 0.9},
            },
        },
    }
    made = OmegaConf.create(whole)
    for place, value in changes.items():
        OmegaConf.update(made, place.replace("__", "."), value, merge=False)
    return OmegaConf.to_container(made)  # type: ignore[return-value]


def curve(value: float | None) -> list[float | None]:
    """A metric after each of three tasks."""
    return [None] * 3 if value is None else [value / 4, value / 2, value]


def classifier(accuracy: float) -> dict[str, Any]:
    """The scores of another classifier: no costs."""
    return {
        "metrics": {"average_accuracy": accuracy, "retention": 0.5},
        "curves": {"average_accuracy": curve(accuracy), "retention": curve(0.5)},
        "matrix": [[1.0, 0.0, 0.0], [1.0, 2.0, 0.0], [1.0, 2.0, accuracy]],
    }


def views(**retentions: float) -> dict[str, Any]:
    """The scores of further views of the tests, by their names; their other figures follow from the retention."""
    found = {}
    for view, retention in retentions.items():
        metrics = {
            "average_accuracy": 40 * retention,
            "retention": retention,
            "step_stability": 30 * retention,
            "step_plasticity": 20 * retention,
        }
        found[view] = {
            "metrics": metrics,
            "curves": {name: curve(value) for name, value in metrics.items()},
            "matrix": [[retention] * 3] * 3,
        }
    return found


def made(*records: dict[str, Any], sort: str = "average_accuracy") -> tuple[Board, ...]:
    """The leaderboard of some records."""
    return boards([run_of(one, Path("result.json")) for one in records], sort)


def write(folder: Path, one: dict[str, Any]) -> Path:
    """The record as a file."""
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(one))
    return folder / "result.json"


def sealed_again(result: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A real record with other settings, by dotted names, dots written as two underscores, and digests that fit."""
    made = OmegaConf.create(result)
    for place, value in changes.items():
        OmegaConf.update(made, place.replace("__", "."), value, merge=False)
    changed: Any = OmegaConf.to_container(made)
    changed["run_id"] = f"seed{changed['seed']}-{settings_hash(changed['config'])}"
    others = {name: digest for name, digest in changed["digests"].items() if name != "result.json"}
    return sealed(changed, others)


@contextmanager
def believed() -> Iterator[None]:
    """Records need to have the right form only: hand-made numbers do not follow from each other."""

    def verified(result: dict[str, Any], path: Path) -> Trust:
        check_form(result, path)
        return "digest"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fcl_bench.leaderboard.runs.verified", verified)
        yield
