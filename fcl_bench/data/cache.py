"""Arrays on disk that are computed once, chunk by chunk; kills, damage and several processes at once do no harm.

An entry is a folder with ``data.bin`` (the rows, one after another), ``checksums.bin`` (one number per chunk of rows: 0
where it was never written, else 2**32 + its CRC-32, written after the chunk itself) and ``meta.json`` (what it is).
"""

import json
import logging
import math
import os
import shutil
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from fcl_bench.files import remove_leftovers, write_atomically, writing_to

CHUNK = 256  # rows that are stored and checked together; a kill costs two of these at most
WRITTEN = 1 << 32

Span = tuple[int, int]  # rows from the first up to, but without, the second
Compute = Callable[[Iterable[Span]], Generator[np.ndarray]]  # the rows of one span after the other
Progress = Callable[[int, int], None]  # (rows done, rows in all)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Label:
    """What an entry is, for people."""

    dataset: str
    half: str
    backbone: str
    details: dict[str, object]


@dataclass(frozen=True)
class Entry:
    """One array on disk."""

    folder: Path
    label: Label
    shape: tuple[int, ...]
    dtype: str

    @property
    def data(self) -> Path:
        """The file with the rows."""
        return self.folder / "data.bin"

    @property
    def checksums(self) -> np.ndarray:
        """One number per chunk; a file that lost its end lost the chunks there."""
        known = np.fromfile(self.folder / "checksums.bin", np.uint64)
        chunks = _chunks(self.shape[0])
        lost = max(0, chunks - len(known))
        return np.pad(known[:chunks], (0, lost))

    @property
    def size(self) -> int:
        """The bytes it takes."""
        return sum(file.stat().st_size for file in self.folder.iterdir())

    @property
    def complete(self) -> bool:
        """Whether every chunk was written; says nothing of damage since."""
        return bool(self.checksums.all())

    @property
    def age(self) -> float:
        """Seconds since the last write."""
        return time.time() - self.data.stat().st_mtime

    def bad_chunks(self) -> list[int]:
        """The chunks that were never written or are not as they were written."""
        row_bytes = math.prod(self.shape[1:]) * np.dtype(self.dtype).itemsize
        chunk_bytes = CHUNK * row_bytes
        bad = []
        with self.data.open("rb") as file:
            for chunk, checksum in enumerate(self.checksums):
                file.seek(chunk * chunk_bytes)
                if not checksum or int(checksum) != WRITTEN + zlib.crc32(file.read(chunk_bytes)):
                    bad.append(chunk)
        return bad

    def write(self, chunk: int, rows: np.ndarray) -> None:
        """Store one chunk, then its checksum."""
        if rows.shape[1:] != self.shape[1:] or rows.dtype != self.dtype:
            raise ValueError(f"Rows of {rows.dtype} {rows.shape[1:]} do not fit {self.dtype} {self.shape[1:]}.")
        rows = np.ascontiguousarray(rows)
        with self.data.open("r+b") as file:
            file.seek(chunk * CHUNK * rows[0].nbytes)
            file.write(rows.data)
            file.flush()
            os.fsync(file.fileno())
        checksum = np.array([WRITTEN + zlib.crc32(rows.data)], np.uint64)
        with (self.folder / "checksums.bin").open("r+b") as file:
            file.seek(chunk * checksum.nbytes)
            file.write(checksum.data)


def complete_entry(folder: Path, label: Label, rows: int, compute: Compute, progress: Progress) -> Entry:
    """The entry in ``folder``, after computing the chunks that are missing or damaged.

    The first look needs no lock, so a complete entry can be used from a read-only place.
    """
    entry = _read(folder)
    if entry is None or entry.bad_chunks():
        with _locked(folder):
            entry = _fill(folder, label, rows, compute, progress)
    return entry


def default_folder() -> Path:
    """The user's own cache folder."""
    return user_cache_path("fcl_bench")


def entries(cache_dir: Path) -> list[Entry]:
    """All entries below ``cache_dir``, in the order of their names."""
    folders = sorted(path for path in cache_dir.glob("*") if path.is_dir())
    return [entry for folder in folders if (entry := _read(folder))]


def clear(chosen: Iterable[Entry]) -> list[Entry]:
    """Remove entries and return those that are gone; one that is being filled stays."""
    removed = []
    for entry in chosen:
        with writing_to(entry.folder.parent, "cache_dir"):
            try:
                with FileLock(f"{entry.folder}.lock", timeout=0):
                    shutil.rmtree(entry.folder)
                removed.append(entry)
            except Timeout:
                log.warning("%s is being filled and was left.", entry.folder)
    return removed


def _fill(folder: Path, label: Label, rows: int, compute: Compute, progress: Progress) -> Entry:
    entry = _read(folder)
    chunks = _chunks(rows)
    todo = entry.bad_chunks() if entry else list(range(chunks))
    if entry and (damaged := np.count_nonzero(entry.checksums[todo])):
        log.warning("%s is damaged: %d of its %d parts are computed again.", entry.data, damaged, chunks)
    spans = [(chunk * CHUNK, min((chunk + 1) * CHUNK, rows)) for chunk in todo]
    done = rows - sum(stop - start for start, stop in spans)
    if todo:
        progress(done, rows)
    with closing(compute(spans)) as computed:
        for chunk, values in zip(todo, computed, strict=True):
            with writing_to(folder.parent, "cache_dir"):
                entry = entry or _create(folder, label, (rows, *values.shape[1:]), values.dtype.name)
                entry.write(chunk, values)
            done += len(values)
            progress(done, rows)
    assert entry is not None  # as there is at least one row
    return entry


def _chunks(rows: int) -> int:
    """How many chunks hold so many rows."""
    return math.ceil(rows / CHUNK)


def _read(folder: Path) -> Entry | None:
    """The entry in ``folder``; None where there is none, or where what describes it is damaged."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
        entry = Entry(folder, Label(**meta["label"]), tuple(meta["shape"]), meta["dtype"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return entry if entry.data.exists() and (folder / "checksums.bin").exists() else None


def _create(folder: Path, label: Label, shape: tuple[int, ...], dtype: str) -> Entry:
    """An entry without rows; ``meta.json`` comes last, as the entry exists from then on."""
    folder.mkdir(exist_ok=True)
    entry = Entry(folder, label, shape, dtype)
    for file in (entry.data, folder / "checksums.bin"):
        file.write_bytes(b"")
    remove_leftovers(folder, ["meta.json"])
    meta = {"label": asdict(label), "shape": shape, "dtype": dtype}
    write_atomically(folder / "meta.json", json.dumps(meta, indent=2).encode())
    return entry


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one process fills an entry; the others wait, and go on after it if it dies."""
    lock = FileLock(f"{folder}.lock")
    with writing_to(folder.parent, "cache_dir"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            log.warning("Waiting for another process, which is filling %s.", folder)
            lock.acquire()
    try:
        yield
    finally:
        lock.release()
