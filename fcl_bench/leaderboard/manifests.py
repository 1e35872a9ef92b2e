"""Who holds which class when: read from the ``stream.json`` next to a record, without the data."""

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


def find_manifest(runs: Iterable[Run]) -> Manifest | None:
    """The first readable manifest of some runs, all of which have seen the same stream."""
    for run in runs:
        manifest = _read(run.path.with_name("stream.json"), run.result["stream"]["hash"])
        if manifest is not None:
            return manifest
    return None


def _read(path: Path, digest: str) -> Manifest | None:
    """None if there is no readable manifest, or the manifest of another stream."""
    try:
        content = json.loads(path.read_text())
        if content["hash"] != digest:
            return None
        tasks, clients = np.shape(content["sizes"])
        counts = np.array(content["counts"], dtype=np.int64).reshape(-1, 4)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return Manifest(tasks, clients, counts)
