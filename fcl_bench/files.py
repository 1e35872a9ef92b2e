"""Writing files so that a reader never meets half of one."""

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

from fcl_bench.errors import UserError


def write_atomically(path: Path, data: bytes) -> None:
    """Write a new file, then move it to ``path``: a reader meets the old content or the new, never a part."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """From here on the names in a folder are on the disk, whatever happens to the machine; not where none can do it."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def abandoned(path: Path) -> Iterator[Path]:
    """Files and folders that :mod:`tempfile` has named for what was to become ``path``."""
    yield from path.parent.glob(f".{escape(path.name)}.{'[a-z0-9_]' * 8}")


def remove_leftovers(folder: Path, names: Iterable[str]) -> None:
    """Remove what a kill within :func:`write_atomically` has left of these files; nobody may be writing them now."""
    for name in names:
        for path in filter(is_plain_file, abandoned(folder / name)):
            path.unlink()


def is_plain_file(path: Path) -> bool:
    """Whether it is a file, and no link, pipe, folder or device."""
    return path.is_symlink() is False and stat.S_ISREG(path.stat().st_mode)


def refuse_what_is_no_file(path: Path) -> None:
    """Raise a :class:`UserError` for a link, a pipe, a folder or a device in the place of a file."""
    if os.path.lexists(path) and not is_plain_file(path):
        raise UserError(f"Expected {path} to be a file, but it is a link, a folder or a device: move it away.")


def refuse_what_is_no_folder(path: Path) -> None:
    """Raise a :class:`UserError` for anything else in the place of a folder, links to folders included."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
        raise UserError(f"Expected {path} to be a folder, but it is a link or a file: move it away.")


@contextmanager
def writing_to(folder: Path, setting: str) -> Iterator[None]:
    """Turn what the operating system says of a full or read-only folder into a sentence that names the setting."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"Cannot write to {folder.absolute()}: {error.strerror}; free it, or set {setting}= to another folder."
        ) from error
