"""Arrays on disk that are computed once, chunk by chunk; kills, damage and several processes at once do no harm.

An entry is a folder with ``data.bin`` (the rows, one after another), ``checksums.bin`` (one number per chunk of rows: 0
where it was never written, else 2**32 + its CRC-32, written after the chunk itself) and ``meta.json`` (what it is).

An entry is used only for what it was computed for: its label must say what is asked for, and every CRC-32 begins with
that of the label and the number of the chunk, so that rows from elsewhere do not fit. Chunks of earlier versions, whose
CRC-32 begins with 0, are proven once, by computing a row of each again.
"""

import json
import logging
import math
import os
import shutil
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO

import numpy as np
from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from fcl_bench.files import remove_leftovers, write_atomically, writing_to

CHUNK = 256  # rows that are stored and checked together; a kill costs two of these at most
WRITTEN = 1 << 32
BLOCK = 1 << 24  # bytes that are read at a time
LARGEST_META = 1 << 20  # bytes
TOLERANCE = 1e-3  # of a row computed again, relative to its length: other processors round otherwise

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

    @property
    def request(self) -> dict[str, Any]:
        """The part of it that decides what the rows are, as JSON has it."""
        request: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        request["details"].pop("versions", None)
        return request


class Misfit(ValueError):
    """Rows of another kind than those of the entry."""


@dataclass(frozen=True)
class Entry:
    """One array on disk."""

    folder: Path
    label: Label
    shape: tuple[int, ...]
    dtype: str

    @cached_property
    def _start(self) -> int:
        return zlib.crc32(json.dumps(self.label.request, sort_keys=True).encode())

    def start(self, chunk: int) -> int:
        """What the CRC-32 of a chunk begins with."""
        return zlib.crc32(str(chunk).encode(), self._start)

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
        return sum(file.lstat().st_size for file in self.folder.iterdir())

    @property
    def complete(self) -> bool:
        """Whether every chunk was written; says nothing of damage since."""
        known = np.fromfile(self.folder / "checksums.bin", np.uint64)
        return len(known) >= _chunks(self.shape[0]) and bool(known.all())

    @property
    def age(self) -> float:
        """Seconds since the last write."""
        return time.time() - self.data.stat().st_mtime

    @property
    def _row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * np.dtype(self.dtype).itemsize

    def answers(self, label: Label, rows: int, dtype: str) -> bool:
        """Whether it is what is asked for."""
        return self.label.request == label.request and self.shape[0] == rows and self.dtype == dtype

    def bad_chunks(self) -> list[int]:
        """The chunks that were never written or are not as they were written for this entry."""
        return [chunk for chunk, found in self._compared(range(_chunks(self.shape[0])), self.start) if not found]

    def unproven(self, chunks: Iterable[int]) -> list[int]:
        """Those of some bad chunks that an earlier version may have written for this entry."""
        return [chunk for chunk, found in self._compared(chunks, lambda chunk: 0) if found]

    def _compared(self, chunks: Iterable[int], start: Callable[[int], int]) -> Iterator[tuple[int, bool]]:
        """Whether each chunk has the checksum that begins with ``start`` of it."""
        checksums = self.checksums
        with self.data.open("rb") as file:
            for chunk in chunks:
                yield chunk, int(checksums[chunk]) == self._checksum(file, chunk, start(chunk))

    def _checksum(self, file: BinaryIO, chunk: int, start: int) -> int | None:
        """None where the file ends before the chunk does."""
        first = chunk * CHUNK
        rows = min(CHUNK, self.shape[0] - first)
        left = rows * self._row_bytes
        if first * self._row_bytes + left > os.fstat(file.fileno()).st_size:
            return None
        crc = start
        file.seek(first * self._row_bytes)
        while left:
            block = file.read(min(left, BLOCK))
            if not block:  # it became shorter
                return None
            crc = zlib.crc32(block, crc)
            left -= len(block)
        return WRITTEN + crc

    def row(self, index: int) -> np.ndarray:
        """One row, which must be there."""
        with self.data.open("rb") as file:
            file.seek(index * self._row_bytes)
            return np.frombuffer(file.read(self._row_bytes), self.dtype).reshape(self.shape[1:])

    def write(self, chunk: int, rows: np.ndarray) -> None:
        """Store one chunk, then its checksum."""
        if rows.shape[1:] != self.shape[1:] or rows.dtype != self.dtype:
            raise Misfit(f"Rows of {rows.dtype} {rows.shape[1:]} do not fit {self.dtype} {self.shape[1:]}.")
        rows = np.ascontiguousarray(rows)
        with self.data.open("r+b") as file:
            file.seek(chunk * CHUNK * rows[0].nbytes)
            file.write(rows.data)
            file.flush()
            os.fsync(file.fileno())
        self._note(chunk, WRITTEN + zlib.crc32(rows.data, self.start(chunk)))

    def prove(self, chunks: Iterable[int]) -> None:
        """Note that chunks of an earlier version are those of this entry."""
        with self.data.open("rb") as file:
            for chunk in chunks:
                checksum = self._checksum(file, chunk, self.start(chunk))
                assert checksum is not None  # as it was found with another start
                self._note(chunk, checksum)

    def _note(self, chunk: int, checksum: int) -> None:
        number = np.array([checksum], np.uint64)
        with (self.folder / "checksums.bin").open("r+b") as file:
            file.seek(chunk * number.nbytes)
            file.write(number.data)


def complete_entry(folder: Path, label: Label, rows: int, dtype: str, compute: Compute, progress: Progress) -> Entry:
    """The entry in ``folder``, after computing the chunks that are missing, damaged or of something else.

    The first look needs no lock, so a complete entry can be used from a read-only place.
    """
    entry = _usable(folder, label, rows, dtype)
    if entry is None or _bad_after_proof(entry, compute):
        with _locked(folder):
            entry = _usable(folder, label, rows, dtype)
            try:
                entry = _fill(entry, folder, label, rows, compute, progress)
            except Misfit:
                log.warning("%s holds rows of another kind than its data set has: all are computed again.", folder)
                entry = _fill(None, folder, label, rows, compute, progress)
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


def _usable(folder: Path, label: Label, rows: int, dtype: str) -> Entry | None:
    """The entry in ``folder``, if it is what is asked for."""
    entry = _read(folder)
    if entry and not entry.answers(label, rows, dtype):
        log.warning("%s is not what its place says, but %s: it is computed again.", folder, entry.label.request)
        return None
    if entry is None and os.path.lexists(folder / "meta.json"):
        log.warning("%s is damaged: it is computed again.", folder)
    return entry


def _bad_after_proof(entry: Entry, compute: Compute) -> list[int]:
    """The chunks that must be computed; those of earlier versions are compared with rows that are computed again."""
    bad = entry.bad_chunks()
    unproven = entry.unproven(bad) if bad else []
    if not unproven:
        return bad
    spans = [(chunk * CHUNK, chunk * CHUNK + 1) for chunk in unproven]
    with closing(compute(spans)) as computed:
        agree = all(_agrees(entry, chunk, rows[0]) for chunk, rows in zip(unproven, computed, strict=True))
    if not agree:
        return bad
    with suppress(OSError):  # in a read-only place this is done again at each start
        entry.prove(unproven)
    return [chunk for chunk in bad if chunk not in unproven]


def _agrees(entry: Entry, chunk: int, expected: np.ndarray) -> bool:
    if expected.shape != entry.shape[1:] or expected.dtype != entry.dtype:
        return False
    found = entry.row(chunk * CHUNK).astype(np.float64)
    return bool(np.linalg.norm(found - expected) <= TOLERANCE * np.linalg.norm(expected.astype(np.float64)))


def _fill(entry: Entry | None, folder: Path, label: Label, rows: int, compute: Compute, progress: Progress) -> Entry:
    chunks = _chunks(rows)
    todo = _bad_after_proof(entry, compute) if entry else list(range(chunks))
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
    """The entry in ``folder``; None where there is none, or where it is not one that this module has written."""
    try:
        files = [folder / name for name in ("meta.json", "data.bin", "checksums.bin")]
        if not all(S_ISREG(file.lstat().st_mode) for file in files) or files[0].stat().st_size > LARGEST_META:
            return None
        meta = json.loads(files[0].read_text())
        label = Label(**meta["label"])
        shape = tuple(map(int, meta["shape"]))
        dtype = np.dtype(meta["dtype"])
        if len(shape) < 2 or min(shape) < 1 or dtype.kind not in "fiu" or not isinstance(label.details, dict):
            return None
        return Entry(folder, label, shape, dtype.name)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _create(folder: Path, label: Label, shape: tuple[int, ...], dtype: str) -> Entry:
    """An entry without rows, whatever is in its place; ``meta.json`` comes last, as the entry exists from then on."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)
    folder.mkdir()
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
