"""Files that were damaged or written to do harm, given to every reader of data: ``python -m benchmarks.hostile_files``.

Each case starts from sound files, changes some of them, and lets the package read them as a run would. What comes of it
is one of four good ends: *refused* in a sentence, *same* values as before, *other* values that are known as such by
another fingerprint or hash, *repaired*, as the cache does. The bad ends are tracebacks, silent changes, writes outside
of the target, and hangs. Ends with exit code 1 if there is one of them.
"""

import argparse
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import numpy as np

from benchmarks import hostile_archives, hostile_entries, hostile_images, hostile_manifests, hostile_settings
from fcl_bench.errors import UserError

GOOD = ("refused", "same", "other", "repaired")
BAD = ("traceback", "silent change", "write outside", "hang")
SECONDS = 20  # until a case counts as hanging; the slowest takes less than one
Case = Callable[[np.random.Generator, Path], str]
KINDS: dict[str, Callable[[Path], Case]] = {
    "archives": hostile_archives.prepare,
    "images": hostile_images.prepare,
    "manifests": hostile_manifests.prepare,
    "cache entries": hostile_entries.prepare,
    "settings": hostile_settings.prepare,
}


class Hang(BaseException):
    """A case has taken too long."""


def campaign(count: int, seed: int, show: Callable[[str], None] = print) -> dict[str, Counter[str]]:
    """The ends of ``count`` cases, those of each kind apart."""
    ends: dict[str, Counter[str]] = {}
    for number, (kind, prepare) in enumerate(KINDS.items()):
        ends[kind] = Counter()
        with TemporaryDirectory() as folder:
            case = prepare(Path(folder, "sound"))
            for index in range(number, count, len(KINDS)):
                end = _end_of(case, np.random.default_rng((seed, index)), Path(folder, "case"), show)
                ends[kind][end] += 1
                if end in BAD:
                    show(f"{kind}, seed {seed}, case {index}: {end}")
    return ends


def _end_of(case: Case, rng: np.random.Generator, place: Path, show: Callable[[str], None]) -> str:
    place.mkdir()
    try:
        with _limited_time():
            return case(rng, place)
    except UserError:
        return "refused"
    except Hang:
        return "hang"
    except Exception:
        show(traceback.format_exc())
        return "traceback"
    finally:
        shutil.rmtree(place)


@contextmanager
def _limited_time() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.hostile_files", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="cases in all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ["PYTHONWARNINGS"] = "ignore"
    began = time.monotonic()
    ends = campaign(options.count, options.seed)
    print(f"{'':<14}" + "".join(f"{end:>15}" for end in (*GOOD, *BAD)))
    for kind, found in ends.items():
        print(f"{kind:<14}" + "".join(f"{found[end]:>15,}" for end in (*GOOD, *BAD)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{options.count:,} cases, {time.monotonic() - began:.0f} s, at most {peak:,} MB of memory")
    return int(any(found[end] for found in ends.values() for end in BAD))


if __name__ == "__main__":
    sys.exit(main())
