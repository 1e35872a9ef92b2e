"""What a person sees: plain lines in a file or pipe, progress on a terminal."""

import io
import math
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, Command, command
from rich.console import Console
from rich.progress import Progress

from fcl_bench.cli import console, header
from fcl_bench.config.compose import composed
from fcl_bench.run.experiment import run

QUICK = ("method=finetune", "method.rounds=3", "method.epochs=1")


def test_a_file_or_pipe_gets_plain_unbroken_lines(tiny: Command) -> None:
    done = tiny("method=afcl")
    assert "\x1b" not in done.out
    assert "\r" not in done.out
    assert "eta" not in done.out
    first, table = done.out.split("\n\n")
    lines = first.splitlines()
    assert [line[:9].strip() for line in lines[:6]] == ["method", "data set", "backbone", "stream", "cost", "threads"]
    assert lines[1] == "data set  gaussian, 6 classes, 240 + 60 samples"
    assert len(lines[3]) > 100  # longer than a terminal of 80 columns, and in one piece
    assert re.fullmatch(r"stream    si_blurry \(tasks 3, .*, seed 1\), hash [0-9a-f]{8}", lines[3])
    assert lines[4] == "cost      3 tasks x 3 clients, rounds per task 1, 240 sample visits"
    number = r" *\d+\.\d\d"  # in percent
    for task, line in enumerate(lines[6:], start=1):
        accuracies = f"average {number}  seen {number}  whole {number}"
        assert re.fullmatch(rf"task  {task} of 3    \d classes \(\+\d\)  {accuracies}  \d+\.\d s", line)
        assert len(line) < 80
    assert len(lines) == 6 + 3
    assert f"average accuracy A_T (%)           │ {done.result['metrics']['average_accuracy']:>11.2f}" in table
    assert table.splitlines()[-1] == f"record: {done.folder}"


@pytest.mark.parametrize(
    ("threads", "load", "busy"),
    [(2, 0.1, False), (2, 1.0, True), (2, 5.0, True), (1, 5.0, False), (4, 0.0, True)],
)
def test_the_header_says_what_to_set_where_other_programs_keep_the_cores_busy(
    monkeypatch: pytest.MonkeyPatch, threads: int, load: float, busy: bool
) -> None:
    """On two cores; this process has just begun."""
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    monkeypatch.setattr("time.process_time", lambda: 0.0)
    hint = ", but other programs keep the cores busy: OMP_NUM_THREADS=1 may be much faster"
    assert header._threads() == (f"{threads}{hint}" if busy else str(threads))


@pytest.mark.parametrize(
    ("lifetime", "used", "load", "others"),
    [
        (600.0, 1200.0, 2.0, 0.0),  # both cores for ten minutes: all of the load is our own
        (600.0, 600.0, 3.0, 2.0),
        (60.0, 60.0, 1.0, math.exp(-1)),  # after a minute the average has taken in 63 % of what we do
    ],
)
def test_the_load_of_other_programs_is_what_this_process_does_not_explain(
    monkeypatch: pytest.MonkeyPatch, lifetime: float, used: float, load: float, others: float
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: header._STARTED + lifetime)
    monkeypatch.setattr("time.process_time", lambda: used)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    assert header._load_of_others() == pytest.approx(others, abs=1e-3)


def test_a_metric_that_is_undefined_is_said_to_be(tiny: Command) -> None:
    assert re.search(r"knowledge retention F_T +│ +n/a", tiny("method=afcl", "stream.tasks=1").out)


def test_long_tasks_give_a_sign_of_life_in_plain_lines(
    tiny: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "HEARTBEAT", 0.0)
    lines = tiny(*QUICK, f"cache_dir={tmp_path}/cache").out.splitlines()
    assert "train inputs, 240 of 240" in lines
    assert "task 1 of 3, round 1 of 3, train: 1 of 3 clients" in lines
    assert "task 3 of 3, round 3 of 3, train: 3 of 3 clients" in lines


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is drawn on a terminal 100 columns wide; every change is drawn at once."""
    update = Progress.update
    monkeypatch.setattr(Progress, "update", lambda *args, **kwargs: update(*args, **kwargs, refresh=True))
    return io.StringIO()


def shown(screen: io.StringIO, *words: str) -> list[str]:
    view = console.View(Console(file=screen, force_terminal=True, width=100, highlight=False))
    run(composed(*TINY, *words), view)
    return re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()))


def test_a_terminal_shows_task_round_and_clients_with_the_time_left(screen: io.StringIO, tmp_path: Path) -> None:
    folders = (f"output_dir={tmp_path}/runs", f"cache_dir={tmp_path}/cache")
    lines = shown(screen, *QUICK, *folders)
    bar = r" [━╸╺]+ eta (0:\d\d:\d\d|-:--:--) *"
    assert any(re.fullmatch("train inputs, 0 of 240" + bar, line) for line in lines)
    for text in (
        "task 1 of 3, round 1 of 3, train: 1 of 3 clients",
        "task 3 of 3, round 3 of 3, train: 3 of 3 clients",
    ):
        assert any(re.fullmatch(text + bar, line) for line in lines)
    assert any(re.search(r"task 2 of 3, round 2 of 3.* eta 0:\d\d:\d\d", line) for line in lines)
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith("task  ") for line in lines) == 3  # the lines of finished tasks are not drawn over


def test_a_terminal_shows_no_bar_for_inputs_that_are_there_already(
    screen: io.StringIO, tmp_path: Path, tiny: Command, cache_dir: Path
) -> None:
    assert tiny("method=afcl").code == 0
    lines = shown(screen, *QUICK, f"output_dir={tmp_path}/other", f"cache_dir={cache_dir}")
    assert not any("inputs, " in line for line in lines)


def test_brackets_in_names_are_not_markup(tiny: Command, tmp_path: Path) -> None:
    done = tiny("method=afcl", f"output_dir='{tmp_path}/[red]'", "dataset.name='[bold]'")
    assert "data set  [bold], 6 classes" in done.out
    assert "afcl on [bold], none, seed 1" in done.out
    assert f"record: {tmp_path}/[red]/" in done.out


def test_a_failure_hands_the_terminal_back(
    screen: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[console.View] = []

    class OnScreen(console.View):
        def __init__(self) -> None:
            super().__init__(Console(file=screen, force_terminal=True, width=100))
            made.append(self)

    monkeypatch.setattr(console, "View", OnScreen)
    words = ("method=afcl", "method.form=recursive", "method.gamma=0", "dataset.features=50")
    failed = command(*TINY, *words, f"output_dir={tmp_path}/runs", f"cache_dir={tmp_path}/cache")
    assert failed.code == 1
    drawn: Any = screen.getvalue()
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l")  # the cursor is shown again
    assert len(made) == 1
