"""``python -m benchmarks [NAME ...]``: a table of measurements against their limits; exit code 1 if one is missed."""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterable
from functools import partial
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
SLOW = ("memory_million",)  # only by name


def main() -> int:
    measurements: dict[str, Callable[..., Iterable[Row]]] = {}
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASUREMENTS)}; all but {SLOW}")
    parser.add_argument("--data-dir", type=Path, help="folder with CIFAR-100, to be used instead of synthetic data")
    parser.add_argument("--recursive", action="store_true", help="also time AFCL's recursive form (a minute)")
    options = parser.parse_args()
    return 0
