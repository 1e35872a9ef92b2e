"""Records of random numbers for the page: two boards, names that look like HTML, and streams for some of the runs."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from records import record, write

from fcl_bench.leaderboard.boards import Board, Row, boards
from fcl_bench.leaderboard.columns import COLUMNS
from fcl_bench.leaderboard.runs import gather

NASTY = "<script>alert(1)</script><b>&amp;"


def sample(method: str, seed: int, tasks: int = 3, facts: str = "exemplar_free", **settings: Any) -> dict[str, Any]:
    """A whole ``result.json``; ``facts`` are those that hold, with blanks between them."""
    rng = np.random.default_rng([seed, tasks, *method.encode(), *json.dumps(settings).encode()])
    one = record(method, seed)
    curves = {name: rng.uniform(0, 100, tasks).tolist() for name in COLUMNS}
    curves["retention"][0] = None
    one["curves"] = curves
    one["metrics"] = {name: curve[-1] for name, curve in curves.items()}
    one["metrics"]["uplink_bytes"] = int(rng.integers(1, 10**9))
    one["matrix"] = rng.uniform(0, 100, (tasks, tasks)).tolist()
    one["stream"] |= {"tasks": tasks, "clients": 4, "hash": f"hash-{tasks}-{seed}"}
    one["facts"] |= dict.fromkeys(facts.split(), True)
    one["config"]["method"] |= settings
    return one


def manifest(result: dict[str, Any], clients: int = 4, classes: int = 6) -> dict[str, Any]:
    """The parts of ``stream.json`` that the page reads."""
    tasks = result["stream"]["tasks"]
    rng = np.random.default_rng(result["seed"])
    shares = [share for share in np.ndindex(tasks, clients, classes) if rng.uniform() < 0.4]
    counts = [[*map(int, share), int(rng.integers(1, 500))] for share in rng.permutation(shares)]
    sizes = np.zeros((tasks, clients), dtype=int)
    for task, client, _, samples in counts:
        sizes[task, client] += samples
    return {"hash": result["stream"]["hash"], "sizes": sizes.tolist(), "counts": counts}


def write_with_stream(folder: Path, result: dict[str, Any], stream: dict[str, Any]) -> None:
    """A record and its manifest."""
    write(folder, result)
    (folder / "stream.json").write_text(json.dumps(stream))


def write_samples(folder: Path) -> None:
    """A board of six rows with streams, and a smaller one without."""
    for seed in (1, 2, 3):
        some = [
            sample("afcl", seed, facts="exact exemplar_free"),
            sample("joint", seed, facts="exact oracle"),
            sample("fedncm", seed),
            sample("finetune", seed),
            sample("finetune", seed, note=NASTY),
        ]
        for number, result in enumerate(some):
            place = folder / f"{seed}-{number}"
            clients = {(1, 3): 4, (2, 0): 60}.get((seed, number))
            if clients:
                write_with_stream(place, result, manifest(result, clients))
            else:
                write(place, result)
    write(folder / "single", sample("derpp", 1, facts=""))
    for seed, method in itertools.product((1, 2), ("afcl", "fedncm")):
        write(folder / f"{method}-{seed}", sample(method, seed, tasks=2))


def read_boards(folder: Path) -> tuple[Board, ...]:
    """The boards of a folder of records, all of which are sound."""
    gathered = gather([folder])
    assert not gathered.problems
    return boards(gathered.runs)


def row_of(board: Board, method: str) -> Row:
    """The first row of a method."""
    return next(row for row in board.rows if row.name.split()[0] == method)
