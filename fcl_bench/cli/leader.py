"""Processes of a sweep end with the one that began it, even if that is killed: they wait for a lock it holds.

The lock is in the folder in which they leave their reports; the system frees it when its holder ends in any way.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Thread

from filelock import FileLock, Timeout

PREFIX = "fcl-bench-sweep-"
LOCK = "alive.lock"
PAUSE = 0.5  # seconds between attempts to get the lock
YOUNG = 60.0  # seconds in which a folder may not have its lock yet


@dataclass(frozen=True)
class Leader:
    """The process that began a sweep."""

    process: int
    folder: Path

    def end_with_it(self) -> None:
        """From now on this process, if it is another one, ends when the sweep does."""
        if os.getpid() != self.process:
            _wait_for(self.folder)


@contextmanager
def folder_of_a_sweep(shared: Path | None) -> Iterator[Path]:
    """A new folder for reports, in one that other machines share if there is one; it is removed at the end."""
    parent = shared / ".submitit" if shared else Path(tempfile.gettempdir())
    parent.mkdir(exist_ok=True)
    _remove_abandoned(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)).absolute()
    try:
        with FileLock(folder / LOCK):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def workers_of_joblib() -> Iterator[None]:
    """They are started in the block, and end with it instead of five minutes later."""
    from joblib.externals.loky import get_reusable_executor

    _start_trackers()
    yield
    get_reusable_executor(reuse=True).shutdown(wait=True)


def _start_trackers() -> None:
    """Joblib's and Python's trackers of resources: here, as they would unblock Ctrl-C where workers are started apart.

    Of what a sweep that was ended has left, they would speak in warnings and tracebacks: their stderr leads nowhere.
    """
    from multiprocessing import resource_tracker as tracker_of_python

    from joblib.externals.loky.backend import resource_tracker

    stderr = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        resource_tracker.ensure_running()
        if os.name == "posix":
            tracker_of_python.ensure_running()
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


@cache
def _wait_for(folder: Path) -> None:
    Thread(target=_end_after, args=(folder,), daemon=True).start()


def _end_after(folder: Path) -> None:
    with suppress(OSError):  # the folder is gone
        FileLock(folder / LOCK).acquire(poll_interval=PAUSE)
    os._exit(1)


def _remove_abandoned(parent: Path) -> None:
    """The folders of sweeps that were killed: nobody holds their locks."""
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError, Timeout):
            if time.time() - lock.parent.stat().st_mtime > YOUNG:
                with FileLock(lock, timeout=0):
                    shutil.rmtree(lock.parent)
