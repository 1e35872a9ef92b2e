"""Tiny ImageNet: 200 classes of 64 x 64 photographs; the published validation images are the test half."""

import zlib
from pathlib import Path
from zipfile import BadZipFile

from fcl_bench.data.download import Source
from fcl_bench.data.images import Files, open_files
from fcl_bench.dataset import Dataset
from fcl_bench.datasets.class_folders import Members, as_dataset, check_complete, to_samples
from fcl_bench.errors import UserError

SOURCE = Source(
    url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    md5="90528d7ca1a48142e341f4ef8d21d0de",
    accepts=("tiny-imagenet-200/", "tiny-imagenet-200.zip"),
)
TRAIN_SIZE, TEST_SIZE = 100_000, 10_000


def tiny_imagenet(name: str, data_dir: Path, download: bool) -> Dataset:
    """The published archive, read as it is, or the folder in it."""
    files = open_files(SOURCE.find(data_dir, download))
    ids = _lines(files, "wnids.txt")
    halves = []
    for members, size in ((_train(files, ids), TRAIN_SIZE), (_test(files, ids), TEST_SIZE)):
        check_complete(files, sum(map(len, members.values())), size)
        halves.append(to_samples(files, members))
    return as_dataset(name, _class_names(files, ids), *halves, SOURCE.places(data_dir))


def _train(files: Files, ids: list[str]) -> Members:
    members: dict[str, list[str]] = {wnid: [] for wnid in ids}
    for path in sorted(files.sizes):
        folder, _, rest = path.partition("/")
        wnid, _, image = rest.partition("/images/")
        if folder == "train" and wnid in members and image:
            members[wnid].append(path)
    return members


def _test(files: Files, ids: list[str]) -> Members:
    members: dict[str, list[str]] = {wnid: [] for wnid in ids}
    for line in _lines(files, "val/val_annotations.txt"):
        image, _, rest = line.partition("\t")
        wnid = rest.partition("\t")[0]
        if f"val/images/{image}" in files.sizes and wnid in members:
            members[wnid].append(f"val/images/{image}")
    return members


def _class_names(files: Files, ids: list[str]) -> list[str]:
    """The first of the words for each class, where ``words.txt`` has them."""
    lines = _lines(files, "words.txt") if "words.txt" in files.sizes else []
    words = {wnid: text for wnid, _, text in (line.partition("\t") for line in lines)}
    return [words.get(wnid, wnid).partition(",")[0] for wnid in ids]


def _lines(files: Files, path: str) -> list[str]:
    try:
        return files.read(path).decode().splitlines()
    except (KeyError, OSError, ValueError, BadZipFile, zlib.error) as error:
        raise UserError(
            f"Cannot read {path} of {files.root} ({error}); replace it by a complete copy from {SOURCE.url}"
        ) from error
