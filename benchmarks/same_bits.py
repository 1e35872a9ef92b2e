"""Which runs have the same bits: ``python -m benchmarks.same_bits``, methods times transports times numbers of threads.

Each run is compared with the first one of its method, in process with one thread, by what ``same`` compares. Exit code
1 if two runs with equally many threads differ.
"""

import argparse
import os
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from fcl_bench.__main__ import main as fcl_bench
from fcl_bench.run.same import compare

SMALL = (
    *("dataset=gaussian", "dataset.classes=6", "dataset.train_size=600", "dataset.test_size=120"),
    *("dataset.features=32", "stream.tasks=3", "partition.clients=4", "method.rounds=2", "method.epochs=2"),
)
LARGE = (  # clients have a million numbers and more, so that threads are used
    *("dataset=gaussian", "dataset.classes=6", "dataset.train_size=9000", "dataset.test_size=120"),
    *("dataset.features=1100", "stream.tasks=2", "partition.clients=2", "method=afcl"),
)
NETWORK = (
    *("dataset=digits", "backbone=resnet18_small", "backbone.norm=gn", "limit_train=60", "limit_test=20"),
    *("stream.tasks=2", "partition.clients=2", "method=finetune", "method.rounds=1", "method.epochs=1"),
)
RUNS = {
    "finetune": (*SMALL, "method=finetune"),
    "fedicarl": (*SMALL, "method=fedicarl"),
    "derpp": (*SMALL, "method=derpp"),
    "afcl": LARGE,
    "afcl_float64": (*LARGE, "method.arithmetic=float64"),
    "afcl_recursive": (*LARGE, "method.arithmetic=float64", "method.form=recursive"),
    "finetune_end_to_end": (*NETWORK, "backbone.trainable=true"),
}
WAYS = {
    "in_process": (),
    "wire": ("transport=wire",),
    "1_process": ("transport=processes", "transport.workers=1"),
    "2_processes": ("transport=processes", "transport.workers=2"),
    "4_processes": ("transport=processes", "transport.workers=4"),
}


def run_all(folder: Path, names: list[str]) -> None:
    """In this process, with the threads that it was given."""
    for name in names:
        for way, transport in WAYS.items():
            place = folder / os.environ["OMP_NUM_THREADS"] / name / way
            with redirect_stdout(StringIO()):
                code = fcl_bench([*RUNS[name], *transport, f"output_dir={place}", f"cache_dir={folder / 'cache'}"])
            assert code == 0, (name, way)


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.same_bits", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(RUNS), metavar="NAME", help=f"some of {', '.join(RUNS)}")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, with commas between them")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.into:
        run_all(options.into, options.names)
        return 0
    differ = 0
    with TemporaryDirectory() as place:
        numbers = options.threads.split(",")
        for number in numbers:
            command = [sys.executable, "-m", "benchmarks.same_bits", "--into", place, *options.names]
            subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": number}, check=True)
        for name in options.names:
            for number in numbers:
                differ += compared(Path(place), name, number, numbers[0])
    return int(differ > 0)


def compared(folder: Path, name: str, number: str, first: str) -> int:
    """Print a line per transport; how many differ from the run in process with as many threads."""
    one = record(folder / first / name / "in_process")
    here = record(folder / number / name / "in_process")
    differ = 0
    for way in WAYS:
        other = record(folder / number / name / way)
        found = compare(one, other)
        differ += compare(here, other).parting is not None
        print(f"{name:<22}{way:<13}{number} threads: {found.parting or 'the same bits'}", flush=True)
    return differ


def record(folder: Path) -> Path:
    (path,) = folder.rglob("result.json")
    return path.parent


if __name__ == "__main__":
    sys.exit(main())
