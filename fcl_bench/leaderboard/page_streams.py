"""Who holds which class when, for the pictures of the page: read from the ``stream.json`` beside a record."""

import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from fcl_bench.leaderboard.boards import Board
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
    for digest, places in _in_turn(boards):
        if room <= 0:
            found[digest] = "the page would become too large"
            continue
        drawn = next(filter(None, (_picture(place, digest) for place in places)), None)
        found[digest] = drawn or "stream.json is not beside the record"
        room -= len(drawn["counts"]) if drawn else 0
    return found


def _in_turn(boards: Sequence[Board]) -> Iterator[tuple[str, list[Path]]]:
    """Every stream with the places where it may lie."""
    places: dict[str, list[Path]] = {}
    by_board: list[dict[str, None]] = []
    for board in boards:
        runs = [run for row in board.rows for run in row.runs]
        by_board.append(dict.fromkeys(map(_digest, sorted(runs, key=lambda run: run.result["seed"]))))
        for run in runs:
            places.setdefault(_digest(run), []).append(run.path.with_name("stream.json"))
    for digest in dict.fromkeys(digest for turn in zip_longest(*by_board) for digest in turn if digest):
        yield digest, places[digest]


def _digest(run: Run) -> str:
    return run.result["stream"]["hash"]


def _picture(path: Path, digest: str) -> Picture | None:
    """The stream of a manifest; None if there is no readable one, or that of another stream."""
    try:
        manifest = json.loads(path.read_text())
        if manifest["hash"] != digest:
            return None
        tasks, clients = np.shape(manifest["sizes"])
        counts = np.array(manifest["counts"], dtype=np.int64).reshape(-1, 4)
        return _packed(counts, tasks, clients)
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _packed(counts: np.ndarray, tasks: int, clients: int) -> Picture:
    """The shares of the first clients, in the order of (task, client, class), each by its distance from the last.

    >>> _packed(np.array([[0, 0, 0, 9], [0, 1, 2, 5], [1, 0, 1, 7]]), tasks=2, clients=2)
    {'tasks': 2, 'clients': 2, 'shown': 2, 'classes': 3, 'steps': [0, 5, 2], 'counts': [9, 5, 7]}
    """
    shown, classes = min(clients, SHOWN_CLIENTS), int(counts[:, 2].max(initial=-1)) + 1
    kept = counts[counts[:, 1] < shown]
    cells = np.ravel_multi_index(tuple(kept[:, :3].T), (tasks, shown, max(classes, 1)))
    order = np.argsort(cells)
    steps = np.diff(cells[order], prepend=0).tolist()
    numbers = {"tasks": tasks, "clients": clients, "shown": shown, "classes": classes}
    return {**numbers, "steps": steps, "counts": kept[order, 3].tolist()}
