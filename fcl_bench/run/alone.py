"""One process at a time in a run folder. The system frees the lock when its holder ends, in whatever way."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from filelock import FileLock, Timeout
from omegaconf import DictConfig

from fcl_bench.errors import UserError
from fcl_bench.files import refuse_what_is_no_file, writing_to
from fcl_bench.run.folder import RunFolder

LOCK = ".lock"


def alone_from_the_start(config: DictConfig) -> AbstractContextManager[None]:
    """The lock of a run before anything that takes long; of a finished one that is only shown, or a wrong one, none."""
    try:
        run = RunFolder(config)
        result = run.result() if config.resume is True else None
    except Exception:  # the check of the configuration, or the record, will say what is wrong
        return nullcontext()
    return nullcontext() if result and result["status"] == "complete" else alone_in(run.folder)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the lock, which this process may hold already. New folders that nothing was written to are removed again."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    refuse_what_is_no_file(folder / LOCK)
    lock = FileLock(folder / LOCK, is_singleton=True)
    with writing_to(folder, "output_dir"):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UserError(f"Another process is at work on this run, in {folder}: wait for it.") from None
    try:
        yield
    finally:
        lock.release()
        if new and not has_content(folder):
            _remove(new)


def has_content(folder: Path) -> bool:
    """Whether anything but the lock is in a folder."""
    return folder.exists() and any(path.name != LOCK for path in folder.iterdir())


def _remove(folders: list[Path]) -> None:
    """The innermost first; one that others use by now is not empty."""
    with suppress(OSError):
        (folders[0] / LOCK).unlink(missing_ok=True)
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
