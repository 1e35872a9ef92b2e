"""What files hold, as digests: computed once, and remembered for as long as the files look as they did.

It is done like in the index of git: a file counts as unchanged while its size, times and inode are the same. One that
was changed just before it was read is not remembered, as it may change again without a trace where clocks are coarse.
Notes lie in the cache folder, one for each place; a damaged one counts as none.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from fcl_bench.data.file_states import JUST_NOW
from fcl_bench.files import write_atomically

if TYPE_CHECKING:  # images need torch, but a finished run is shown without it
    from fcl_bench.data.images import Files

THREADS = 8  # files are waited for more than they are computed with where they are not in memory
BATCH = 64  # files that a thread takes at a time

Known = dict[str, str]  # what a file looked like, or what was computed from -> digest

_CACHE: ContextVar[Path | None] = ContextVar("cache", default=None)


@contextmanager
def remembered_in(cache_dir: Path) -> Iterator[None]:
    """Keep notes in a cache folder; elsewhere nothing is remembered."""
    token = _CACHE.set(cache_dir)
    try:
        yield
    finally:
        _CACHE.reset(token)


def digests_of(files: "Files", paths: Sequence[str]) -> list[str]:
    """The digest of the contents of each file; only files that look new are read.

    ``paths`` must be all files of that place that matter, as no others are remembered.
    """
    began = time.time_ns()
    place = str(files.root)
    known = _read(place)
    looks = [files.look(path) for path in paths]
    keys = [f"{path} {' '.join(map(str, look))}" for path, look in zip(paths, looks, strict=True)]
    unknown = [path for path, key in zip(paths, keys, strict=True) if key not in known]
    computed = dict(zip(unknown, _computed(files, unknown), strict=True))
    digests = [computed.get(path) or known[key] for path, key in zip(paths, keys, strict=True)]
    if computed:
        settled = [look.latest < began - JUST_NOW for look in looks]
        _write(place, {key: digest for key, digest, old in zip(keys, digests, settled, strict=True) if old})
    return digests


def remembered(name: str, compute: Callable[[], str]) -> str:
    """What ``compute`` gives; ``name`` must say all that it follows from."""
    known = _read(name)
    if name not in known:
        known = {name: compute()}
        _write(name, known)
    return known[name]


def clear(cache_dir: Path) -> None:
    """Remove all notes in a cache folder."""
    shutil.rmtree(cache_dir / "contents", ignore_errors=True)


def _computed(files: "Files", paths: Sequence[str]) -> list[str]:
    batches = [paths[start : start + BATCH] for start in range(0, len(paths), BATCH)]
    with ThreadPoolExecutor(THREADS) as pool:
        found = pool.map(lambda batch: [files.digest(path) for path in batch], batches)
        return [digest for batch in found for digest in batch]


def _read(place: str) -> Known:
    """The note of a place; nothing where there is none, or where it is not as it was written."""
    note = _note(place)
    if note is None or not note.is_file():
        return {}
    with suppress(OSError, ValueError, RecursionError):
        checksum, _, text = note.read_text().partition("\n")
        if checksum == _checksum(text):
            return json.loads(text)
    return {}


def _write(place: str, known: Known) -> None:
    note = _note(place)
    if note is None:
        return
    text = json.dumps(known)
    with suppress(OSError):  # a cache folder may be full or read-only
        note.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(note, f"{_checksum(text)}\n{text}".encode())


def _note(place: str) -> Path | None:
    folder = _CACHE.get()
    return folder and folder / "contents" / f"{_checksum(place)[:32]}.json"


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
