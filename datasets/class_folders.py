"""What data sets in folders named by class have in common: listing, checks, split and fingerprint."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fcl_bench.data.digests import digests_of
from fcl_bench.data.images import LARGEST_FILE, SUFFIXES, Files, ImageFiles
from fcl_bench.dataset import Dataset
from fcl_bench.datasets.ordering import digest, hold_out, name_order
from fcl_bench.errors import UserError

SCHEME = "class folders, every byte"  # of the fingerprint; to be changed when equal ones come to mean other contents

Members = Mapping[str, Sequence[str]]  # the paths of the images of each class, classes in label order


def list_classes(files: Files, folder: str = "") -> Members:
    """The images below each folder in ``folder`` ("" or ending in "/"); classes are in alphabetical order."""
    members: dict[str, list[str]] = {}
    unused: list[str] = []
    for path in sorted(files.sizes):
        name, nested, _ = path.removeprefix(folder).partition("/")
        if path.startswith(folder) and name and nested:
            images = members.setdefault(name, [])
            if path.lower().endswith(SUFFIXES):
                images.append(path)
            elif not path.endswith("/"):
                unused.append(path)
    where = f"{files.root}/{folder}"
    if not members:
        raise UserError(f"Expected one folder of images per class in {where}, but there is none.")
    if empty := [name for name, images in members.items() if not images]:
        raise UserError(
            f"The class folder {empty[0]} in {where} has no images ({', '.join(SUFFIXES)}); fill or remove it."
        )
    if unused:
        warnings.warn(_left_out(where, unused), stacklevel=2)
    return dict(sorted(members.items()))


def _left_out(where: str, unused: Sequence[str]) -> str:
    names = ", ".join(map(repr, unused[:3]))
    return (
        f"In the class folders of {where}, files that do not end in one of {', '.join(SUFFIXES)} are left out; "
        f"there are {len(unused):,}: {names}{' ...' if len(unused) > 3 else ''}"
    )


def list_halves(files: Files) -> tuple[Members, Members]:
    """The images of ``train/`` and of ``test/``, which must have the same classes."""
    train = list_classes(files, "train/")
    test = list_classes(files, "test/")
    if odd := sorted(train.keys() ^ test.keys()):
        raise UserError(
            f"train/ and test/ in {files.root} must have the same class folders, but only one of them has: "
            f"{', '.join(odd[:5])}{' ...' if len(odd) > 5 else ''}."
        )
    return train, test


def to_samples(files: Files, members: Members) -> ImageFiles:
    """The images of all classes in the order of their names' hashes."""
    names: list[str] = []
    paths: list[str] = []
    labels: list[int] = []
    for label, (name, images) in enumerate(members.items()):
        for path in images:
            if files.sizes[path] > LARGEST_FILE:
                raise UserError(
                    f"{path} of {files.root} has {files.sizes[path]:,} bytes, too many for an image: remove it."
                )
            names.append(f"{name}/{path.rpartition('/')[2]}")
            paths.append(path)
            labels.append(label)
    order = name_order(names)
    return ImageFiles(files, [paths[i] for i in order], np.array(labels, dtype=np.int64)[order])


def divide(samples: ImageFiles, classes: Sequence[str], ratio: float) -> tuple[ImageFiles, ImageFiles]:
    """Training and test half of samples that come without a split."""
    mask = hold_out(samples.labels, ratio)
    train = _chosen(samples, ~mask)
    test = _chosen(samples, mask)
    in_train = np.bincount(train.labels, minlength=len(classes))
    in_test = np.bincount(test.labels, minlength=len(classes))
    if too_few := np.flatnonzero((in_train == 0) | (in_test == 0)).tolist():
        raise UserError(
            f"The class {classes[too_few[0]]} in {samples.files.root} has too few images to use a share of "
            f"{ratio:g} for testing; add images, change the share or remove the class."
        )
    return train, test


def _chosen(samples: ImageFiles, mask: np.ndarray) -> ImageFiles:
    paths = [samples.paths[i] for i in np.flatnonzero(mask).tolist()]
    return ImageFiles(samples.files, paths, samples.labels[mask])


def check_complete(files: Files, found: int, expected: int) -> None:
    """Refuse a part of a published data set: its results would look like those of the whole."""
    if found != expected:
        raise UserError(
            f"{files.root} has {found:,} images where the published data set has {expected:,}; replace it "
            "by a complete copy, or use dataset=image_folder for a data set of your own."
        )


def know_contents(train: ImageFiles, test: ImageFiles) -> list[str]:
    """The digests of all files of both halves, each of which remembers its own to notice later changes."""
    digests = digests_of(train.files, [*train.paths, *test.paths])
    train.digests = digests[: len(train.paths)]
    test.digests = digests[len(train.paths) :]
    return digests


def as_dataset(
    name: str, classes: Sequence[str], train: ImageFiles, test: ImageFiles, places: tuple[Path, ...]
) -> Dataset:
    """Both halves with a fingerprint of all names, labels and contents.

    ``places`` are the files and folders that were looked at, see :class:`Dataset`.
    """
    parts: list[object] = [SCHEME, len(classes), *classes, *know_contents(train, test)]
    for half in (train, test):
        parts += [len(half.paths), *half.labels, *half.paths]
    return Dataset(name, tuple(classes), train, test, digest(parts), places)
