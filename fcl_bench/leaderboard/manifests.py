"""Who holds which class when: read from the ``stream.json`` next to a record, without the data."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fcl_bench.leaderboard.runs import Run
from fcl_bench.strict_json import read_json

MOST_CELLS = 10**8  # of a task, client and class


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
        content = read_json(path)
        if content["hash"] != digest:
            return None
        sizes = np.array(content["sizes"], dtype=np.int64)
        counts = np.array(content["counts"], dtype=np.int64).reshape(-1, 4)
        return _checked(sizes, counts)
    except (OSError, ValueError, LookupError, TypeError, OverflowError):
        return None


def _checked(sizes: np.ndarray, counts: np.ndarray) -> Manifest:
    """What can be drawn: every share is somewhere, and there are no more classes than shares."""
    tasks, clients = sizes.shape
    limits = (tasks, clients, len(counts))
    if (counts < 0).any() or (counts[:, :3] >= limits).any():
        raise ValueError("a share is nowhere")
    if sizes.size * (counts[:, 2].max(initial=0) + 1) > MOST_CELLS:
        raise ValueError("it is too large to be drawn")
    found = np.zeros_like(sizes)
    np.add.at(found, tuple(counts[:, :2].T), counts[:, 3])
    if not np.array_equal(found, sizes):
        raise ValueError("the shares of a client are not all")
    return Manifest(tasks, clients, counts)
