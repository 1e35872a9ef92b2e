"""The limit to the seconds of a call, and that it leaves no trace."""

import signal
import time
from threading import Thread

import pytest

from fcl_bench.transport.time_limit import OutOfTime, time_limit


def wait(limit: float | None, seconds: float) -> None:
    with time_limit(limit):
        time.sleep(seconds)


def test_a_block_is_interrupted_when_its_time_is_over() -> None:
    start = time.monotonic()
    with pytest.raises(OutOfTime, match=r"^it took longer than federation\.timeout=0\.1 seconds$"):
        wait(0.1, 30)
    assert time.monotonic() - start < 10


def test_what_the_timer_was_for_before_is_there_again() -> None:
    own = signal.signal(signal.SIGALRM, lambda *_: None)
    before = signal.getsignal(signal.SIGALRM)
    try:
        wait(30, 0)
        with pytest.raises(OutOfTime):
            wait(0.05, 30)
        assert signal.getsignal(signal.SIGALRM) is before
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    finally:
        signal.signal(signal.SIGALRM, own)


def test_without_a_limit_nothing_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: pytest.fail("the handler was changed"))
    wait(None, 0)


def test_in_another_thread_a_block_is_judged_when_it_is_over() -> None:
    found: list[str] = []

    def work() -> None:
        for seconds in (0.0, 0.2):
            try:
                wait(0.1, seconds)
                found.append("in time")
            except OutOfTime:
                found.append("late")

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["in time", "late"]
