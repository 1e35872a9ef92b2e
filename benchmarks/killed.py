"""Runs in processes of their own that end as by ``kill -9``: before a client call, or within a write."""

import io
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fcl_bench.__main__ import main
from fcl_bench.cli.console import View
from fcl_bench.transport.site import LocalSite

EVENTS = ((LocalSite, "answer"), (os, "fsync"), (os, "replace"))  # a run is killed when it is about to do one of these
TRACEBACK = 70  # exit code


@dataclass(frozen=True)
class Life:
    """What is known of a process that has ended."""

    code: int | None  # with which it has ended by itself; None if it was killed
    events: int
    place: tuple[int, int] | None  # task and states of it, where it has gone on from; None if it did not come so far
    states: int  # that it has handed out since


def live(words: Sequence[str], notes: Path, kill_at: int | None = None) -> Life:
    """Run ``python -m fcl_bench WORDS`` in a fork of this process, which is killed at the event of this number.

    ``notes`` is a file to which it adds a line for everything that happens.
    """
    notes.write_text("")
    child = os.fork()
    if child == 0:
        _live(words, Witness(notes, kill_at))
    _, status = os.waitpid(child, 0)
    lines = [line.split() for line in notes.read_text().splitlines()]
    kinds = [line[0] for line in lines]
    places = [(int(line[1]), int(line[2])) for line in lines if line[0] == "begin"]
    code = None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)
    return Life(code, kinds.count("event"), places[0] if places else None, kinds.count("state"))


def _live(words: Sequence[str], witness: "Witness") -> None:
    """In the fork, from which nothing may return."""
    code = TRACEBACK
    try:
        with witness.watching(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            code = main(words)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


class Witness:
    """Writes down what happens, and kills the process when it is time."""

    def __init__(self, notes: Path, kill_at: int | None):
        self.handle = os.open(notes, os.O_WRONLY | os.O_APPEND)
        self.kill_at = kill_at
        self.events = 0

    def note(self, line: str) -> None:
        """Write a line, which a kill does not undo."""
        os.write(self.handle, f"{line}\n".encode())

    def event(self, *_: Any) -> None:
        """One more; the last, if the time has come."""
        self.events += 1
        self.note("event")
        if self.events == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Be told of all events."""
        with ExitStack() as stack:
            for place, name in EVENTS:
                stack.enter_context(patch.object(place, name, preceded(getattr(place, name), self.event)))
            stack.enter_context(patch.object(View, "begin", preceded(View.begin, self._begin)))
            stack.enter_context(patch.object(View, "round_done", preceded(View.round_done, self._state)))
            yield

    def _begin(self, view: View, scenario: Any, method: Any, progress: Any) -> None:
        self.note(f"begin {progress.task} {progress.yielded}")

    def _state(self, view: View) -> None:
        self.note("state")


def preceded(function: Callable[..., Any], first: Callable[..., None]) -> Callable[..., Any]:
    """The function, but something else comes before it."""

    def both(*arguments: Any, **named: Any) -> Any:
        first(*arguments)
        return function(*arguments, **named)

    return both
