"""One process per run: a second one is told at once, a dead one is no hindrance, and a refused one leaves nothing."""

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TINY, Command
from filelock import FileLock

from fcl_bench.config.compose import composed
from fcl_bench.errors import UserError
from fcl_bench.run.alone import LOCK, alone_in
from fcl_bench.run.folder import RunFolder

HOLDER = """
import sys, time
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def folder(output_dir: Path, cache_dir: Path) -> Path:
    """Of ``tiny("method=afcl")``."""
    return RunFolder(composed(*TINY, "method=afcl", f"output_dir={output_dir}", f"cache_dir={cache_dir}")).folder


def test_a_second_process_is_told_before_anything_is_imported_or_read(
    tiny: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(parents=True)
    monkeypatch.setattr("fcl_bench.cli.job.check", lambda config: pytest.fail("it went on"))
    with FileLock(folder / LOCK):
        refused = tiny("method=afcl")
    assert refused.code == 1
    assert refused.err == f"fcl_bench: Another process is at work on this run, in {folder}: wait for it.\n"
    assert os.listdir(folder) == [LOCK]


def test_the_lock_of_a_killed_process_is_free(tiny: Command, folder: Path) -> None:
    folder.mkdir(parents=True)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder / LOCK)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"ready\n"
    assert tiny("method=afcl").code == 1
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert tiny("method=afcl").result["status"] == "complete"


def test_the_same_process_may_hold_it_twice_and_others_not_until_the_end(folder: Path) -> None:
    with alone_in(folder):
        with alone_in(folder):
            pass
        with pytest.raises(TimeoutError), FileLock(folder / LOCK, timeout=0):
            pass
    assert not folder.exists()


def test_folders_go_again_if_nothing_was_written_and_only_those_that_are_new(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with alone_in(tmp_path / "old" / "new" / "run"):
        assert (tmp_path / "old" / "new" / "run" / LOCK).exists()
    assert os.listdir(tmp_path / "old") == []
    with alone_in(tmp_path / "old" / "new" / "run"):
        (tmp_path / "old" / "new" / "run" / "content").touch()
    assert sorted(os.listdir(tmp_path / "old" / "new" / "run")) == [LOCK, "content"]


def test_a_finished_run_is_shown_while_another_process_is_at_it_again(tiny: Command, folder: Path) -> None:
    assert tiny("method=afcl").code == 0
    with FileLock(folder / LOCK):
        assert tiny("method=afcl").out.startswith("This run was finished before")
        assert "Another process" in tiny("method=afcl", "resume=false").err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Callable[..., None]:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcl_bench.run.alone.FileLock.acquire", refuse)
    with pytest.raises(UserError, match=rf"Cannot write to .*: {re.escape(os.strerror(number))}; .*output_dir="):
        alone_in(tmp_path / "run").__enter__()
