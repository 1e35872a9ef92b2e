"""Entries of the feature cache: damaged, swapped, described as something else, or not made of files."""

import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.mutations import mutated
from fcl_bench.backbone import BackboneSource
from fcl_bench.data.cache import CHUNK
from fcl_bench.data.features import cached_inputs
from fcl_bench.dataset import Dataset

ROWS = CHUNK + 20
FILES = ("data.bin", "checksums.bin", "meta.json")


class Features:
    """Ready-made features."""

    def __init__(self, seed: int):
        self.values = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(seed))
        self.labels = np.zeros(ROWS, np.int64)

    def read(self, indices: np.ndarray) -> torch.Tensor:
        return self.values[indices]


def prepare(sound: Path) -> Callable[[np.random.Generator, Path], str]:
    """Two entries that differ in nothing but their values."""
    logging.getLogger("fcl_bench.data.cache").setLevel(logging.ERROR)
    data = [Dataset("hostile", ("one",), Features(seed), Features(seed), f"seed {seed}") for seed in (1, 2)]
    for dataset in data:
        _read(dataset, sound)

    def case(rng: np.random.Generator, place: Path) -> str:
        cache = shutil.copytree(sound, place / "cache")
        (place / "precious").write_text("precious")
        mine, other = sorted(cache.glob("hostile-*[!k]"))
        CHANGES[int(rng.integers(len(CHANGES)))](mine, other, rng)
        before = _contents(cache)
        for dataset in data:
            if not torch.equal(_read(dataset, cache), dataset.train.values):
                return "silent change"
        if (place / "precious").read_text() != "precious" or len(list(place.iterdir())) != 2:
            return "write outside"
        return "same" if _contents(cache) == before else "repaired"

    return case


def _read(dataset: Dataset, cache: Path) -> torch.Tensor:
    return cached_inputs(dataset, "train", BackboneSource("none"), cache).tensor


def _contents(cache: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"}


def _damage(mine: Path, other: Path, rng: np.random.Generator) -> None:
    path = mine / FILES[int(rng.integers(3))]
    path.write_bytes(mutated(path.read_bytes(), rng))


def _swap(mine: Path, other: Path, rng: np.random.Generator) -> None:
    """Some of the files, or all."""
    for name in FILES:
        if rng.integers(4):
            shutil.copy(other / name, mine / name)


def _describe(mine: Path, other: Path, rng: np.random.Generator) -> None:
    """Another shape, kind of numbers or label."""
    meta = json.loads((mine / "meta.json").read_text())
    shapes = ([ROWS, 1], [ROWS, 2**40], [2**40, 3], [ROWS], [], [ROWS, 0], [ROWS, -3], ["x"], [[1]], 7, None, [ROWS, 6])
    dtypes = ("int32", "uint32", "float64", "float16", "object", "V8", "nothing", 7, None, "uint8")
    match int(rng.integers(3)):
        case 0:
            meta["shape"] = shapes[int(rng.integers(len(shapes)))]
        case 1:
            meta["dtype"] = dtypes[int(rng.integers(len(dtypes)))]
        case 2:
            key = sorted(meta["label"])[int(rng.integers(4))]
            meta["label"][key] = (None, "other", {}, [], 7)[int(rng.integers(5))]
    (mine / "meta.json").write_text(json.dumps(meta))


def _no_file(mine: Path, other: Path, rng: np.random.Generator) -> None:
    """A folder, pipe or link in place of a file."""
    path = mine / FILES[int(rng.integers(3))]
    path.unlink()
    match int(rng.integers(4)):
        case 0:
            path.mkdir()
        case 1:
            os.mkfifo(path)
        case 2:
            path.symlink_to(mine.parents[1] / "precious")
        case 3:
            path.symlink_to("nowhere")


def _no_folder(mine: Path, other: Path, rng: np.random.Generator) -> None:
    """A file, pipe or link in place of the folder."""
    shutil.rmtree(mine)
    match int(rng.integers(4)):
        case 0:
            mine.write_text("a file")
        case 1:
            os.mkfifo(mine)
        case 2:
            mine.symlink_to(other)
        case 3:
            mine.symlink_to(mine.parents[1] / "precious")


def _deep(mine: Path, other: Path, rng: np.random.Generator) -> None:
    """JSON that is nested very deeply."""
    (mine / "meta.json").write_text("[" * int(rng.integers(1000, 500_000)))


CHANGES = (_damage, _damage, _damage, _swap, _swap, _describe, _describe, _no_file, _no_folder, _deep)
