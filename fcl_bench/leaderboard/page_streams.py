"""Who holds which class when, for the pictures of the page: as small as it gets."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from fcl_bench.leaderboard.boards import Board
from fcl_bench.leaderboard.manifests import Manifest, find_manifest
from fcl_bench.leaderboard.runs import Run

SHOWN_CLIENTS = 50  # of larger federations the first
MOST_SHARES = 300_000  # of a task, client and class, in all pictures: about 1 MB of the page
MISSING = "stream.json is not next to the record"
TOO_LARGE = "the page would become too large"
Picture = dict[str, Any]


def stream_pictures(boards: Sequence[Board]) -> dict[str, Picture | str]:
    """By hash of the stream; a text is the reason why there is no picture.

    Every board's first stream comes before any second one, should there not be room for all.
    """
    pictures: dict[str, Picture | str] = {}
    room = MOST_SHARES
    for digest, runs in _runs_by_stream(boards).items():
        manifest = find_manifest(runs) if room > 0 else None
        if manifest is None:
            pictures[digest] = MISSING if room > 0 else TOO_LARGE
            continue
        picture = _packed(manifest)
        pictures[digest] = picture
        room -= len(picture["counts"])
    return pictures


def _runs_by_stream(boards: Sequence[Board]) -> dict[str, list[Run]]:
    """By hash: first the first stream of every board, then the second of every board, and so on."""
    runs_of: dict[str, list[Run]] = {}
    streams_of_boards = []
    for board in boards:
        runs = [run for row in board.rows for run in row.runs]
        for run in runs:
            runs_of.setdefault(_digest(run), []).append(run)
        by_seed = sorted(runs, key=lambda run: run.result["seed"])
        streams_of_boards.append(dict.fromkeys(map(_digest, by_seed)))
    ordered = {}
    for turn in zip_longest(*streams_of_boards):
        for digest in turn:
            if digest is not None:
                ordered[digest] = runs_of[digest]
    return ordered


def _digest(run: Run) -> str:
    return run.result["stream"]["hash"]


def _packed(stream: Manifest) -> Picture:
    """The shares of the first clients, in the order of (task, client, class), each by its distance from the last.

    >>> _packed(Manifest(tasks=2, clients=2, counts=np.array([[0, 0, 0, 9], [0, 1, 2, 5], [1, 0, 1, 7]])))
    {'tasks': 2, 'clients': 2, 'shown': 2, 'classes': 3, 'steps': [0, 5, 2], 'counts': [9, 5, 7]}
    """
    shown = min(stream.clients, SHOWN_CLIENTS)
    classes = int(stream.counts[:, 2].max(initial=-1)) + 1
    counts = stream.counts[stream.counts[:, 1] < shown]  # (shares, 4): task, client, class, samples
    shape = (stream.tasks, shown, max(classes, 1))
    cells = np.ravel_multi_index(tuple(counts[:, :3].T), shape)  # (shares,): one number for task, client and class
    order = np.argsort(cells)
    return {
        "tasks": stream.tasks,
        "clients": stream.clients,
        "shown": shown,
        "classes": classes,
        "steps": np.diff(cells[order], prepend=0).tolist(),
        "counts": counts[order, 3].tolist(),
    }
