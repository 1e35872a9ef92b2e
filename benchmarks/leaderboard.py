"""From a thousand records to a page, and the start of a run that is already finished."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import Row, best
from fcl_bench.config.run_id import settings_hash
from fcl_bench.run.digests import digest_of_json, sealed

BOARDS, METHODS, SEEDS, REPEATS = 25, 8, 5, 3
MEGABYTE = 2**20
RUN = ("-m", "fcl_bench", "method=afcl", "dataset=gaussian", "backbone=none", "stream.tasks=10")


def leaderboard() -> Iterator[Row]:
    with TemporaryDirectory() as place:
        folder = Path(place)
        quiet(folder, *RUN)
        (path,) = folder.rglob("result.json")
        copies = multiply(path, folder / "many")
        (seconds,) = best(REPEATS, lambda: quiet(folder, "-m", "fcl_bench", "leaderboard", "many", "--out", "board"))
        how = f"{BOARDS} tables x {METHODS} methods x {SEEDS} seeds, all forms, with imports; best of {REPEATS}"
        yield Row(f"{copies:,} records to a page", how, seconds, "s", limit=10)
        size = (folder / "board" / "index.html").stat().st_size / MEGABYTE
        yield Row("size of the page", "with the plotting library", size, "MB", limit=5)
        (seconds,) = best(REPEATS, lambda: quiet(folder, *RUN))
        yield Row("start of a finished run", f"a new process; best of {REPEATS}", seconds, "s", limit=5)


def multiply(path: Path, folder: Path) -> int:
    """Copies of a record that differ as those of a large study do: in alpha, method, seed, stream and costs.

    They are sound: digests and run ids are those of their content.
    """
    result = json.loads(path.read_text())
    manifest = json.loads(path.with_name("stream.json").read_text())
    others = result.pop("digests")
    del others["result.json"]
    number = 0
    for alpha in range(1, BOARDS + 1):
        for method in range(METHODS):
            for seed in range(1, SEEDS + 1):
                number += 1
                stream = {"alpha": alpha / 10, "seed": seed}
                result["stream"] |= {**stream, "hash": f"{alpha * 100 + seed:064x}"}
                manifest["parameters"] |= stream
                manifest["hash"] = result["stream"]["hash"]
                result["config"] |= {"seed": seed}
                result["config"]["partition"] |= {"alpha": alpha / 10}
                result["config"]["method"] |= {"name": f"method{method}"}
                result |= {"method": f"method{method}", "seed": seed}
                result["run_id"] = f"seed{seed}-{settings_hash(result['config'])}"
                multiply_costs(result, 1 + 1e-4)
                place = folder / f"{number}"
                place.mkdir(parents=True)
                copy = sealed(result, others | {"stream.json": digest_of_json(manifest)})
                (place / "result.json").write_text(json.dumps(copy))
                (place / "stream.json").write_text(json.dumps(manifest))
    return number


def multiply_costs(result: dict[str, Any], factor: float) -> None:
    """Seconds: everything else follows from something."""
    for name in ("client_seconds", "server_seconds", "runtime_seconds", "wall_seconds"):
        curve = [value * factor for value in result["curves"][name]]
        result["curves"][name] = curve
        result["metrics"][name] = curve[-1]
    costs = result["metrics"]
    result["seconds"] = {name: costs[f"{name}_seconds"] for name in ("client", "server")}
    result["seconds"]["total"] = costs["runtime_seconds"]


def quiet(folder: Path, *words: str) -> None:
    subprocess.run([sys.executable, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
