"""Processes of a sweep: they end with the one that began it, and folders of sweeps that were killed go."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from fcl_bench.cli.leader import LOCK, PREFIX, folder_of_a_sweep

FOLLOWER = """
import sys, time
from pathlib import Path
from fcl_bench.cli.leader import Leader
Leader(0, Path(sys.argv[1])).end_with_it()
print("ready", flush=True)
time.sleep(60)
"""
LEADER = """
import sys, time
from pathlib import Path
from fcl_bench.cli.leader import folder_of_a_sweep
Path(sys.argv[1]).mkdir()
with folder_of_a_sweep(Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


def start(program: str, folder: Path) -> "tuple[subprocess.Popen[str], str]":
    process = subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_a_process_ends_when_the_sweep_does(tmp_path: Path) -> None:
    with folder_of_a_sweep(tmp_path) as folder:
        follower, _ = start(FOLLOWER, folder)
        with pytest.raises(subprocess.TimeoutExpired):
            follower.wait(0.7)
    assert follower.wait(10) == 1
    assert not folder.exists()


def test_a_process_ends_when_the_sweep_is_killed_and_the_next_sweep_removes_its_folder(tmp_path: Path) -> None:
    leader, name = start(LEADER, tmp_path / "sweep")
    follower, _ = start(FOLLOWER, Path(name))
    leader.send_signal(signal.SIGKILL)
    assert follower.wait(10) == 1
    leader.wait()
    os.utime(name, (0, 0))
    with folder_of_a_sweep(tmp_path / "sweep") as folder:
        assert list(folder.parent.iterdir()) == [folder]


def test_folders_of_other_sweeps_that_live_or_begin_are_left_alone(tmp_path: Path) -> None:
    shared = tmp_path / ".submitit"
    alive, young, foreign = (shared / name for name in (f"{PREFIX}alive", f"{PREFIX}young", "sweep-of-others"))
    for folder in (alive, young, foreign):
        folder.mkdir(parents=True)
        (folder / LOCK).touch()
    for folder in (alive, foreign):
        os.utime(folder, (0, 0))
    with FileLock(alive / LOCK), folder_of_a_sweep(tmp_path):
        assert all(folder.exists() for folder in (alive, young, foreign))
