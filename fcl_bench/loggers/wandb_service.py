"""Weights & Biases, whether it can be reached or not: a run begins online or offline, and nothing waits for ever."""

import os
import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, Literal

Mode = Literal["online", "offline", "disabled"]


def start_run(mode: Mode | None, start: Callable[[Mode], Any], warn: Callable[[str], None]) -> Any:
    """The W&B run that ``start`` makes; None if logging is disabled.

    No mode is what WANDB_MODE says, else online if wandb knows an API key, else offline. A service that cannot be used
    is a warning, and the run an offline one.
    """
    import wandb

    chosen = mode or _usual_mode(wandb.setup(wandb.Settings(silent=True, console="off")).settings.mode)
    if chosen == "disabled":
        return None
    if chosen == "offline":
        return start("offline")
    try:
        if wandb.login(prompt=False, verify=False):
            return start("online")
        if mode == "online":
            raise RuntimeError("there is no API key, which `wandb login` would ask for")
    except Exception as error:
        wandb.teardown()  # the run it has begun would be in the way
        warn(f"goes offline, as the service cannot be used: {str(error).splitlines()[0]}")
    return start("offline")


def wandb_settings(timeout: float) -> Any:
    """Settings of a run: silent, and waiting no longer than this at its beginning and end."""
    import wandb

    return wandb.Settings(
        silent=True, console="off", init_timeout=timeout, finish_timeout=timeout, finish_timeout_raises=True
    )


def location(run: Any, folder: str) -> str:
    """A sentence that says where a W&B run is; ``folder`` holds its files."""
    if run.offline:
        return f"W&B run, offline; to upload it: wandb sync {shlex.quote(folder)}"
    return f"W&B run: {run.url}"


def call_with_timeout(seconds: float, function: Callable[..., Any], *arguments: Any) -> None:
    """Call something that might never return, and wait no longer than this for it.

    >>> call_with_timeout(1.0, print, "done")
    done
    >>> from threading import Event
    >>> call_with_timeout(0.1, Event().wait)
    Traceback (most recent call last):
    TimeoutError: not done within 0.1 s
    """
    done: Future[Any] = Future()

    def work() -> None:
        try:
            done.set_result(function(*arguments))
        except BaseException as error:
            done.set_exception(error)

    Thread(target=work, daemon=True).start()
    if not wait([done], seconds).done:
        raise TimeoutError(f"not done within {seconds:g} s")
    done.result()


@contextmanager
def data_dir(folder: Path) -> Iterator[None]:
    """Where wandb keeps the files of artifacts until they are uploaded, unless the user has chosen a folder."""
    chosen = os.environ.get("WANDB_DATA_DIR")
    os.environ["WANDB_DATA_DIR"] = chosen or str(folder)
    try:
        yield
    finally:
        if chosen is None:
            del os.environ["WANDB_DATA_DIR"]


def _usual_mode(configured: str) -> Mode:
    """What wandb itself was configured for, by WANDB_MODE or its own files."""
    if configured == "disabled":
        return "disabled"
    return "offline" if configured in ("offline", "dryrun") else "online"
