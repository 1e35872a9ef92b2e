"""Time and memory against their limits; ends with exit code 1 if a limit is missed.

Several measurements have a process each: threads and memory of one would be in the way of the next.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from platform import python_version

from benchmarks.afcl import afcl
from benchmarks.fedcbc import fedcbc
from benchmarks.fedmgp import fedmgp
from benchmarks.finetune import finetune_end_to_end, finetune_frozen
from benchmarks.first_run import first_run
from benchmarks.imports import imports
from benchmarks.leaderboard import leaderboard
from benchmarks.measure import HEADER, Row
from benchmarks.memory import memory, memory_million
from benchmarks.methods import methods
from benchmarks.overhead import overhead
from benchmarks.processes import processes
from benchmarks.quick import quick
from benchmarks.target import target
from benchmarks.whole_runs import whole_runs

PACKAGES = ("torch", "torchvision", "timm", "lightning", "numpy")
INDENT = 21


def main() -> int:
    """Measure, and print each line as soon as it is known."""
    measurements: dict[str, Callable[[], Iterable[Row]]] = {
        "imports": imports,
        "leaderboard": leaderboard,
        "overhead": overhead,
        "processes": processes,
        "finetune_frozen": finetune_frozen,
        "finetune_end_to_end": finetune_end_to_end,
        "quick": quick,
        "methods": methods,
        "fedmgp": fedmgp,
        "target": target,
        "fedcbc": fedcbc,
        "first_run": lambda: first_run(options.data_dir),
        "afcl": lambda: afcl(options.data_dir, options.recursive),
        "memory": memory,
        "memory_million": memory_million,
        "whole_runs": whole_runs,
    }
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(measurements)}")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where CIFAR-100 is, to take it instead of noise")
    parser.add_argument("--recursive", action="store_true", help="also time AFCL's recursive form, which has no limit")
    parser.add_argument("--rows-only", action="store_true", help="print no header")
    options = parser.parse_args()
    if unknown := set(options.names) - set(measurements):
        parser.error(f"there is no {', '.join(sorted(unknown))}, only {', '.join(measurements)}")

    names = options.names or list(measurements)
    if not options.rows_only:
        versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {python_version()}, {versions}")
        print(f"\n{'':<{INDENT}}{HEADER}", flush=True)
    if len(names) > 1:
        words = [word for word in sys.argv[1:] if word not in names]
        command = [sys.executable, "-m", "benchmarks", "--rows-only", *words]
        return max(subprocess.run([*command, name]).returncode for name in names)
    missed = False
    for row in measurements[names[0]]():
        print(f"{names[0]:<{INDENT}}{row}\n{'':<{INDENT}}{row.how}", flush=True)
        missed |= row.missed
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
