"""Writing files so that a reader never meets half of one."""

import os
import tempfile
from collections.abc import Iterator
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


def remove_abandoned(path: Path) -> None:
    """Remove what writers of ``path`` have left that were killed. Only for a caller who knows that nobody writes it."""
    for temporary in abandoned(path):
        temporary.unlink(missing_ok=True)


def abandoned(path: Path) -> Iterator[Path]:
    """Files and folders that :mod:`tempfile` has named for what was to become ``path``."""
    yield from path.parent.glob(f".{escape(path.name)}.{'[a-z0-9_]' * 8}")


@contextmanager
def writing_to(folder: Path, setting: str) -> Iterator[None]:
    """Turn what the operating system says of a full or read-only folder into a sentence that names the setting."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"Cannot write to {folder.absolute()}: {error.strerror}; free it, or set {setting}= to another folder."
        ) from error
