"""Who holds which class when, for the pictures of the page: as small as it gets."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from fcl_bench.leaderboard.boards import Board
from fcl_bench.leaderboard.manifests import Manifest, manifest
from fcl_bench.leaderboard.runs import Run

SHOWN_CLIENTS = 50  # of larger federations the first
MOST_SHARES = 300_000  # of a task, client and class, in all pictures: about 1 MB of the page
Picture = dict[str, Any]


def pictures(boards: Sequence[Board]) -> dict[str, Picture | str]:
    """By hash of the stream; a text is the reason why there is no picture.

    Every board's first stream comes before any second one, should there not be room for all.
    """
    found: dict[str, Picture | str] = {}
    room = MOST_SHARES
    for digest, runs in _in_turn(boards):
        if room <= 0:
            found[digest] = "the page would become too large"
            continue
        stream = manifest(runs)
        drawn = _packed(stream) if stream else None
        found[digest] = drawn or "stream.json is not beside the record"
        room -= len(drawn["counts"]) if drawn else 0
    return found


def _in_turn(boards: Sequence[Board]) -> Iterator[tuple[str, list[Run]]]:
    """Every stream with the runs that have seen it."""
    seen: dict[str, list[Run]] = {}
    by_board: list[dict[str, None]] = []
    for board in boards:
        runs = [run for row in board.rows for run in row.runs]
        by_board.append(dict.fromkeys(map(_digest, sorted(runs, key=lambda run: run.result["seed"]))))
        for run in runs:
            seen.setdefault(_digest(run), []).append(run)
    for digest in dict.fromkeys(digest for turn in zip_longest(*by_board) for digest in turn if digest):
        yield digest, seen[digest]


def _digest(run: Run) -> str:
    return run.result["stream"]["hash"]


def _packed(stream: Manifest) -> Picture:
    """The shares of the first clients, in the order of (task, client, class), each by its distance from the last.

    >>> _packed(Manifest(tasks=2, clients=2, counts=np.array([[0, 0, 0, 9], [0, 1, 2, 5], [1, 0, 1, 7]])))
    {'tasks': 2, 'clients': 2, 'shown': 2, 'classes': 3, 'steps': [0, 5, 2], 'counts': [9, 5, 7]}
    """
    tasks, clients, counts = stream.tasks, stream.clients, stream.counts
    shown, classes = min(clients, SHOWN_CLIENTS), int(counts[:, 2].max(initial=-1)) + 1
    kept = counts[counts[:, 1] < shown]
    cells = np.ravel_multi_index(tuple(kept[:, :3].T), (tasks, shown, max(classes, 1)))
    order = np.argsort(cells)
    steps = np.diff(cells[order], prepend=0).tolist()
    numbers = {"tasks": tasks, "clients": clients, "shown": shown, "classes": classes}
    return {**numbers, "steps": steps, "counts": kept[order, 3].tolist()}
