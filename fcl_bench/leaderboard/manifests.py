"""Who holds which class when: read from the ``stream.json`` beside a record, without the data."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fcl_bench.leaderboard.runs import Run


@dataclass(frozen=True)
class Manifest:
    """What a picture of a stream needs."""

    tasks: int
    clients: int
    counts: np.ndarray  # (shares, 4): task, client, registered class, samples


def manifest(runs: Iterable[Run]) -> Manifest | None:
    """That of the first run which has it; all of them must have seen the same stream."""
    found = (_read(run.path.with_name("stream.json"), run.result["stream"]["hash"]) for run in runs)
    return next(filter(None, found), None)


def _read(path: Path, digest: str) -> Manifest | None:
    """None if there is no readable manifest, or that of another stream."""
    try:
        content = json.loads(path.read_text())
        if content["hash"] != digest:
            return None
        tasks, clients = np.shape(content["sizes"])
        return Manifest(tasks, clients, np.array(content["counts"], dtype=np.int64).reshape(-1, 4))
    except (OSError, ValueError, LookupError, TypeError):
        return None
