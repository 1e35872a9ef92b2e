"""Tiny ImageNet: 200 classes of 64 x 64 photographs; the published validation images are the test half."""

import zlib
from pathlib import Path
from zipfile import BadZipFile

from fcl_bench.data.download import Source
from fcl_bench.data.images import Files, ImageFiles, open_files
from fcl_bench.dataset import Dataset
from fcl_bench.datasets.class_folders import Members, as_dataset, check_complete, to_samples
from fcl_bench.errors import UserError

SOURCE = Source(
    url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    md5="90528d7ca1a48142e341f4ef8d21d0de",
    accepts=("tiny-imagenet-200/", "tiny-imagenet-200.zip"),
)
TRAIN_SIZE = 100_000
TEST_SIZE = 10_000


def tiny_imagenet(name: str, data_dir: Path, download: bool) -> Dataset:
    """The published archive, read as it is, or the folder in it."""
    files = open_files(SOURCE.find(data_dir, download))
    ids = _lines(files, "wnids.txt")
    train = _half(files, _train(files, ids), TRAIN_SIZE)
    test = _half(files, _test(files, ids), TEST_SIZE)
    return as_dataset(name, _class_names(files, ids), train, test, SOURCE.places(data_dir))


def _half(files: Files, members: Members, size: int) -> ImageFiles:
    samples = to_samples(files, members)
    check_complete(files, len(samples.paths), size)
    return samples


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
        path = f"val/images/{image}"
        if path in files.sizes and wnid in members:
            members[wnid].append(path)
    return members


def _class_names(files: Files, ids: list[str]) -> list[str]:
    """The first of the words for each class, where ``words.txt`` has them."""
    words: dict[str, str] = {}
    if "words.txt" in files.sizes:
        for line in _lines(files, "words.txt"):
            wnid, _, text = line.partition("\t")
            words[wnid] = text
    return [words.get(wnid, wnid).partition(",")[0] for wnid in ids]


def _lines(files: Files, path: str) -> list[str]:
    try:
        return files.read(path).decode().splitlines()
    except (KeyError, OSError, ValueError, BadZipFile, zlib.error) as error:
        raise UserError(
            f"Cannot read {path} of {files.root} ({error}); replace it by a complete copy from {SOURCE.url}"
        ) from error
