"""Ctrl-C and SIGTERM: a command that gets one ends soon, with one sentence, whatever it is doing.

Usually the signal becomes an exception, so that processes, folders and the terminal are left tidy. Where other code
would swallow the exception or make another one of it, as imports do, the process ends at once. No result is lost by
that: files appear whole or not at all.
"""

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Thread, current_thread, main_thread
from time import sleep
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 10.0  # seconds to leave everything tidy in
IMPORTS = "<frozen importlib._bootstrap>"  # the file of functions that import
SHOW_CURSOR = "\x1b[?25h"  # which is hidden while progress is drawn


class Interrupted(KeyboardInterrupt):
    """A signal has come."""


class Interruption:
    """The signal that has come to this command, if any; ``process`` says that the command is all that this one does."""

    def __init__(self, process: bool) -> None:
        self.process = process
        self.signal: signal.Signals | None = None
        self.told = False
        self.over = False  # the command has ended, but not the process
        self.last_words: list[Callable[[], None]] = []

    @property
    def sentence(self) -> str:
        """What a person is told."""
        by = " by SIGTERM" if self.signal == signal.SIGTERM else ""
        return f"Interrupted{by}. Finished tasks are kept: the same command goes on from there."

    @property
    def exit_code(self) -> int:
        """As shells have it: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + (self.signal or signal.SIGINT)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Called by Python, in the main thread, between two steps of whatever it was doing there."""
        again = self.signal is not None
        self.signal = self.signal or signal.Signals(number)
        self.be_silent()
        if self.process and (again or self.over or _is_importing(frame)):
            for say in self.last_words:
                say()
            with suppress(Exception):  # it may have been writing
                sys.stdout.flush()
            self.end_at_once()
        raise Interrupted

    def be_silent(self) -> None:
        """From now on libraries do not warn, as of processes that have ended."""
        if self.process:
            warnings.simplefilter("ignore")

    def end_at_once(self) -> None:
        """End the process, and leave nothing tidy but the terminal."""
        cursor = SHOW_CURSOR if os.isatty(1) else ""
        if not self.told:
            with suppress(OSError):
                os.write(2, f"{cursor}fcl_bench: {self.sentence}\n".encode())
        os._exit(self.exit_code)

    def end_in_time(self, signals: int) -> None:
        """Wait for a signal in a pipe; what comes after it may last for ever, within other code."""
        while received := os.read(signals, 1):
            if received[0] in SIGNALS:
                sleep(PATIENCE)
                self.signal = self.signal or signal.Signals(received[0])
                self.end_at_once()


_present: Interruption | None = None


def interrupted() -> bool:
    """Whether a signal has come: what goes wrong from then on is a consequence of it."""
    return _present is not None and _present.signal is not None


@contextmanager
def interruptible(process: bool) -> Iterator[Interruption]:
    """Listen to signals, until the end of the process if it has nothing else to do, or else of the block.

    A signal that is ignored, as below ``nohup``, stays ignored.
    """
    global _present
    interruption = Interruption(process)
    if current_thread() is not main_thread():  # which has no signals
        yield interruption
        return
    outer, _present = _present, interruption
    heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    handlers = {number: signal.signal(number, interruption.handle) for number in heard}
    if process:
        _guard(interruption)
    try:
        yield interruption
    finally:
        interruption.over = True
        if not process:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            _present = outer


@contextmanager
def with_last_words(say: Callable[[], None]) -> Iterator[None]:
    """Have something said if the block is interrupted, before the sentence that ends the command."""
    words = _present.last_words if _present else []
    words.append(say)
    try:
        yield
    except BaseException as error:
        if interrupted() or isinstance(error, KeyboardInterrupt):
            say()
        raise
    finally:
        words.remove(say)


def apart(function: Callable[[], Any]) -> Any:
    """Call a function in a thread that Ctrl-C does not reach; nor does it reach the processes that it starts.

    A terminal sends it to them too, and they would answer with tracebacks. Here it interrupts the waiting.
    """
    done: Future[Any] = Future()

    def work() -> None:
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            done.set_result(function())
        except BaseException as error:
            done.set_exception(error)

    Thread(target=work, daemon=True).start()
    return done.result()


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORTS:
            return True
        frame = frame.f_back
    return False


def _guard(interruption: Interruption) -> None:
    """End the process also where the exception is lost, or where none can be raised."""
    hook = sys.unraisablehook

    def unraisable(lost: Any) -> None:  # in a place that cannot pass exceptions on, such as a destructor
        if issubclass(lost.exc_type, Interrupted):
            interruption.end_at_once()
        hook(lost)

    sys.unraisablehook = unraisable
    if os.name == "posix":  # a thread hears of signals even while the main thread is in a long computation
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        Thread(target=interruption.end_in_time, args=(reader,), daemon=True).start()
