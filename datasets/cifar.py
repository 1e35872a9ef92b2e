"""CIFAR-10 and CIFAR-100 in every form: the published pickles, or class folders of PNG files, plain or zipped.

Labels, order and fingerprint are the same in all forms: class names in alphabetical order are the published labels, and
the published pickles know the file names of the PNG files.
"""

import hashlib
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL
from torch import Tensor

from fcl_bench.data.archives import unpack
from fcl_bench.data.digests import remembered
from fcl_bench.data.download import Source, verify
from fcl_bench.data.images import ImageFiles, Pixels, open_files
from fcl_bench.dataset import Dataset, Half
from fcl_bench.datasets.class_folders import Members, check_complete, know_contents, list_halves, to_samples
from fcl_bench.datasets.ordering import digest, name_order
from fcl_bench.errors import UserError

AT_A_TIME = 1000  # images


class Named(NamedTuple):
    """One half, and the name of each of its samples, "<class>/<file>"."""

    half: Half
    names: list[str]


class Contents(NamedTuple):
    """The same for every form of the data set."""

    classes: list[str]
    train: Named
    test: Named


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
    earlier: Mapping[str, str] = field(default_factory=dict)  # fingerprint -> what it was when it looked at less


def load(name: str, data_dir: Path, download: bool, edition: Edition) -> Dataset:
    """The data set in the form that ``data_dir`` has, downloaded if there is none."""
    path = edition.source.find(data_dir, download)
    if path.suffix == ".gz":
        path = unpack(verify(path, edition.source.md5), data_dir / edition.folder)
    read = _pickled if path.name == edition.folder else _foldered
    classes, train, test = read(path, edition)
    parts: list[object] = [edition.folder]
    for _, names in (train, test):
        parts += [len(names), *names]
    fingerprint = digest([*parts, _pixels(path, train.half, test.half)])
    fingerprint = edition.earlier.get(fingerprint, fingerprint)
    return Dataset(name, tuple(classes), train.half, test.half, fingerprint, edition.source.places(data_dir))


def _pixels(path: Path, train: Half, test: Half) -> str:
    """The digest of all pixels, for which files are decoded only once."""
    if not isinstance(train, ImageFiles) or not isinstance(test, ImageFiles):
        return _digest_pixels(path, train, test)
    contents = digest(know_contents(train, test))
    name = f"pixels of {contents} with Pillow {PIL.__version__}"
    return remembered(name, lambda: _digest_pixels(path, train, test))


def _digest_pixels(path: Path, *halves: Half) -> str:
    sha256 = hashlib.sha256()
    for half in halves:
        for start in range(0, len(half.labels), AT_A_TIME):
            images = half.read(np.arange(start, min(start + AT_A_TIME, len(half.labels))))
            if not isinstance(images, Tensor) or images.shape[1:] != (3, 32, 32):
                raise UserError(
                    f"Expected all images in {path} to have 32 x 32 pixels: replace it by a published copy."
                )
            sha256.update(images.numpy().tobytes())
    return sha256.hexdigest()


def _pickled(folder: Path, edition: Edition) -> Contents:
    (meta,) = _unpickle(folder, edition.meta)
    classes = meta[edition.classes]

    def read(checksums: Mapping[str, str]) -> Named:
        batches = _unpickle(folder, checksums)
        labels = np.concatenate([batch[edition.labels] for batch in batches]).astype(np.int64)
        images = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
        files = [file for batch in batches for file in batch["filenames"]]
        names = [f"{classes[label]}/{file}" for label, file in zip(labels, files, strict=True)]
        order = name_order(names)
        return Named(Pixels(images[order], labels[order]), [names[i] for i in order])

    return Contents(classes, read(edition.train), read(edition.test))


def _unpickle(folder: Path, checksums: Mapping[str, str]) -> list[dict[str, Any]]:
    """The published files, written by Python 2; unpickling others could run any code, so the checksums come first."""
    contents = []
    for file, md5 in checksums.items():
        data = verify(folder / file, md5).read_bytes()
        contents.append(pickle.loads(data, encoding="latin1"))
    return contents


def _foldered(path: Path, edition: Edition) -> Contents:
    files = open_files(path)
    train, test = list_halves(files)

    def read(members: Members, size: int) -> Named:
        samples = to_samples(files, members)
        check_complete(files, len(samples.paths), size)
        names = ["/".join(path.split("/")[-2:]) for path in samples.paths]
        return Named(samples, names)

    return Contents(list(train), read(train, edition.train_size), read(test, edition.test_size))
