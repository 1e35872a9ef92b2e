"""Ctrl-C and SIGTERM: one sentence and the right exit code, whatever a command is doing and whatever code is around it.

The commands are real processes that get real signals, but import nothing large.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import pytest
from conftest import command

from fcl_bench.config.compose import composed
from fcl_bench.interruption import apart, interruptible

SENTENCE = "fcl_bench: Interrupted{}. Finished tasks are kept: the same command goes on from there.\n"
PROGRAM = """
import sys, time
from fcl_bench import interruption
from fcl_bench.__main__ import main
from fcl_bench.cli.verbs import VERBS
from fcl_bench.errors import UserError

def ready():
    print("ready", flush=True)

def verb(words):
{body}

VERBS["list"] = verb
sys.argv = ["fcl_bench", "list"]
sys.exit(main())
"""
SLEEP = "ready()\ntime.sleep(60)"
CAUGHT = "try:\n ready()\n time.sleep(60)\nexcept BaseException:\n "
IMPATIENT = "interruption.PATIENCE = 0.3\n"
WAYS = {
    "waits": SLEEP,
    "makes another error of it": f"{CAUGHT}raise UserError('no')",
    "is not foreseen": f"{CAUGHT}1 / 0",
    "ends as Lightning does": f"{CAUGHT}sys.exit(1)",
    "swallows it": f"{CAUGHT}pass",
    "imports": "import slow\nprint('went on')",
    "imports in a function of an import": "import slower\nprint('went on')",
    "destroys": "class Last:\n def __del__(self):\n  ready()\n  time.sleep(60)\nLast()\nprint('went on')",
    "goes on": f"{IMPATIENT}{CAUGHT}time.sleep(60)",
    "computes": f"{IMPATIENT}import hashlib\nready()\nhashlib.pbkdf2_hmac('md5', b'', b'', 10**8)",
}
MODULES = {
    "slow": f"import time\nfrom __main__ import ready\n{CAUGHT}pass",
    "slower": "import pydoc\npydoc.locate('slow.thing')",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def start(place: Path, body: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(body=textwrap.indent(body, "    "))],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # who runs the tests may ignore it
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(("number", "code", "by"), [(signal.SIGINT, 130, ""), (signal.SIGTERM, 143, " by SIGTERM")])
@pytest.mark.parametrize("way", WAYS)
def test_a_signal_ends_a_command_that(way: str, number: signal.Signals, code: int, by: str, place: Path) -> None:
    process = start(place, WAYS[way])
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (code, "", SENTENCE.format(by))


def test_a_second_signal_does_not_wait(place: Path) -> None:
    process = start(place, f"{CAUGHT}ready()\n time.sleep(60)")
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=5)
    assert (process.returncode, err) == (130, SENTENCE.format(""))


def test_last_words_are_said_however_a_command_ends(place: Path) -> None:
    for body in ("time.sleep(60)", "import slow"):
        saying = f"with interruption.with_last_words(lambda: print('1 of 2 done')):\n ready()\n {body}"
        process = start(place, saying)
        if "slow" in body:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=5)
        assert (out, err) == ("1 of 2 done\n", SENTENCE.format(""))


def test_a_signal_that_is_ignored_stays_so_and_all_is_as_before_in_the_end() -> None:
    kept = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        before = (signal.getsignal(signal.SIGINT), sys.unraisablehook)
        with interruptible(process=False):
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
            assert signal.getsignal(signal.SIGINT) != before[0]
        assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before
    finally:
        signal.signal(signal.SIGTERM, kept)


def test_an_import_that_is_interrupted_is_no_wrong_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stopped.py").write_text("raise KeyboardInterrupt")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        composed("method=afcl", "method._target_=stopped.Method")
    told = command("method=afcl", "method._target_=stopped.Method")
    assert (told.code, told.err) == (130, SENTENCE.format(""))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processes_that_are_started_apart_do_not_hear_ctrl_c() -> None:
    process: subprocess.Popen[bytes] = apart(lambda: subprocess.Popen(["sleep", "60"]))
    try:
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        assert process.poll() is None
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        process.kill()
        process.wait()


def test_what_goes_wrong_apart_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        apart(lambda: 1 / 0)
