"""CIFAR-10 and CIFAR-100 in every form: the published pickles, or class folders of PNG files, plain or zipped.

Labels, order and fingerprint are the same in all forms: class names in alphabetical order are the published labels, and
the published pickles know the file names of the PNG files.
"""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fcl_bench.data.download import Source, unpack, verify
from fcl_bench.data.images import Pixels, open_files
from fcl_bench.dataset import Dataset, Half
from fcl_bench.datasets.class_folders import check_complete, list_halves, to_samples
from fcl_bench.datasets.ordering import digest, name_order

PROBED = 64  # images of each half whose pixels are part of the fingerprint
NamedHalf = tuple[Half, list[str]]  # the samples and their names, "<class>/<file>"


@dataclass(frozen=True)
class Edition:
    """How one of the two data sets is published."""

    source: Source
    folder: str  # the top folder of the archive
    train: Mapping[str, str]  # the checksum of each file
    test: Mapping[str, str]
    meta: Mapping[str, str]
    labels: str  # the name of the labels in the pickles
    classes: str  # the name of the class names in the pickle ``meta``
    train_size: int = 50_000
    test_size: int = 10_000


def load(name: str, data_dir: Path, download: bool, edition: Edition) -> Dataset:
    """The data set in the form that ``data_dir`` has, downloaded if there is none."""
    path = edition.source.find(data_dir, download)
    if path.suffix == ".gz":
        path = unpack(verify(path, edition.source.md5), data_dir / edition.folder)
    classes, halves = (_pickled if path.name == edition.folder else _foldered)(path, edition)
    (train, train_names), (test, test_names) = halves
    looks = [_pixels(half) for half in (train, test)]
    fingerprint = digest([edition.folder, len(train_names), *train_names, len(test_names), *test_names, *looks])
    return Dataset(name, tuple(classes), train, test, fingerprint, edition.source.places(data_dir))


def _pixels(samples: Half) -> str:
    first = samples.read(np.arange(min(PROBED, len(samples.labels))))
    return torch.stack(list(first)).numpy().tobytes().hex()


def _pickled(folder: Path, edition: Edition) -> tuple[list[str], list[NamedHalf]]:
    (meta,) = _unpickle(folder, edition.meta)
    classes = meta[edition.classes]
    halves: list[NamedHalf] = []
    for checksums in (edition.train, edition.test):
        batches = _unpickle(folder, checksums)
        labels = np.concatenate([batch[edition.labels] for batch in batches]).astype(np.int64)
        files = [file for batch in batches for file in batch["filenames"]]
        names = [f"{classes[label]}/{file}" for label, file in zip(labels, files, strict=True)]
        order = name_order(names)
        images = np.concatenate([batch["data"] for batch in batches])[order].reshape(-1, 3, 32, 32)
        halves.append((Pixels(images, labels[order]), [names[i] for i in order]))
    return classes, halves


def _unpickle(folder: Path, checksums: Mapping[str, str]) -> list[dict[str, Any]]:
    """The published files, written by Python 2; unpickling others could run any code, so the checksums come first."""
    return [pickle.loads(verify(folder / file, md5).read_bytes(), encoding="latin1") for file, md5 in checksums.items()]


def _foldered(path: Path, edition: Edition) -> tuple[list[str], list[NamedHalf]]:
    files = open_files(path)
    listed = list_halves(files)
    halves: list[NamedHalf] = []
    for members, size in zip(listed, (edition.train_size, edition.test_size), strict=True):
        samples = to_samples(files, members)
        check_complete(files, len(samples.paths), size)
        halves.append((samples, ["/".join(path.rsplit("/", 2)[-2:]) for path in samples.paths]))
    return list(listed[0]), halves
