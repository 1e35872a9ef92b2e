"""Two run folders beside each other: what is not equal to the bit, apart from the time that runs took."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

TIMES = ("client_seconds", "server_seconds", "wall_seconds", "runtime_seconds", "peak_memory_mb")
OTHERWISE = ("seconds", "environment", "command", "config", "digests")  # parts of a result that depend on time or place


def differences(one: Path, other: Path) -> list[str]:
    """What differs, by the names of files; in checkpoints, whether states or memories do."""
    parts = {
        "result.json": _result,
        "exchanges.jsonl": _exchanges,
        "predictions.npz": _arrays,
        "classes.npz": _arrays,
        "stream.npz": _arrays,
        "checkpoint/checkpoint.safetensors": _tensors,
    }
    return [name for name, content in parts.items() if content(one / name) != content(other / name)]


def _result(path: Path) -> Any:
    result = json.loads(path.read_text())
    for name in OTHERWISE:
        result.pop(name, None)
    for values in (result["metrics"], result["curves"]):
        for name in TIMES:
            values.pop(name, None)
    return result


def _exchanges(path: Path) -> Any:
    lines = map(json.loads, path.read_text().splitlines())
    return [{**line, "client_seconds": 0} for line in lines]


def _arrays(path: Path) -> Any:
    with np.load(path) as arrays:
        return {name: (arrays[name].dtype.str, arrays[name].tobytes()) for name in sorted(arrays)}


def _tensors(path: Path) -> Any:
    """All tensors; times are in the structure, which is not compared."""
    with safe_open(path, "pt") as tensors:
        return [tensors.get_tensor(name).numpy(force=True).tobytes() for name in sorted(tensors.keys())]
