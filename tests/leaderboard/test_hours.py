"""Machine hours of records, added up by protocol."""

import shutil
from pathlib import Path

from conftest import command
from records import record, write

COUNTED = "(what clients and server spent on learning, added up, without evaluation, features and start-up)"


def told(folder: Path) -> list[str]:
    out = command("leaderboard", str(folder), "--hours").out
    return [line for line in out.splitlines() if line.startswith("machine time, ")]


def seconds(total: float, **more: float) -> dict[str, float]:
    return {"client": total, "server": 0.0, "total": total, **more}


def test_hours_are_those_of_learning_by_protocol(tmp_path: Path) -> None:
    one = write(tmp_path / "one", record(seed=1, protocol="v1", seconds=seconds(1800.0)))
    write(tmp_path / "two", record(seed=2, protocol="v1", seconds=seconds(900.0)))
    write(tmp_path / "other", record(seed=1, seconds=seconds(3600.0, whole_run=5400.0)))
    write(tmp_path / "silent", record(seed=2))
    shutil.copytree(one.parent, tmp_path / "copy")  # the same run
    assert told(tmp_path) == [
        f"machine time, no protocol: 1.00 hours in 1 of 2 records {COUNTED}; whole runs by the clock: 1.50 hours in "
        "1 of them.",
        f"machine time, v1: 0.75 hours in 2 of 2 records {COUNTED}; whole runs by the clock: in none of them.",
    ]


def test_two_runs_of_one_command_took_the_time_of_both(tmp_path: Path) -> None:
    for name, total in (("first", 1800.0), ("again", 3600.0)):
        write(tmp_path / name, record(protocol="v1", seconds=seconds(total)))
    (line,) = told(tmp_path)
    assert line.startswith("machine time, v1: 1.50 hours in 2 of 2 records")


def test_nothing_is_said_unless_it_is_asked(tmp_path: Path) -> None:
    write(tmp_path / "one", record(seconds=seconds(1800.0)))
    assert "machine time" not in command("leaderboard", str(tmp_path)).out
