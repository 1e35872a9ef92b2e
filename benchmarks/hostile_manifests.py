"""Manifests of streams: damaged ones, and altered ones whose hashes were made to fit."""

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mutations import mutated
from fcl_bench import stream as streams
from fcl_bench.partition import Dirichlet
from fcl_bench.stream import Stream, load, make_stream, save
from fcl_bench.temporal import SiBlurry

Arrays = dict[str, np.ndarray]
TRAIN = np.random.default_rng(0).permutation(np.repeat(np.arange(6), 20))
TEST = np.repeat(np.arange(6), 5)


def prepare(sound: Path) -> Callable[[np.random.Generator, Path], str]:
    """A stream of three tasks and four clients."""
    stream = make_stream(TRAIN, TEST, SiBlurry(3, reserved=2), Dirichlet(4, 0.5), 1)
    save(stream, sound)

    def case(rng: np.random.Generator, place: Path) -> str:
        folder = shutil.copytree(sound, place / "manifest")
        _damage(folder, rng) if rng.integers(2) else _alter(folder, rng)
        return _end(stream, load(folder, TRAIN, TEST))

    return case


def _end(before: Stream, after: Stream) -> str:
    """Another stream must have another hash, and be one at all."""
    dealt = np.concatenate([after.samples, after.reserved])
    sound = len(set(dealt.tolist())) == len(dealt) and set(dealt.tolist()) <= set(range(len(TRAIN)))
    sound &= len(set(after.test.tolist())) == len(after.test) and set(after.test.tolist()) <= set(range(len(TEST)))
    sound &= after.sizes.min() >= 0 and after.sizes.sum() == len(after.samples)
    if not sound:
        return "silent change"
    if after.hash != before.hash:
        return "other"
    equal = all(np.array_equal(after.arrays[name], array) for name, array in before.arrays.items())
    return "same" if equal and after.parameters == before.parameters else "silent change"


def _damage(folder: Path, rng: np.random.Generator) -> None:
    path = folder / ("stream.npz", "stream.json")[int(rng.integers(2))]
    path.write_bytes(mutated(path.read_bytes(), rng))


def _alter(folder: Path, rng: np.random.Generator) -> None:
    """Change arrays or parameters, then make the hash of the arrays fit."""
    with np.load(folder / "stream.npz") as saved:
        arrays = dict(saved)
    summary = json.loads((folder / "stream.json").read_text())
    ALTERATIONS[int(rng.integers(len(ALTERATIONS)))](arrays, summary, rng)
    if "hash" in summary:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numpy, about complex numbers
            summary["hash"] = streams._hash(arrays.values())
    np.savez_compressed(folder / "stream.npz", **arrays)
    (folder / "stream.json").write_text(json.dumps(summary))


def _number(arrays: Arrays, summary: dict[str, Any], rng: np.random.Generator) -> None:
    name = streams.ARRAYS[int(rng.integers(len(streams.ARRAYS)))]
    flat = arrays[name].reshape(-1)
    values = (-1, 0, 1, len(TRAIN), 2**62, -(2**62), int(flat[0]))
    flat[int(rng.integers(len(flat)))] = values[int(rng.integers(len(values)))]


def _exchange(arrays: Arrays, summary: dict[str, Any], rng: np.random.Generator) -> None:
    """Two samples change places: a sound stream, but another one."""
    one, two = rng.integers(len(arrays["samples"]), size=2)
    arrays["samples"][[one, two]] = arrays["samples"][[two, one]]


def _shape(arrays: Arrays, summary: dict[str, Any], rng: np.random.Generator) -> None:
    name = streams.ARRAYS[int(rng.integers(len(streams.ARRAYS)))]
    array = arrays[name]
    shapes = (array.reshape(-1, 1), array[:-1], array.reshape(-1), np.repeat(array, 2), array[:0], np.array(1))
    arrays[name] = shapes[int(rng.integers(len(shapes)))]


def _bomb(arrays: Arrays, summary: dict[str, Any], rng: np.random.Generator) -> None:
    name = streams.ARRAYS[int(rng.integers(len(streams.ARRAYS)))]
    arrays[name] = np.zeros((1, 2_000_000), np.int64)  # of which little is left in the file


def _dtype(arrays: Arrays, summary: dict[str, Any], rng: np.random.Generator) -> None:
    name = streams.ARRAYS[int(rng.integers(len(streams.ARRAYS)))]
    kinds = ("float64", "complex128", "bool", "S8", "U4", "datetime64[s]")
    arrays[name] = arrays[name].astype(kinds[int(rng.integers(len(kinds)))])


def _parameters(arrays: Arrays, summary: dict[str, Any], rng: np.random.Generator) -> None:
    key = sorted(summary["parameters"])[int(rng.integers(len(summary["parameters"])))]
    values = (None, -1, 0, 10**30, "x", [], {}, 0.25, float("nan"))
    summary["parameters"][key] = values[int(rng.integers(len(values)))]
    if rng.integers(2):
        del summary["parameters_hash"]  # as in a manifest of an earlier version


def _summary(arrays: Arrays, summary: dict[str, Any], rng: np.random.Generator) -> None:
    key = sorted(summary)[int(rng.integers(len(summary)))]
    values = (None, -1, [], {}, "x", [[[]]], True)
    summary[key] = values[int(rng.integers(len(values)))]


ALTERATIONS = (_number, _exchange, _shape, _bomb, _dtype, _parameters, _summary)
