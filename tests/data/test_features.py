"""The feature cache: what it returns, how often it reads, and what it does after kills, damage and in company."""

import errno
import io
import json
import logging
import os
import signal
import sys
import threading
import time
import warnings
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock
from PIL import Image
from torch import Tensor

from fcl_bench.backbone import BackboneSource
from fcl_bench.backbone.weights import load_network
from fcl_bench.data import features
from fcl_bench.data.cache import CHUNK, clear, entries
from fcl_bench.dataset import Dataset
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.new_processes import quick_context

NONE = BackboneSource("none")
N = 3 * CHUNK + 10  # four chunks, the last one short
REAL = Path(os.environ.get("FCL_BENCH_DATA", "nowhere")) / "cifar100-png.zip"


@dataclass
class Half:
    """Samples in memory; each read is noted in a file, so that other processes count too."""

    values: Tensor
    notes: Path
    fatal: int | None = None  # reading this index ends the process without a farewell
    broken: set[int] = field(default_factory=set)  # reading these raises

    def __post_init__(self) -> None:
        self.labels = np.zeros(len(self.values), np.int64)

    def read(self, indices: np.ndarray) -> Tensor:
        if self.fatal in indices:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.broken & set(indices.tolist()):
            raise RuntimeError("broken")
        with self.notes.open("a") as file:
            file.writelines(f"{index}\n" for index in indices)
        return self.values[indices]

    def reads(self) -> list[int]:
        """The indices read since the last call, in order."""
        found = [int(line) for line in self.notes.read_text().split()] if self.notes.exists() else []
        self.notes.unlink(missing_ok=True)
        return sorted(found)


def dataset(folder: Path, values: Tensor | None = None, **options: object) -> Dataset:
    values = torch.arange(N * 3, dtype=torch.float32).view(N, 3) if values is None else values
    train, test = Half(values, folder / "train.txt", **options), Half(values[:5], folder / "test.txt")
    return Dataset("fake", ("only",), train, test, "fingerprint")


def cached_inputs(*arguments: Any) -> Tensor:
    """What the cache holds, as a tensor."""
    return features.cached_inputs(*arguments).tensor


def rows_of(*chunks: int) -> list[int]:
    return [row for chunk in chunks for row in range(chunk * CHUNK, min((chunk + 1) * CHUNK, N))]


def data_file(cache_dir: Path) -> Path:
    return next(cache_dir.glob("*/data.bin"))


def test_ready_made_features_come_back_unchanged_and_are_read_once(tmp_path: Path) -> None:
    data = dataset(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = cached_inputs(data, "train", NONE, tmp_path / "cache")
    assert torch.equal(first, data.train.values)
    assert data.train.reads() == list(range(N))
    first[0] = -1  # a private copy
    assert torch.equal(cached_inputs(data, "train", NONE, tmp_path / "cache"), data.train.values)
    assert data.train.reads() == []


def test_frozen_features_are_those_of_the_network_and_trainable_inputs_are_resized_images(tmp_path: Path) -> None:
    images = torch.randint(256, (70, 3, 20, 20), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    data = dataset(tmp_path, images)
    trainable = BackboneSource("test_efficientnet", "none", 32, interpolation="bicubic", trainable=True)
    held = cached_inputs(data, "train", trainable, tmp_path / "cache")
    pillow = [Image.fromarray(x.numpy()).resize((32, 32), Image.Resampling.BICUBIC) for x in images.permute(0, 2, 3, 1)]
    resized = torch.from_numpy(np.stack([np.asarray(x) for x in pillow])).permute(0, 3, 1, 2)
    assert held.dtype == torch.uint8
    assert (held.int() - resized.int()).abs().max() <= 1

    frozen = BackboneSource("test_efficientnet", "none", 32, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4), "bicubic")
    found = cached_inputs(data, "train", frozen, tmp_path / "cache")
    mean, std = (torch.tensor(x).view(3, 1, 1) for x in (frozen.mean, frozen.std))
    with torch.no_grad():
        expected = load_network("test_efficientnet", "none", 0).eval()((held / 255 - mean) / std)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)


def test_features_do_not_depend_on_the_number_of_cores(tmp_path: Path) -> None:
    images = torch.randint(256, (50, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    backbone, before, found = BackboneSource("test_efficientnet", "none", 32), torch.get_num_threads(), []
    try:
        for cores in (1, 3):
            torch.set_num_threads(cores)
            found.append(cached_inputs(dataset(tmp_path, images), "train", backbone, tmp_path / str(cores)))
            assert torch.get_num_threads() == cores
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


def test_raw_pixels(tmp_path: Path) -> None:
    images = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).repeat(1, 3, 2, 2)
    found = cached_inputs(dataset(tmp_path, images), "train", NONE, tmp_path / "cache")
    torch.testing.assert_close(found, torch.tensor([[-1.0] * 12, [1.0] * 12]), rtol=0, atol=2e-7)


def test_a_half_without_samples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no test samples in fake"):
        cached_inputs(dataset(tmp_path, torch.zeros(0, 3)), "test", NONE, tmp_path / "cache")


def test_halves_data_sets_and_transforms_have_entries_of_their_own(tmp_path: Path) -> None:
    data, cache = dataset(tmp_path), tmp_path / "cache"
    other = Dataset("fake", ("only",), data.train, data.test, "another fingerprint")
    cached_inputs(data, "train", NONE, cache)
    cached_inputs(data, "test", NONE, cache)
    cached_inputs(other, "test", NONE, cache)
    cached_inputs(data, "test", BackboneSource("none", mean=(0.0, 0.0, 0.0)), cache)
    assert data.test.reads() == sorted([0, 1, 2, 3, 4] * 3)
    found = entries(cache)
    assert [(entry.label.dataset, entry.label.half, entry.label.backbone) for entry in found] == [
        *[("fake", "test", "none")] * 3,
        ("fake", "train", "none"),
    ]
    assert all(entry.complete and 0 <= entry.age < 60 for entry in found)
    assert found[-1].size > N * 3 * 4
    assert json.loads((found[-1].folder / "meta.json").read_text())["label"]["details"]["dataset"] == "fingerprint"


def test_a_failed_fill_goes_on_where_it_stopped_and_progress_says_so(tmp_path: Path) -> None:
    data, cache, told = dataset(tmp_path, broken={2 * CHUNK + 1}), tmp_path / "cache", []
    with pytest.raises(RuntimeError, match="broken"):
        cached_inputs(data, "train", NONE, cache, lambda *done: told.append(done))
    assert told == [(0, N), (CHUNK, N), (2 * CHUNK, N)]
    assert not entries(cache)[0].complete
    data.train.broken.clear()
    data.train.reads()
    told.clear()
    assert torch.equal(cached_inputs(data, "train", NONE, cache, lambda *done: told.append(done)), data.train.values)
    assert data.train.reads() == rows_of(2, 3)
    assert told == [(2 * CHUNK, N), (3 * CHUNK, N), (N, N)]
    cached_inputs(data, "train", NONE, cache, lambda *done: told.append("again"))
    assert "again" not in told


def fill(folder: Path, fatal: int | None) -> None:
    """In another process."""
    cached_inputs(dataset(folder, fatal=fatal), "train", NONE, folder / "cache")


def test_a_killed_fill_goes_on_where_it_stopped(tmp_path: Path) -> None:
    process = quick_context().Process(target=fill, args=(tmp_path, 2 * CHUNK + 5))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    data = dataset(tmp_path)
    data.train.reads()
    assert torch.equal(cached_inputs(data, "train", NONE, tmp_path / "cache"), data.train.values)
    reads = data.train.reads()  # of the second part none, or all if it was computed but not yet written
    assert reads in (rows_of(2, 3), rows_of(1, 2, 3))


def test_two_processes_fill_an_entry_once(tmp_path: Path) -> None:
    context = quick_context()
    processes = [context.Process(target=fill, args=(tmp_path, None)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    data = dataset(tmp_path)
    assert data.train.reads() == list(range(N))
    assert torch.equal(cached_inputs(data, "train", NONE, tmp_path / "cache"), data.train.values)
    assert data.train.reads() == []


@pytest.mark.parametrize("fails", [False, True], ids=["that fills it all", "that fails halfway"])
def test_a_second_filler_waits_for_one(tmp_path: Path, caplog: pytest.LogCaptureFixture, fails: bool) -> None:
    class Slow(Half):
        def read(self, indices: np.ndarray) -> Tensor:
            if 2 * CHUNK in indices and not halfway.is_set():
                halfway.set()
                assert go_on.wait(30)
                if fails:
                    raise RuntimeError("the first filler fails")
            return super().read(indices)

    halfway, go_on = threading.Event(), threading.Event()
    plain = dataset(tmp_path)
    data = Dataset("fake", ("only",), Slow(plain.train.values, plain.train.notes), plain.test, "fingerprint")
    with ThreadPoolExecutor() as pool, caplog.at_level(logging.INFO):
        first = pool.submit(cached_inputs, data, "train", NONE, tmp_path / "cache")
        assert halfway.wait(30)
        second = pool.submit(cached_inputs, data, "train", NONE, tmp_path / "cache")
        while "Waiting for another process" not in caplog.text:
            assert not second.done()
            time.sleep(0.01)
        go_on.set()
        assert torch.equal(second.result(30), plain.train.values)
        assert (first.exception(30) is not None) == fails
    reads = Counter(plain.train.reads())
    assert set(reads) == set(range(N))
    assert {reads[row] for row in rows_of(0, 1)} == {1}
    assert {reads[row] for row in rows_of(3)} <= ({1, 2} if fails else {1})  # the first may have been at it already


@pytest.mark.parametrize(
    ("position", "damaged"),
    [(0, [0]), (CHUNK * 12, [1]), (N * 12 - 1, [3])],
    ids=["first byte", "second chunk", "last byte"],
)
def test_an_altered_byte_costs_one_chunk_and_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, position: int, damaged: list[int]
) -> None:
    data, cache = dataset(tmp_path), tmp_path / "cache"
    cached_inputs(data, "train", NONE, cache)
    data.train.reads()
    with data_file(cache).open("r+b") as file:
        file.seek(position)
        old = file.read(1)
        file.seek(position)
        file.write(bytes([old[0] ^ 1]))
    with caplog.at_level(logging.WARNING):
        assert torch.equal(cached_inputs(data, "train", NONE, cache), data.train.values)
    assert data.train.reads() == rows_of(*damaged)
    assert f"{data_file(cache)} is damaged: 1 of its 4 parts are computed again" in caplog.text


@pytest.mark.parametrize(("kept", "lost"), [(0, [0, 1, 2, 3]), (CHUNK * 12 + 5, [1, 2, 3]), (N * 12 - 1, [3])])
def test_a_truncated_file_costs_what_it_lost(tmp_path: Path, kept: int, lost: list[int]) -> None:
    data, cache = dataset(tmp_path), tmp_path / "cache"
    cached_inputs(data, "train", NONE, cache)
    data.train.reads()
    os.truncate(data_file(cache), kept)
    assert torch.equal(cached_inputs(data, "train", NONE, cache), data.train.values)
    assert data.train.reads() == rows_of(*lost)


@pytest.mark.parametrize(
    ("name", "content", "lost"),
    [
        ("checksums.bin", lambda old: old[:12], [1, 2, 3]),
        ("checksums.bin", lambda old: b"", [0, 1, 2, 3]),
        ("meta.json", lambda old: old[:-9], [0, 1, 2, 3]),
        ("meta.json", lambda old: b"[]", [0, 1, 2, 3]),
    ],
)
def test_damage_beside_the_data_is_repaired_too(tmp_path: Path, name: str, content: object, lost: list[int]) -> None:
    data, cache = dataset(tmp_path), tmp_path / "cache"
    cached_inputs(data, "train", NONE, cache)
    data.train.reads()
    file = data_file(cache).with_name(name)
    file.write_bytes(content(file.read_bytes()))
    assert torch.equal(cached_inputs(data, "train", NONE, cache), data.train.values)
    assert data.train.reads() == rows_of(*lost)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_features_that_are_not_finite_are_named_and_not_stored(tmp_path: Path, value: float) -> None:
    values = torch.zeros(N, 3)
    values[CHUNK + 9, 1] = value
    data, cache = dataset(tmp_path, values), tmp_path / "cache"
    with pytest.raises(UserError, match=f"train sample {CHUNK + 9} of fake are not finite"):
        cached_inputs(data, "train", NONE, cache)
    assert entries(cache)[0].checksums.astype(bool).tolist() == [True, False, False, False]


def test_ready_made_features_do_not_go_through_a_network(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fake has ready-made features, not images: use backbone=none"):
        cached_inputs(dataset(tmp_path), "train", BackboneSource("test_efficientnet", "none"), tmp_path / "cache")
    with pytest.raises(ConfigError, match=r"features, not images: set backbone\.clients_hold=features"):
        cached_inputs(dataset(tmp_path), "train", BackboneSource("none", clients_hold="images"), tmp_path / "cache")


def test_images_are_held_as_they_are_where_clients_hold_images(tmp_path: Path) -> None:
    images = torch.randint(256, (20, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    for name in ("none", "test_efficientnet"):
        backbone = BackboneSource(name, "none", 8, clients_hold="images")
        held = cached_inputs(dataset(tmp_path, images), "train", backbone, tmp_path / "cache")
        assert held.dtype == torch.uint8
        assert torch.equal(held, images)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file/cache.*cache_dir="):
        cached_inputs(dataset(tmp_path), "train", NONE, tmp_path / "file" / "cache")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"No space left on device.*cache_dir="):
        cached_inputs(dataset(tmp_path), "train", NONE, tmp_path / "cache")


def test_a_complete_entry_needs_no_writable_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, cache = dataset(tmp_path), tmp_path / "cache"
    cached_inputs(data, "train", NONE, cache)

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("fcl_bench.data.cache.FileLock", read_only)
    assert torch.equal(cached_inputs(data, "train", NONE, cache), data.train.values)


def test_what_a_killed_process_has_left_is_removed(tmp_path: Path) -> None:
    data, cache = dataset(tmp_path), tmp_path / "cache"
    cached_inputs(data, "train", NONE, cache)
    (entry,) = entries(cache)
    (entry.folder / "meta.json").rename(entry.folder / ".meta.json.abcd_123")  # killed just before it had its name
    cached_inputs(data, "train", NONE, cache)
    assert {path.name for path in entry.folder.iterdir()} == {"data.bin", "checksums.bin", "meta.json"}


def test_clear_removes_what_is_chosen_and_leaves_what_is_being_filled(tmp_path: Path) -> None:
    data, cache = dataset(tmp_path), tmp_path / "cache"
    cached_inputs(data, "train", NONE, cache)
    cached_inputs(data, "test", NONE, cache)
    (cache / "notes").mkdir()
    test, train = entries(cache)
    with FileLock(f"{test.folder}.lock"):
        assert clear([test, train]) == [train]
    assert entries(cache) == [test]
    assert clear(entries(cache)) == [test]
    assert entries(cache) == entries(tmp_path / "nowhere") == []
    assert (cache / "notes").is_dir()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_data(tmp_path: Path) -> None:
    def anonymous(*_: object) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        sizes.append(int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) // 1024)
        return sizes[-1]

    class Made:
        labels = np.zeros(40_000, np.int64)

        def read(self, indices: np.ndarray) -> Tensor:
            return torch.from_numpy(np.full((len(indices), 1024), 2, np.float32))

    sizes: list[int] = []
    data = Dataset("made", ("only",), Made(), Made(), "made")
    found = cached_inputs(data, "train", NONE, tmp_path, anonymous)
    assert found.sum() == 2.0 * found.numel()
    assert max(sizes) - sizes[0] < 30  # MB, of 156
    assert anonymous() - sizes[0] < 30


@pytest.mark.skipif(not REAL.exists(), reason="no cifar100-png.zip in FCL_BENCH_DATA")
def test_real_images_give_the_features_of_pillow_and_timm(tmp_path: Path) -> None:
    import timm  # here, as the processes started above import this file and need no timm

    with zipfile.ZipFile(REAL) as archive:
        names = [name for name in archive.namelist() if name.endswith(".png")][::3000]
        pictures = [Image.open(io.BytesIO(archive.read(name))).convert("RGB") for name in names]
    pixels = torch.from_numpy(np.stack([np.asarray(picture) for picture in pictures])).permute(0, 3, 1, 2)
    backbone = BackboneSource("efficientnet_lite0", "bundled", 128)
    found = cached_inputs(dataset(tmp_path, pixels), "train", backbone, tmp_path / "cache")

    resized = [np.asarray(picture.resize((128, 128), Image.Resampling.BICUBIC)) for picture in pictures]
    network = timm.create_model("tf_efficientnet_lite0", num_classes=0)
    network.load_state_dict(load_network("efficientnet_lite0", "bundled", 0).state_dict())
    with torch.no_grad():
        expected = network.eval()((torch.from_numpy(np.stack(resized)).permute(0, 3, 1, 2) / 255 - 0.5) / 0.5)
    assert (found - expected).norm() / expected.norm() < 0.01
