"""A cache entry is used for what it was computed for, and for nothing else."""

import json
import logging
import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_features import CHUNK, NONE, N, cached_inputs, data_file, dataset, rows_of

from fcl_bench.backbone import BackboneSource
from fcl_bench.dataset import Dataset

Change = Callable[[Path], None]


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    """A data set whose training half is in ``tmp_path / "cache"``."""
    filled = dataset(tmp_path)
    cached_inputs(filled, "train", NONE, tmp_path / "cache")
    filled.train.reads()
    return filled


def described_as(**changes: object) -> Change:
    def change(entry: Path) -> None:
        meta = json.loads((entry / "meta.json").read_text())
        (entry / "meta.json").write_text(json.dumps(meta | changes))

    return change


def other_label(entry: Path) -> None:
    meta = json.loads((entry / "meta.json").read_text())
    meta["label"]["details"]["dataset"] = "another fingerprint"
    (entry / "meta.json").write_text(json.dumps(meta))


def replaced(name: str, make: Callable[[Path], object]) -> Change:
    def change(entry: Path) -> None:
        (entry / name).unlink()
        make(entry / name)

    return change


def no_folder(make: Callable[[Path], object]) -> Change:
    def change(entry: Path) -> None:
        shutil.rmtree(entry)
        make(entry)

    return change


CHANGES = {
    "dtype": described_as(dtype="int32"),
    "no dtype": described_as(dtype="object"),
    "rows": described_as(shape=[N + 1, 3]),
    "columns": described_as(shape=[N, 2]),
    "huge": described_as(shape=[N, 2**40]),
    "label": other_label,
    "no label": described_as(label=[]),
    "deep": lambda entry: (entry / "meta.json").write_text("[" * 100_000),
    "folder for data": replaced("data.bin", Path.mkdir),
    "pipe for data": replaced("data.bin", os.mkfifo),
    "pipe for checksums": replaced("checksums.bin", os.mkfifo),
    "pipe for description": replaced("meta.json", os.mkfifo),
    "file for entry": no_folder(Path.touch),
    "pipe for entry": no_folder(os.mkfifo),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_an_entry_that_is_not_what_was_asked_for_is_computed_again(
    data: Dataset, tmp_path: Path, change: Change
) -> None:
    change(data_file(tmp_path / "cache").parent)
    assert torch.equal(cached_inputs(data, "train", NONE, tmp_path / "cache"), data.train.values)
    assert set(data.train.reads()) == set(rows_of(0, 1, 2, 3))
    assert torch.equal(cached_inputs(data, "train", NONE, tmp_path / "cache"), data.train.values)
    assert data.train.reads() == []


def test_an_entry_of_something_else_is_named(data: Dataset, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    entry = data_file(tmp_path / "cache").parent
    other_label(entry)
    with caplog.at_level(logging.WARNING):
        cached_inputs(data, "train", NONE, tmp_path / "cache")
    assert f"{entry} is not what its place says, but " in caplog.text
    assert "another fingerprint" in caplog.text


@pytest.mark.parametrize(
    "names", [["data.bin"], ["data.bin", "checksums.bin"], ["data.bin", "checksums.bin", "meta.json"]]
)
def test_the_rows_of_another_entry_are_not_used(tmp_path: Path, names: list[str]) -> None:
    mine = dataset(tmp_path)
    other = replace(dataset(tmp_path, mine.train.values + 1), fingerprint="another fingerprint")
    cached_inputs(mine, "train", NONE, tmp_path / "cache")
    cached_inputs(other, "train", NONE, tmp_path / "others")
    for name in names:
        shutil.copy(data_file(tmp_path / "others").with_name(name), data_file(tmp_path / "cache").with_name(name))
    assert torch.equal(cached_inputs(mine, "train", NONE, tmp_path / "cache"), mine.train.values)


def test_parts_of_an_entry_cannot_change_places(data: Dataset, tmp_path: Path) -> None:
    entry = data_file(tmp_path / "cache").parent
    for name, kind, size in (("data.bin", np.float32, 3 * CHUNK), ("checksums.bin", np.uint64, 1)):
        values = np.fromfile(entry / name, kind)
        first = values[:size].copy()
        values[:size] = values[size : 2 * size]
        values[size : 2 * size] = first
        values.tofile(entry / name)
    assert torch.equal(cached_inputs(data, "train", NONE, tmp_path / "cache"), data.train.values)
    assert data.train.reads() == rows_of(0, 1)


def test_what_a_link_points_to_is_left_alone(data: Dataset, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    for name in ("data.bin", "checksums.bin", "meta.json"):
        replaced(name, lambda path: path.symlink_to(precious))(data_file(tmp_path / "cache").parent)
        assert torch.equal(cached_inputs(data, "train", NONE, tmp_path / "cache"), data.train.values)
    no_folder(lambda path: path.symlink_to(tmp_path))(data_file(tmp_path / "cache").parent)
    assert torch.equal(cached_inputs(data, "train", NONE, tmp_path / "cache"), data.train.values)
    assert precious.read_text() == "precious"


def made_old(entry: Path) -> None:
    """Checksums as earlier versions wrote them."""
    rows = (entry / "data.bin").read_bytes()
    size = CHUNK * 3 * 4
    sums = [2**32 + zlib.crc32(rows[start : start + size]) for start in range(0, len(rows), size)]
    np.array(sums, np.uint64).tofile(entry / "checksums.bin")


def test_an_entry_of_an_earlier_version_is_proven_by_a_row_of_each_part(data: Dataset, tmp_path: Path) -> None:
    made_old(data_file(tmp_path / "cache").parent)
    assert torch.equal(cached_inputs(data, "train", NONE, tmp_path / "cache"), data.train.values)
    assert data.train.reads() == [0, CHUNK, 2 * CHUNK, 3 * CHUNK]
    cached_inputs(data, "train", NONE, tmp_path / "cache")
    assert data.train.reads() == []


def test_an_entry_of_an_earlier_version_with_other_rows_is_computed_again(data: Dataset, tmp_path: Path) -> None:
    entry = data_file(tmp_path / "cache").parent
    rows = np.fromfile(entry / "data.bin", np.float32)
    (rows + 1).tofile(entry / "data.bin")
    made_old(entry)
    assert torch.equal(cached_inputs(data, "train", NONE, tmp_path / "cache"), data.train.values)


def test_images_in_place_of_features_are_not_used(tmp_path: Path) -> None:
    """The label of the one entry on the files of the other."""
    images = torch.randint(256, (20, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    data = dataset(tmp_path, images)
    held = BackboneSource("none", "none", 8, clients_hold="images")
    for backbone, place in ((NONE, "cache"), (held, "others")):
        cached_inputs(data, "train", backbone, tmp_path / place)
    before = cached_inputs(data, "train", NONE, tmp_path / "cache").clone()
    for name in ("data.bin", "checksums.bin"):
        shutil.copy(data_file(tmp_path / "others").with_name(name), data_file(tmp_path / "cache").with_name(name))
    described_as(shape=[20, 3, 8, 8], dtype="uint8")(data_file(tmp_path / "cache").parent)
    assert torch.equal(cached_inputs(data, "train", NONE, tmp_path / "cache"), before)
