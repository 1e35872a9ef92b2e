"""What files look like from outside, to notice that they were changed without reading them."""

import hashlib
import json
import os
from collections.abc import Iterator
from typing import NamedTuple


class FileState(NamedTuple):
    """Of a file, or of all files below a folder."""

    digest: str  # of names, sizes and times of change
    changed: int  # the last change, in nanoseconds since 1970; 0 where there is no file


class FileStates(dict[str, FileState]):
    """The state of each path. A path is looked at once, when it is first asked for."""

    def __missing__(self, path: str) -> FileState:
        self[path] = state = _state_of(path)
        return state


def _state_of(path: str) -> FileState:
    files = sorted(_walk(path))
    digest = hashlib.sha256(json.dumps(files).encode()).hexdigest()
    changes = [max(modified, changed) for _, _, modified, changed in files]
    return FileState(digest, max(changes, default=0))


def _walk(path: str) -> Iterator[tuple[str, int, int, int]]:
    """Name, size, time of modification and time of change of each file."""
    if os.path.isdir(path):
        for entry in os.scandir(path):
            yield from _walk(entry.path)
    elif os.path.exists(path):
        stat = os.stat(path)
        yield path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
