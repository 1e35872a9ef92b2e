"""``python -m benchmarks [NAME ...]``: times and memory against their limits; exit code 1 if a limit is missed."""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path

from benchmarks.afcl import afcl
from benchmarks.finetune import finetune_end_to_end, finetune_frozen
from benchmarks.first_run import first_run
from benchmarks.imports import imports
from benchmarks.measure import HEADER, Row
from benchmarks.memory import memory, memory_million
from benchmarks.overhead import overhead

PACKAGES = ("torch", "torchvision", "timm", "lightning", "numpy")
ON_REQUEST = {"memory_million"}  # takes minutes and 2 GB of disk


def main() -> int:
    """Measure, and print each line as soon as it is known."""
    measurements: dict[str, Callable[[], Iterable[Row]]] = {
        "imports": imports,
        "overhead": overhead,
        "finetune_frozen": finetune_frozen,
        "finetune_end_to_end": finetune_end_to_end,
        "first_run": lambda: first_run(options.data_dir),
        "afcl": lambda: afcl(options.data_dir, options.recursive),
        "memory": memory,
        "memory_million": memory_million,
    }
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(measurements)}")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="has CIFAR-100, to be used in place of noise")
    parser.add_argument("--recursive", action="store_true", help="also time AFCL's recursive form, which is slow")
    options = parser.parse_args()
    if unknown := set(options.names) - set(measurements):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(measurements)}")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {platform.python_implementation()}", end=" ")
    print(platform.python_version(), *(f"{package} {version(package)}" for package in PACKAGES), sep=", ", end="\n\n")
    print(HEADER)
    missed = 0
    for name in options.names or [name for name in measurements if name not in ON_REQUEST]:
        for row in measurements[name]():
            print(f"{name:<21}{row}\n{'':<21}{row.how}", flush=True)
            missed += row.missed
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
