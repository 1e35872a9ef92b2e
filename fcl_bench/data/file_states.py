"""What files look like from outside, to notice that they were changed without reading them."""

import hashlib
import json
import os
from collections.abc import Iterator
from stat import S_ISDIR
from typing import NamedTuple

JUST_NOW = 2 * 10**9  # nanoseconds: file systems with coarse clocks do not tell changes apart that are closer


class Look(NamedTuple):
    """What the operating system says of one file; times in nanoseconds since 1970."""

    size: int
    modified: int
    changed: int  # contents, name, owner or rights; no program can set it
    inode: int

    @classmethod
    def of(cls, stat: os.stat_result) -> "Look":
        """The part of ``stat`` that tells contents apart."""
        return cls(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)

    @property
    def latest(self) -> int:
        """The last change of any kind."""
        return max(self.modified, self.changed)


class FileState(NamedTuple):
    """Of a file, or of all files below a folder."""

    digest: str  # of names and looks
    changed: int  # the last change, in nanoseconds since 1970; 0 where there is no file


class FileStates(dict[str, FileState]):
    """The state of each path. A path is looked at once, when it is first asked for."""

    def __missing__(self, path: str) -> FileState:
        self[path] = state = _state_of(path)
        return state


def below(folder: str, above: tuple[tuple[int, int], ...] = ()) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    """Everything in a folder and the folders in it; links are followed, but not to a folder that they are in."""
    stat = os.stat(folder)
    here = (stat.st_dev, stat.st_ino)
    if here in above:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            found = _stat(entry)
            yield entry, found
            if S_ISDIR(found.st_mode):
                yield from below(entry.path, (*above, here))


def _stat(entry: os.DirEntry[str]) -> os.stat_result:
    try:
        return entry.stat()
    except OSError:  # a link to nothing, or to itself
        return entry.stat(follow_symlinks=False)


def _state_of(path: str) -> FileState:
    files = sorted(_walk(path))
    digest = hashlib.sha256(json.dumps(files).encode()).hexdigest()
    changes = [look.latest for _, look in files]
    return FileState(digest, max(changes, default=0))


def _walk(path: str) -> Iterator[tuple[str, Look]]:
    """Name and look of each file."""
    if os.path.isdir(path):
        for entry, stat in below(path):
            if not S_ISDIR(stat.st_mode):
                yield entry.path, Look.of(stat)
    elif os.path.exists(path):
        yield path, Look.of(os.stat(path))
