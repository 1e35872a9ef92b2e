"""A limit to the seconds of a client call, by an interval timer of the process."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from time import perf_counter
from types import FrameType
from typing import NoReturn


class OutOfTime(BaseException):
    """A client has used up its seconds. No function of a method catches this by accident: it is no ``Exception``."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise :class:`OutOfTime` once the block has lasted so long; None: never.

    A timer can interrupt the main thread only, where the system has one, and between two instructions of Python: what
    a library computes at a stretch ends first. In other threads the block is judged when it is over.
    """
    if seconds is None:
        yield
        return

    def end(signum: int, frame: FrameType | None) -> NoReturn:
        raise OutOfTime(f"it took longer than federation.timeout={seconds:g} seconds")

    start = perf_counter()
    if not hasattr(signal, "setitimer") or current_thread() is not main_thread():
        yield
    else:
        before = signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    if perf_counter() - start > seconds:
        end(0, None)
