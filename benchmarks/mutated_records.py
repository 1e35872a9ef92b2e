"""Records that were changed, damaged or exchanged, given to the leaderboard: ``python -m benchmarks.mutated_records``.

Each case changes one thing in the folder of a sound record, seeded, and asks what the leaderboard shows. Good ends are
*refused*, in a sentence that names the record; *left out*, as a run that is not finished or has forgotten samples; and
*same*, where all that is shown is what it was. Bad ends are *changed*, other numbers or names without a word, and
*traceback*. Every tenth case also goes through ``plot`` and ``same``. It is done for a record as runs write it, and for
one as earlier versions wrote it, without digests and predictions: there, what no other number contradicts cannot be
seen, and is listed. Exit code 1 if there is a bad end that could be seen.
"""

import argparse
import json
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.record_changes import CHANGES
from fcl_bench.__main__ import main as fcl_bench
from fcl_bench.errors import UserError
from fcl_bench.leaderboard.against import against
from fcl_bench.leaderboard.boards import boards
from fcl_bench.leaderboard.latex import latex
from fcl_bench.leaderboard.page_data import page_data
from fcl_bench.leaderboard.plots import KINDS
from fcl_bench.leaderboard.render import markdown
from fcl_bench.leaderboard.runs import gather
from fcl_bench.leaderboard.sheet import sheet
from fcl_bench.run.same import compare

TINY = (
    *("method=fedicarl", "dataset=gaussian", "dataset.classes=4", "dataset.train_size=80", "dataset.test_size=40"),
    *("dataset.features=4", "stream.tasks=2", "partition.clients=2", "method.rounds=1", "method.epochs=1"),
)
DRAWN_EVERY = 10
Shown = dict[str, str]  # by form


def campaign(base: Path, other: Path, count: int, seed: int, show: Callable[[str], None] = print) -> Counter[str]:
    """The ends of ``count`` cases on the record in ``base``; files are exchanged for those of ``other``."""
    ends: Counter[str] = Counter()
    sound = shown(base)
    assert isinstance(sound, dict), sound
    names = list(CHANGES)
    with TemporaryDirectory() as place:
        for index in range(count):
            rng = np.random.default_rng((seed, index))
            name = names[index % len(names)]
            folder = Path(place, "record")
            shutil.copytree(base, folder)
            what = CHANGES[name](rng, folder, other)
            end = end_of(folder, sound, drawn=index // len(names) % DRAWN_EVERY == 0)
            ends[end] += 1
            if end in ("changed", "traceback"):
                show(f"case {index}, {name}: {end}: {what}")
            shutil.rmtree(folder)
    return ends


def end_of(folder: Path, sound: Shown, drawn: bool) -> str:
    """What became of a changed record."""
    try:
        found = shown(folder)
        if drawn:
            read_otherwise(folder)
    except Exception:
        traceback.print_exc()
        return "traceback"
    if isinstance(found, str):
        return found
    return "same" if found == sound else "changed"


def shown(folder: Path) -> Shown | str:
    """All forms of the tables, or how else it ended."""
    gathered = gather([folder])
    for sentence in gathered.problems:
        if "\n" in sentence or not sentence.isprintable():
            raise AssertionError(f"not one line: {sentence!r}")
    if not gathered.runs:
        return "refused" if gathered.problems else "left out"
    tables = boards(gathered.runs)
    data = page_data(tables)
    streams = data.pop("streams")
    if all(isinstance(picture, str) for picture in streams.values()):
        streams = {}  # a picture that is not there says so
    for row in (row for board in data["boards"] for row in board["rows"]):
        for run in row["runs"]:
            del run["trust"]  # says what it was held against
    forms = {"markdown": markdown(tables), "csv": sheet(tables), "latex": latex(tables)}
    forms["page"] = json.dumps(data, allow_nan=False)
    for form, text in forms.items():
        if not text.replace("\n", "").isprintable():
            raise AssertionError(f"the {form} has characters that are not visible")
    return forms


def read_otherwise(folder: Path) -> None:
    """Draw figures, and compare the record with itself: a :class:`UserError` is a good end."""
    with suppress(UserError):
        tables = boards(gather([folder]).runs)
        against(tables)
        for kind in ("curves", "matrix", "pareto", "stream") if tables else ():
            for _, figure in KINDS[kind](tables):
                figure.savefig(folder / "figure.svg")
    with suppress(UserError):
        compare(folder, folder)


def record(folder: Path, *words: str) -> Path:
    """The folder of a new record."""
    with redirect_stdout(StringIO()):
        code = fcl_bench([*TINY, f"output_dir={folder}", f"cache_dir={folder / 'cache'}", *words])
    assert code == 0
    (path,) = folder.rglob("result.json")
    return path.parent


def as_earlier_versions_wrote_it(folder: Path, copy: Path) -> Path:
    """Without digests, and with the manifest alone beside it."""
    copy.mkdir()
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    del result["digests"]
    (copy / "result.json").write_text(json.dumps(result))
    shutil.copy(folder / "stream.json", copy)
    return copy


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.mutated_records", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="cases, half of them on either kind of record")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.perf_counter()
    with TemporaryDirectory() as place:
        new = record(Path(place, "one"))
        other = record(Path(place, "other"), "seed=2")
        old = as_earlier_versions_wrote_it(new, Path(place, "old"))
        ends = {}
        for kind, base in {"with digests": new, "without digests": old}.items():
            ends[kind] = campaign(base, other, options.count // 2, options.seed)
    for kind, counts in ends.items():
        print(f"{kind}: {sum(counts.values()):,} cases, " + ", ".join(f"{counts[end]:,} {end}" for end in counts))
    print(f"{time.perf_counter() - start:.0f} s")
    bad = ends["with digests"]["changed"] + sum(counts["traceback"] for counts in ends.values())
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
