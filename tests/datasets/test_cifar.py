"""Both CIFAR data sets: small copies in every accepted form must come out alike; the real one, where it is at hand."""

import hashlib
import io
import os
import pickle
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import CIFAR10, CIFAR100

from fcl_bench.data.download import Source
from fcl_bench.dataset import Dataset
from fcl_bench.datasets import cifar10 as cifar10_module
from fcl_bench.datasets import cifar100 as cifar100_module
from fcl_bench.datasets.cifar import Edition, load
from fcl_bench.datasets.cifar10 import cifar10
from fcl_bench.datasets.cifar100 import cifar100
from fcl_bench.errors import UserError

CLASSES = ["apple", "bee", "cup"]
EDITIONS = {"cifar10": cifar10_module.EDITION, "cifar100": cifar100_module.EDITION}


class Python2Pickler(pickle._Pickler):
    """Writes all strings as Python 2 did, which is how the archives were published."""

    def save_string(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        self.write(pickle.BINSTRING + struct.pack("<i", len(data)) + data)
        self.memoize(text)

    dispatch = pickle._Pickler.dispatch | {str: save_string, bytes: save_string}


def write_pickle(path: Path, value: object) -> str:
    buffer = io.BytesIO()
    Python2Pickler(buffer, protocol=2).dump(value)
    path.write_bytes(buffer.getvalue())
    return hashlib.md5(buffer.getvalue()).hexdigest()


class Copy:
    """A small data set in the form of one edition: 20 + 6 images, in a random order."""

    def __init__(self, place: Path, published: Edition) -> None:
        rng = np.random.default_rng(0)
        self.images = rng.integers(0, 256, (26, 3, 32, 32), dtype=np.uint8)
        self.labels = np.concatenate([rng.permutation(np.arange(20) % 3), np.arange(6) % 3])
        self.files = [f"{CLASSES[label]}_s_{number:06}.png" for number, label in enumerate(self.labels)]
        self.folder = place / published.folder
        self.folder.mkdir(parents=True)
        train = self.write_batches(published, published.train, np.arange(20))
        test = self.write_batches(published, published.test, np.arange(20, 26))
        meta = {file: write_pickle(self.folder / file, {published.classes: CLASSES}) for file in published.meta}
        self.archive = place / published.source.url.rpartition("/")[2]
        with tarfile.open(self.archive, "w:gz") as packed:
            packed.add(self.folder, self.folder.name)
        md5 = hashlib.md5(self.archive.read_bytes()).hexdigest()
        source = Source(self.archive.as_uri(), md5, published.source.accepts)
        self.edition = Edition(
            source, published.folder, train, test, meta, published.labels, published.classes, train_size=20, test_size=6
        )

    def write_batches(self, published: Edition, files: Collection[str], numbers: np.ndarray) -> dict[str, str]:
        batches = {}
        for file, chosen in zip(files, np.array_split(numbers, len(files)), strict=True):
            batch = {
                "data": self.images[chosen].reshape(len(chosen), -1),
                published.labels: self.labels[chosen].tolist(),
                "filenames": [self.files[number] for number in chosen],
            }
            batches[file] = write_pickle(self.folder / file, batch)
        return batches

    def as_folders(self, root: Path) -> None:
        for number, (image, label) in enumerate(zip(self.images, self.labels, strict=True)):
            folder = root / ("train" if number < 20 else "test") / CLASSES[label]
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.transpose(1, 2, 0)).save(folder / self.files[number])


@pytest.fixture(params=["cifar10", "cifar100"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def copy(tmp_path: Path, name: str) -> Copy:
    return Copy(tmp_path / "origin", EDITIONS[name])


def forms(copy: Copy, name: str, place: Path) -> dict[str, Dataset]:
    """The data set read from each form, each in a folder of its own."""
    for folder in ("found", "fetched"):
        (place / folder).mkdir()
    shutil.copy(copy.archive, place / "found")
    copy.as_folders(place / "folders" / name)
    (place / "zipped").mkdir()
    with zipfile.ZipFile(place / "zipped" / f"{name}-png.zip", "w") as zipped:
        for path in (place / "folders").rglob("*.png"):
            zipped.write(path, path.relative_to(place / "folders"))
    return {
        "unpacked": load(name, copy.folder.parent, False, copy.edition),
        "archive": load(name, place / "found", False, copy.edition),
        "downloaded": load(name, place / "fetched", True, copy.edition),
        "folders": load(name, place / "folders", False, copy.edition),
        "zipped": load(name, place / "zipped", False, copy.edition),
    }


def test_all_forms_are_one_data_set(copy: Copy, name: str, tmp_path: Path) -> None:
    loaded = forms(copy, name, tmp_path)
    first = loaded["unpacked"]
    label_of = {image.tobytes(): label for image, label in zip(copy.images, copy.labels, strict=True)}
    for dataset in loaded.values():
        assert dataset.classes == tuple(CLASSES)
        assert dataset.fingerprint == first.fingerprint
        for half, reference, numbers in ((dataset.train, first.train, range(20)), (dataset.test, first.test, range(6))):
            images = half.read(np.arange(len(half.labels))).numpy()
            assert half.labels.dtype == np.int64
            assert [label_of[image.tobytes()] for image in images] == half.labels.tolist()
            assert np.array_equal(images, reference.read(np.array(numbers)).numpy())
    in_train = {image.tobytes() for image in first.train.read(np.arange(20)).numpy()}
    assert in_train == {image.tobytes() for image in copy.images[:20]}
    assert first.train.labels.tolist() != sorted(first.train.labels)


def test_fingerprint_knows_the_names(copy: Copy, name: str, tmp_path: Path) -> None:
    copy.as_folders(tmp_path / name)
    before = load(name, tmp_path, False, copy.edition).fingerprint
    image = tmp_path / name / "train" / CLASSES[copy.labels[0]] / copy.files[0]
    image.rename(image.with_stem("other"))
    assert load(name, tmp_path, False, copy.edition).fingerprint != before


@pytest.mark.parametrize("number", [0, 19, 20, 25], ids=["first", "last training", "first test", "last"])
def test_fingerprint_knows_every_image(copy: Copy, name: str, tmp_path: Path, number: int) -> None:
    copy.as_folders(tmp_path / name)
    before = load(name, tmp_path, False, copy.edition).fingerprint
    copy.images[number, 2, 31, 31] ^= 1
    copy.as_folders(tmp_path / name)
    assert load(name, tmp_path, False, copy.edition).fingerprint != before


def test_a_fingerprint_can_have_an_earlier_name(copy: Copy, name: str, tmp_path: Path) -> None:
    copy.as_folders(tmp_path / name)
    fingerprint = load(name, tmp_path, False, copy.edition).fingerprint
    known = replace(copy.edition, earlier={fingerprint: "earlier"})
    assert load(name, tmp_path, False, known).fingerprint == "earlier"


def test_images_of_another_size_are_refused(copy: Copy, name: str, tmp_path: Path) -> None:
    copy.as_folders(tmp_path / name)
    image = tmp_path / name / "train" / CLASSES[copy.labels[0]] / copy.files[0]
    Image.new("RGB", (31, 32)).save(image)
    with pytest.raises(UserError, match=r"Expected all images in .* to have 32 x 32 pixels"):
        load(name, tmp_path, False, copy.edition)


def test_altered_pickles_are_never_unpickled(copy: Copy, name: str, tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> tuple:
            return os.mkdir, (str(tmp_path / "attacked"),)

    file = copy.folder / next(iter(copy.edition.train))
    file.write_bytes(pickle.dumps(Attack()))
    with pytest.raises(UserError, match=f"{file} has a wrong checksum"):
        load(name, copy.folder.parent, False, copy.edition)
    assert not (tmp_path / "attacked").exists()


def test_truncated_archive(copy: Copy, name: str, tmp_path: Path) -> None:
    (tmp_path / copy.archive.name).write_bytes(copy.archive.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"wrong checksum .* incomplete or altered"):
        load(name, tmp_path, True, copy.edition)


def test_missing_pickle(copy: Copy, name: str) -> None:
    (copy.folder / next(iter(copy.edition.test))).unlink()
    with pytest.raises(UserError, match=r"Cannot read .*No such file"):
        load(name, copy.folder.parent, False, copy.edition)


def test_incomplete_folders(copy: Copy, name: str, tmp_path: Path) -> None:
    copy.as_folders(tmp_path / name)
    (tmp_path / name / "train" / CLASSES[copy.labels[0]] / copy.files[0]).unlink()
    with pytest.raises(UserError, match="has 19 images where the published data set has 20"):
        load(name, tmp_path, False, copy.edition)


@pytest.mark.parametrize(("function", "other"), [(cifar10, "cifar100.zip"), (cifar100, "cifar10.zip")])
def test_offline_message_names_all_forms(tmp_path: Path, function: Callable[..., Dataset], other: str) -> None:
    (tmp_path / other).touch()
    with pytest.raises(UserError) as caught:
        function(name="x", data_dir=tmp_path, download=False)
    source = EDITIONS[function.__name__].source
    for part in (str(tmp_path), *source.accepts, source.url):
        assert part in str(caught.value)


@pytest.mark.parametrize(("edition", "reference"), [(EDITIONS["cifar10"], CIFAR10), (EDITIONS["cifar100"], CIFAR100)])
def test_published_facts_agree_with_torchvision(edition: Edition, reference: type[CIFAR10]) -> None:
    assert edition.source.url == reference.url
    assert edition.source.md5 == reference.tgz_md5
    assert edition.folder == reference.base_folder
    assert list(edition.train.items()) == [tuple(pair) for pair in reference.train_list]
    assert list(edition.test.items()) == [tuple(pair) for pair in reference.test_list]
    assert edition.meta == {reference.meta["filename"]: reference.meta["md5"]}
    assert edition.classes == reference.meta["key"]


REAL = Path(os.environ.get("FCL_BENCH_DATA", "nowhere"))


@pytest.mark.skipif(not (REAL / "cifar100-png.zip").exists(), reason="no cifar100-png.zip in FCL_BENCH_DATA")
def test_real_cifar100() -> None:
    dataset = cifar100(name="cifar100", data_dir=REAL, download=False)
    assert dataset.fingerprint == "9f4dac12adb05ca1b19254a33bd45e36"  # that of all published records
    assert list(dataset.classes) == sorted(dataset.classes)
    assert dataset.classes[:2] + dataset.classes[-1:] == ("apple", "aquarium_fish", "worm")
    assert np.bincount(dataset.train.labels).tolist() == [500] * 100
    assert np.bincount(dataset.test.labels).tolist() == [100] * 100
    for half in (dataset.train, dataset.test):
        assert [dataset.classes[label] for label in half.labels] == [path.split("/")[-2] for path in half.paths]
    assert len(set(dataset.train.labels[:300])) > 80
    images = dataset.train.read(np.arange(5000))
    assert images.shape == (5000, 3, 32, 32)
    assert images.double().mean((0, 2, 3)).div(255).tolist() == pytest.approx([0.50708, 0.48655, 0.44092], abs=0.01)
