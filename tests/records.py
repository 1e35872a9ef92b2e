"""Hand-made records for the tests of the leaderboard."""

import json
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from fcl_bench.leaderboard.boards import Board, boards
from fcl_bench.leaderboard.columns import COLUMNS
from fcl_bench.leaderboard.runs import run_of

STREAM = {"name": "si_blurry", "tasks": 3, "partition": "dirichlet", "clients": 3, "alpha": 0.1}
FACTS = {"exact": False, "exemplar_free": False, "needs_frozen_backbone": False, "oracle": False}


def record(method: str = "afcl", seed: int = 1, accuracy: float = 50.0, **changes: Any) -> dict[str, Any]:
    """A ``result.json`` with some changes by dotted names, dots written as two underscores."""
    metrics = dict.fromkeys(COLUMNS, 10.0) | {
        **{"average_accuracy": accuracy, "anytime_accuracy": 40.0, "retention": None, "forgetting": 100 - accuracy},
        **{"uplink_bytes": 2_000_000, "downlink_bytes": 0, "stored_bytes": 500_000, "runtime_seconds": 1.5},
    }
    config = {
        **{"seed": seed, "limit_train": None, "limit_test": None, "dataset": {"name": "digits", "data_dir": "data"}},
        **{"backbone": {"name": "none", "seed": seed}, "federation": {"dropout": 0.0}},
        "method": {"_target_": f"fcl_bench.methods.{method}.M", "lr": 0.01, "optimizer": {"momentum": 0.9}},
    }
    whole = {
        **{"schema": 1, "status": "complete", "run_id": f"seed{seed}-{method}", "seed": seed, "method": method},
        **{"dataset": "digits", "backbone": "none", "protocol": None, "track": "frozen", "facts": FACTS},
        "stream": {**STREAM, "seed": seed, "hash": f"hash {seed}"},
        "metrics": metrics,
        "curves": {name: [value and value / 4, value and value / 2, value] for name, value in metrics.items()},
        "matrix": [[90.0, 0.0, 0.0], [60.0, 80.0, 0.0], [30.0, accuracy, 70.0]],
        "environment": {"fcl-bench": "0.1.0", "torch": "2.9", "git_commit": "abc", "platform": "any"},
        **{"command": f"python -m fcl_bench method={method} seed={seed}", "inputs": "0123", "config": config},
    }
    made = OmegaConf.create(whole)
    for place, value in changes.items():
        OmegaConf.update(made, place.replace("__", "."), value, merge=False)
    return OmegaConf.to_container(made)  # type: ignore[return-value]


def made(*records: dict[str, Any], sort: str = "average_accuracy") -> tuple[Board, ...]:
    """The leaderboard of some records."""
    return boards([run_of(one, Path("result.json")) for one in records], sort)


def write(folder: Path, one: dict[str, Any]) -> Path:
    """The record as a file."""
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(one))
    return folder / "result.json"
