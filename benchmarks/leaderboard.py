"""From a thousand records to a page, and the start of a run that is already finished."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Row, best

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
    """Copies of a record that differ as those of a large study do: in alpha, method, seed, stream and numbers."""
    result = json.loads(path.read_text())
    manifest = path.with_name("stream.json").read_text()
    number = 0
    for alpha in range(1, BOARDS + 1):
        for method in range(METHODS):
            for seed in range(1, SEEDS + 1):
                number += 1
                result |= {"method": f"method{method}", "seed": seed, "run_id": f"seed{seed}-{number:08x}"}
                result["config"] |= {"seed": seed}
                stream = f"{alpha * 100 + seed:064x}"
                result["stream"] |= {"alpha": alpha / 10, "hash": stream}
                for curve in result["curves"].values():
                    curve[:] = [value if value is None else value * (1 + 1e-4 * number) for value in curve]
                place = folder / f"{number}"
                place.mkdir(parents=True)
                (place / "result.json").write_text(json.dumps(result))
                (place / "stream.json").write_text(json.dumps(json.loads(manifest) | {"hash": stream}))
    return number


def quiet(folder: Path, *words: str) -> None:
    subprocess.run([sys.executable, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
