"""Small data sets of image files in the published formats, written here, so that every image and label is known."""

import hashlib
import shutil
import tarfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fcl_bench.data.download import Source
from fcl_bench.dataset import Dataset, Half
from fcl_bench.datasets import imagenet_r as imagenet_r_module
from fcl_bench.datasets import tiny_imagenet as tiny_imagenet_module
from fcl_bench.datasets.image_folder import image_folder
from fcl_bench.datasets.imagenet_r import imagenet_r
from fcl_bench.datasets.tiny_imagenet import tiny_imagenet
from fcl_bench.errors import UserError


def save(path: Path, level: int, size: tuple[int, int] = (6, 6), mode: str = "RGB") -> None:
    """An image of one grey level, by which it is known again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, level).convert(mode).save(path)


def levels(samples: Half) -> dict[int, int]:
    """The label of each sample by its grey level."""
    images = samples.read(np.arange(len(samples.labels)))
    return {int(image[0, 0, 0]): int(label) for image, label in zip(images, samples.labels, strict=True)}


def zip_folder(folder: Path, path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.rglob("*"):
            archive.write(file, file.relative_to(folder.parent))


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three classes, not in alphabetical order, with 4 training and 2 test images each, and one grey image."""
    root = tmp_path / "tiny-imagenet-200"
    ids = ["n03", "n01", "n02"]
    annotations = []
    for label, wnid in enumerate(ids):
        for number in range(4):
            mode = "L" if number == 0 else "RGB"
            save(root / "train" / wnid / "images" / f"{wnid}_{number}.JPEG", 10 * label + number, mode=mode)
        (root / "train" / wnid / f"{wnid}_boxes.txt").write_text("0\t0\t1\t1\n")
        for number in (2 * label, 2 * label + 1):
            save(root / "val" / "images" / f"val_{number}.JPEG", 100 + 10 * label + number)
            annotations.append(f"val_{number}.JPEG\t{wnid}\t0\t32\t44\t62\n")
    save(root / "test" / "images" / "test_0.JPEG", 255)
    (root / "val" / "val_annotations.txt").write_text("".join(reversed(annotations)))
    (root / "wnids.txt").write_text("\n".join(ids))
    (root / "words.txt").write_text("n01\tgoldfish, Carassius auratus\nn03\ttoad\nn99\tother\n")
    monkeypatch.setattr(tiny_imagenet_module, "TRAIN_SIZE", 12)
    monkeypatch.setattr(tiny_imagenet_module, "TEST_SIZE", 6)
    return root


def test_tiny_imagenet_from_folder_and_zip(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "zipped").mkdir()
    zip_folder(tiny, tmp_path / "zipped" / "tiny-imagenet-200.zip")
    from_folder, from_zip = (tiny_imagenet("tiny", place, download=False) for place in (tmp_path, tmp_path / "zipped"))
    assert from_folder.fingerprint == from_zip.fingerprint
    for dataset in (from_folder, from_zip):
        assert dataset.classes == ("toad", "goldfish", "n02")
        assert levels(dataset.train) == {10 * label + number: label for label in range(3) for number in range(4)}
        assert levels(dataset.test) == {100 + 10 * label + 2 * label + i: label for label in range(3) for i in range(2)}
    assert from_folder.train.labels.tolist() == from_zip.train.labels.tolist() != sorted(from_zip.train.labels)


@pytest.mark.parametrize("lost", ["wnids.txt", "val/val_annotations.txt"])
def test_tiny_imagenet_without_its_lists(tiny: Path, tmp_path: Path, lost: str) -> None:
    (tiny / lost).unlink()
    with pytest.raises(UserError, match=f"Cannot read {lost} of {tiny} .*complete copy from http"):
        tiny_imagenet("tiny", tmp_path, download=False)


@pytest.mark.parametrize(
    ("lost", "message"), [("train/n01/images/n01_2.JPEG", "11 .* 12"), ("val/images/val_3.JPEG", "5 .* 6")]
)
def test_tiny_imagenet_without_an_image(tiny: Path, tmp_path: Path, lost: str, message: str) -> None:
    (tiny / lost).unlink()
    with pytest.raises(UserError, match=message):
        tiny_imagenet("tiny", tmp_path, download=False)


@pytest.fixture
def renditions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of three classes with 5, 10 and 15 images of many sizes, published at a file:// address."""
    root, level = tmp_path / "origin" / "imagenet-r", 0
    for label, count in enumerate((5, 10, 15)):
        for number in range(count):
            save(root / f"n{label:02}" / f"art_{number}.png", level, size=(4 + level % 3, 5))
            level += 1
    (root / "README.txt").write_text("read me")
    archive = tmp_path / "origin" / "imagenet-r.tar"
    with tarfile.open(archive, "w") as packed:
        packed.add(root, root.name)
    md5 = hashlib.md5(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(imagenet_r_module, "SOURCE", Source(archive.as_uri(), md5, imagenet_r_module.SOURCE.accepts))
    monkeypatch.setattr(imagenet_r_module, "SIZE", 30)
    return archive


def test_imagenet_r_downloads_unpacks_and_splits(renditions: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    dataset = imagenet_r("imagenet_r", tmp_path / "data", download=True)
    assert dataset.classes == ("n00", "n01", "n02")
    assert np.bincount(dataset.train.labels).tolist() == [4, 8, 12]
    assert np.bincount(dataset.test.labels).tolist() == [1, 2, 3]
    assert levels(dataset.train) | levels(dataset.test) == {level: (level >= 5) + (level >= 15) for level in range(30)}
    assert isinstance(dataset.train.read(np.arange(24)), list)
    again = imagenet_r("imagenet_r", renditions.parent, download=False)
    assert again.fingerprint == dataset.fingerprint
    assert again.train.paths == dataset.train.paths


def test_imagenet_r_refuses_other_archives_and_parts(renditions: Path, tmp_path: Path) -> None:
    (tmp_path / "imagenet-r.tar").write_bytes(renditions.read_bytes()[:5000])
    with pytest.raises(UserError, match=r"imagenet-r\.tar has a wrong checksum"):
        imagenet_r("imagenet_r", tmp_path, download=True)
    (renditions.parent / "imagenet-r" / "n00" / "art_0.png").unlink()
    with pytest.raises(UserError, match="has 29 images where the published data set has 30"):
        imagenet_r("imagenet_r", renditions.parent, download=False)


def own(root: Path | str, data_dir: Path, ratio: float = 0.5) -> Dataset:
    return image_folder(name="own", data_dir=data_dir, root=Path(root), test_ratio=ratio)


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    for number, suffix in enumerate(("JPG", "jpeg", "png", "bmp", "webp", "ppm")):
        save(tmp_path / "animals" / "cat" / f"{number}.{suffix}", 40 * number)
        save(tmp_path / "animals" / "dog" / "deep" / f"{number}.{suffix}", 40 * number + 20)
    (tmp_path / "animals" / "notes.txt").touch()
    (tmp_path / "animals" / "dog" / ".notes.txt").touch()
    return tmp_path / "animals"


@pytest.mark.parametrize("form", ["relative", "absolute", "zip"])
def test_image_folder_splits_classes(animals: Path, tmp_path: Path, form: str) -> None:
    zip_folder(animals, tmp_path / "animals.zip")
    root = {"relative": "animals", "absolute": animals, "zip": "animals.zip"}[form]
    dataset = own(root, tmp_path if form != "absolute" else Path("elsewhere"))
    assert dataset.classes == ("cat", "dog")
    assert np.bincount(dataset.train.labels).tolist() == np.bincount(dataset.test.labels).tolist() == [3, 3]
    assert levels(dataset.train) | levels(dataset.test) == {20 * level: level % 2 for level in range(12)}
    assert dataset.fingerprint == own("animals", tmp_path).fingerprint


def test_image_folder_with_both_halves(animals: Path, tmp_path: Path) -> None:
    shutil.copytree(animals, tmp_path / "set" / "train")
    save(tmp_path / "set" / "test" / "cat" / "x.png", 1)
    save(tmp_path / "set" / "test" / "dog" / "x.png", 2)
    dataset = own("set", tmp_path)
    assert levels(dataset.train) == {20 * level: level % 2 for level in range(12)}
    assert levels(dataset.test) == {1: 0, 2: 1}


def test_image_folder_fingerprint_sees_new_contents_of_equal_size(animals: Path, tmp_path: Path) -> None:
    before = own("animals", tmp_path).fingerprint
    save(animals / "cat" / "3.bmp", 7)
    assert own("animals", tmp_path).fingerprint != before


def test_image_folder_fingerprint_covers_every_byte(tmp_path: Path) -> None:
    """All 600 files, one after the other and without a change in size."""
    for number in range(600):
        save(tmp_path / "animals" / ("cat", "dog")[number % 2] / f"{number}.ppm", number % 256, size=(1, 1))
    seen = {own("animals", tmp_path).fingerprint}
    for path in sorted((tmp_path / "animals").rglob("*.ppm"))[::60]:
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        seen.add(own("animals", tmp_path).fingerprint)
        path.write_bytes(data)
    assert len(seen) == 11


def test_image_folder_names_what_it_leaves_out(animals: Path, tmp_path: Path) -> None:
    for name in ("a.tiff", "b.tiff", "c.heic", "d.txt"):
        (animals / "cat" / name).touch()
    named = r"'cat/a.tiff', 'cat/b.tiff', 'cat/c.heic' \.\.\."
    message = rf"In the class folders of .*/animals/, .* left out; there are 4: {named}"
    with pytest.warns(UserWarning, match=message):
        own("animals", tmp_path)
    for path in (animals / "cat").glob("[abcd].*"):
        path.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own("animals", tmp_path)


def test_image_folder_refuses_a_file_too_large_for_an_image(animals: Path, tmp_path: Path) -> None:
    with (animals / "cat" / "large.png").open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(UserError, match=r"cat/large\.png of .* has 1,073,741,824 bytes, too many for an image"):
        own("animals", tmp_path)


def test_image_folder_in_an_encrypted_zip_file(animals: Path, tmp_path: Path) -> None:
    zip_folder(animals, tmp_path / "animals.zip")
    data = (tmp_path / "animals.zip").read_bytes()
    first = data.index(b"PK\x01\x02")
    (tmp_path / "animals.zip").write_bytes(
        data[:first] + data[first:].replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01")
    )
    with pytest.raises(
        UserError, match=r"Cannot read .* of .*animals\.zip \(.*\); replace the archive by an intact copy"
    ):
        own("animals.zip", tmp_path)


def test_image_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"Found no {tmp_path}/nowhere; set dataset.root"):
        own("nowhere", tmp_path)


def test_image_folder_without_classes(tmp_path: Path) -> None:
    save(tmp_path / "set" / "1.png", 1)
    with pytest.raises(UserError, match=r"one folder of images per class in .*/set/, but there is none"):
        own("set", tmp_path)


def test_image_folder_with_an_empty_class(animals: Path, tmp_path: Path) -> None:
    (animals / "eel").mkdir()
    with pytest.raises(UserError, match=r"class folder eel in .* has no images"):
        own("animals", tmp_path)


def test_image_folder_with_a_class_of_one_image(animals: Path, tmp_path: Path) -> None:
    save(animals / "eel" / "1.png", 1)
    with pytest.raises(UserError, match=r"class eel in .* has too few images to use a share of 0\.5"):
        own("animals", tmp_path)


def test_image_folder_whose_halves_differ(animals: Path, tmp_path: Path) -> None:
    shutil.copytree(animals, tmp_path / "set" / "train")
    save(tmp_path / "set" / "test" / "cat" / "x.png", 1)
    with pytest.raises(UserError, match="must have the same class folders, but only one of them has: dog"):
        own("set", tmp_path)


def test_image_folder_with_train_but_no_test(animals: Path, tmp_path: Path) -> None:
    shutil.copytree(animals, tmp_path / "set" / "train")
    shutil.copytree(animals, tmp_path / "set" / "val")
    with pytest.raises(UserError, match=r"one folder of images per class in .*/set/test/, but there is none"):
        own("set", tmp_path)
