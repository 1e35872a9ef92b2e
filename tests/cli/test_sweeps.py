"""Sweeps: what is skipped, resumed, told and listed, in one process and in several, and what a cluster is asked for."""

import io
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import chdir, suppress
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import pytest
import started
from conftest import TINY, Command, Outcome, assert_equal_runs, command, contents, read_json
from rich.console import Console
from rich.progress import Progress

from fcl_bench.cli import console, overview, sweep
from fcl_bench.cli.job import SweepJob
from fcl_bench.cli.overview import Overview, Report, names, time_left
from fcl_bench.config.compose import composed
from fcl_bench.run.experiment import run

ROOT = Path(__file__).parents[2]
QUICK = ("method=finetune", "method.rounds=2", "method.epochs=1")


def records(folder: Path) -> dict[str, Outcome]:
    """Every record below a folder, by method and id."""
    found = sorted(path.parent for path in folder.rglob("result.json"))
    return {"/".join(path.parts[-2:]): Outcome(0, f"record: {path}", "") for path in found}


def told(outcome: Outcome) -> list[str]:
    return [line for line in outcome.out.splitlines() if line.startswith("sweep: ")]


def test_a_sweep_makes_a_record_of_every_run_and_tells_how_far_it_is(tiny: Command, output_dir: Path) -> None:
    done = tiny("-m", "method=afcl,finetune", "seed=1,2")
    assert (done.code, done.err) == (0, "")
    assert {name[: name.index("-")] for name in records(output_dir)} == {
        *("afcl/seed1", "afcl/seed2", "finetune/seed1", "finetune/seed2"),
    }
    first, *lines, last = told(done)
    assert first == "sweep: 0 of 4 done, 0 failed, eta unknown"
    for number, line in enumerate(lines, start=1):
        assert re.fullmatch(rf"sweep: {number} of 4 done, 0 failed, eta 0:00:\d\d", line)
    assert len(lines) == 3
    assert re.fullmatch(r"sweep: 4 of 4 done, 0 failed, after 0:00:\d\d", last)


def test_a_sweep_over_methods_takes_settings_they_share(tiny: Command, output_dir: Path) -> None:
    done = tiny("-m", "method=finetune,joint", "method.epochs=1", "method.optimizer.momentum=0,0.5")
    assert done.code == 0, done.err
    assert len(records(output_dir)) == 4
    assert all("epochs: 1\n" in path.read_text() for path in output_dir.rglob("config.yaml"))


@pytest.mark.parametrize("values", ["null", "null,4"])
def test_a_sweep_takes_null(values: str, tiny: Command, output_dir: Path) -> None:
    words = ("method.arithmetic=float64", f"method.project={values}")
    done = tiny("-m", "method=afcl", *words, "stream.manifest=null")
    assert done.code == 0, done.err
    assert len(records(output_dir)) == len(values.split(","))


def test_a_failure_does_not_stop_a_sweep_and_is_listed_at_the_end(
    tiny: Command, output_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("fcl_bench.methods.fedncm.FedNCM.learn", broken)
    done = tiny("-m", "method=afcl,fedncm", "partition.clients=100000,3")
    assert done.code == 1
    summary, *listed = done.err[done.err.index("fcl_bench: 3 of 4 runs failed:") :].splitlines()
    assert summary == "fcl_bench: 3 of 4 runs failed:"
    words = f"  {' '.join(TINY[:-1])} partition.clients={{}} output_dir={output_dir} "
    reason = "Expected partition.clients to be at most 240, the number of training samples, but got 100000."
    assert [re.sub(r"cache_dir=\S+ ", "", line) for line in listed] == [
        f"{words.format(100000)}method=afcl: {reason}",
        f"{words.format(100000)}method=fedncm: {reason}",
        f"{words.format(3)}method=fedncm: RuntimeError: two lines",
    ]
    at_once = done.err[: done.err.index(summary)]
    assert f"fcl_bench: partition.clients=100000 method=afcl: {reason}\n" in at_once
    assert at_once.count("Traceback") == 1  # of the failure that is not for the user to mend
    assert [name[:5] for name, record in records(output_dir).items() if record.result["status"] == "complete"] == [
        "afcl/"
    ]


def test_a_wrong_name_stops_a_sweep_before_its_first_run(tiny: Command, output_dir: Path) -> None:
    refused = tiny("-m", "method=afcl,fientune")
    assert (refused.code, refused.out) == (2, "")
    assert "There is no method 'fientune'; choose from: finetune, " in refused.err
    assert not records(output_dir)


def test_finished_runs_are_skipped_with_a_line_and_left_alone(tiny: Command, output_dir: Path) -> None:
    assert tiny("-m", *QUICK, "seed=1,2").code == 0
    before = contents(output_dir)
    again = tiny("-m", *QUICK, "seed=1,2,3")
    assert again.code == 0
    assert [line for line in told(again) if "before" in line][:2] == [
        "sweep: seed=1 was finished before",
        "sweep: seed=2 was finished before",
    ]
    assert again.out.count("average accuracy") == 1  # the table of the third only
    assert told(again)[2] == "sweep: 2 of 3 done, 0 failed, eta unknown"  # skipping tells nothing about time
    assert told(again)[-1].startswith("sweep: 3 of 3 done (2 finished before), 0 failed, after ")
    after = contents(output_dir)
    del before["multirun.yaml"]
    assert {name: after[name] for name in before} == before
    anew = tiny("-m", *QUICK, "seed=1,2", "resume=false")
    assert anew.out.count("average accuracy") == 2


def test_a_run_found_finished_only_by_looking_at_its_data_is_skipped_too(
    tiny: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tiny("-m", *QUICK, "seed=1,2").code == 0
    monkeypatch.setattr("fcl_bench.run.identity._code", lambda: "other code")
    again = tiny("-m", *QUICK, "seed=1,2")
    assert [line for line in told(again) if "was finished" in line] == [
        "sweep: seed=1 was finished before",
        "sweep: seed=2 was finished before",
    ]
    assert "average accuracy" not in again.out


def test_a_folder_of_another_run_is_a_failure_of_that_run_alone(tiny: Command, output_dir: Path) -> None:
    assert tiny("-m", "method=afcl", "seed=1,2").code == 0
    (config,) = output_dir.rglob("seed1-*/config.yaml")
    config.write_text(config.read_text().replace("seed: 1\n", "seed: 7\n"))
    again = tiny("-m", "method=afcl", "seed=1,2,3")
    assert again.code == 1
    assert told(again)[-1].startswith("sweep: 2 of 3 done (1 finished before), 1 failed, after ")
    assert "holds a different run" in again.err.splitlines()[-1]


def test_ctrl_c_tells_what_is_done_failed_and_left(
    tiny: Command, output_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fcl_bench.methods.finetune import Finetune

    learn, calls = Finetune.learn, []

    def interrupted(self: Finetune, *arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 5:  # the second task of the second run
            raise KeyboardInterrupt
        return learn(self, *arguments)

    monkeypatch.setattr(Finetune, "learn", interrupted)
    stopped = tiny("-m", *QUICK, "partition.clients=1000,3", "seed=1,2,3")
    assert stopped.code == 130
    assert re.fullmatch(r"sweep: 1 of 6 done, 3 failed, 2 left, after \S+", told(stopped)[-1])
    *failed, last = stopped.err.splitlines()[3:]
    assert [re.search(r"partition.clients=1000 .*seed=(\d)", line)[1] for line in failed] == ["1", "2", "3"]  # type: ignore
    assert last == "fcl_bench: Interrupted. Finished tasks are kept: the same command goes on from there."
    assert sorted(record.result["status"] for record in records(output_dir).values()) == ["complete", "interrupted"]


def test_a_killed_sweep_goes_on_with_what_was_missing(
    tiny: Command, output_dir: Path, cache_dir: Path, tmp_path: Path
) -> None:
    words = ("-m", "method=finetune", "method.rounds=25", "method.epochs=1", "seed=1,2,3")
    assert tiny(*words, f"output_dir={tmp_path}/whole").code == 0
    arguments = [*TINY, f"output_dir={output_dir}", f"cache_dir={cache_dir}", *words]
    os.mkfifo(tmp_path / "out")
    process = started.start(tmp_path, os.environ, tmp_path / "out", tmp_path / "err", "fcl_bench", arguments)
    with open(tmp_path / "out") as lines:
        assert any(line.startswith("sweep: 1 of 3 done") for line in lines)
        assert any(line.startswith("task  1 of 3") for line in lines)  # of the second run
        process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    first, second = sorted(output_dir.rglob("result.json"))
    assert [read_json(path)["status"] for path in (first, second)] == ["complete", "interrupted"]
    kept = contents(first.parent)

    again = tiny(*words)
    assert again.code == 0, again.err
    assert again.out.count("was finished before") == 1
    assert re.findall(r"resumed   after task (\d) of 3", again.out) in (["1"], ["2"])
    assert again.out.count("average accuracy") == 2
    assert contents(first.parent) == kept
    found, whole = records(output_dir), records(tmp_path / "whole")
    assert len(found) == 3
    for name, record in found.items():
        assert_equal_runs(record, whole[name])


JOBLIB = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")


def test_several_processes_give_the_same_records_as_one(
    tiny: Command, output_dir: Path, cache_dir: Path, tmp_path: Path
) -> None:
    words = ("-m", "method=afcl,fedncm", "seed=1,-1")
    assert tiny(*words, f"output_dir={tmp_path}/whole").code == 1
    arguments = [*TINY, f"output_dir={output_dir}", f"cache_dir={cache_dir}", *words, *JOBLIB]
    done = subprocess.run([sys.executable, "-m", "fcl_bench", *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert all(re.fullmatch(r"sweep: \d of 4 done, (\d running, )?\d failed, (eta|after) \S+", line) for line in lines)
    assert re.fullmatch(r"sweep: 2 of 4 done, 2 failed, after \S+", lines[-1])
    at_once, _, listed = done.stderr.partition("fcl_bench: 2 of 4 runs failed:\n")
    for text, start in ((at_once, "fcl_bench: method="), (listed, "  dataset=gaussian ")):
        assert [line.startswith(start) and line.endswith("but got -1.") for line in text.splitlines()] == [True] * 2
    found, whole = records(output_dir), records(tmp_path / "whole")
    assert len(found) == 2
    for name, record in found.items():
        assert_equal_runs(record, whole[name])
        threads = int(record.result["environment"]["device"].removeprefix("cpu x "))
        assert threads == max(1, joblib.cpu_count() // 2)
    with chdir(tmp_path):
        again = tiny(*words[:-1], *JOBLIB)
    assert again.code == 0
    assert [line.endswith("was finished before") for line in told(again)] == [True, True, False]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_sweep_of_several_processes_leaves_none_behind(tmp_path: Path, end: signal.Signals) -> None:
    """Ctrl-C reaches all of them, the other signals the first one only."""
    words = (*TINY, "-m", "method=finetune", "method.rounds=100000", "seed=1,2,3", *JOBLIB)
    sweep = subprocess.Popen(
        [sys.executable, "-m", "fcl_bench", *words, f"output_dir={tmp_path}/runs", f"cache_dir={tmp_path}/cache"],
        env={**os.environ, "TMPDIR": str(tmp_path), "OF_THIS_TEST": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # who runs the tests may ignore Ctrl-C
    )
    wait_for(lambda: list(tmp_path.glob("fcl-bench-sweep-*/0.json")), seconds=60)  # a run is under way
    assert len(processes_of(tmp_path)) >= 3
    if end == signal.SIGINT:
        os.killpg(sweep.pid, end)
    else:
        sweep.send_signal(end)
    out, err = sweep.communicate(timeout=30)
    wait_for(lambda: not processes_of(tmp_path), seconds=30)
    if end == signal.SIGKILL:
        assert (sweep.returncode, err) == (-signal.SIGKILL, "")
    else:
        assert sweep.returncode == 128 + end
        assert re.fullmatch(r"fcl_bench: Interrupted( by SIGTERM)?\. Finished tasks are kept: .*\n", err)
        assert re.fullmatch(r"sweep: 0 of 3 done, 0 failed, 3 left, after \S+", out.splitlines()[-1])


def processes_of(folder: Path) -> list[Path]:
    """Those that were started with this folder in their environment."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended
            if f"OF_THIS_TEST={folder}\0".encode() in environment.read_bytes():
                found.append(environment)
    return found


def wait_for(condition: Callable[[], Any], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_warnings_of_other_processes_are_told_with_the_name_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), width=100)
    progress = Overview([["seed=1"], ["seed=2"]], screen)
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    progress.add(Report(1, "done", time.time(), 1.0, warnings=("The Gram matrix is singular.",)))
    assert errors.getvalue() == "warning: seed=2: The Gram matrix is singular.\n"


def test_a_launcher_that_stops_fails_the_runs_under_way(
    tiny: Command, output_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(loader: Any, settings: Any, job: SweepJob, jobs: Any) -> None:
        job.report(Report(1, "running", time.time()))
        raise RuntimeError("a process\nwas killed")

    monkeypatch.setattr(sweep, "_launch", killed)
    done = tiny("-m", "method=afcl", "seed=1,2,3")
    assert done.code == 1
    assert told(done)[-1].startswith("sweep: 0 of 3 done, 1 failed, 2 left, after ")
    reason = r"Under way when the launcher stopped \(RuntimeError: a process was killed\)\."
    assert re.search(rf"^  .*seed=2: {reason}$", done.err, re.MULTILINE)


# Hand-computed: the mean of the runs that were computed, times those left, over those at a time.
@pytest.mark.parametrize(
    ("taken", "running", "waiting", "width", "seconds"),
    [
        ([], [], 5, 1, None),  # nothing computed, nothing known
        ([], [3.0], 0, 1, None),
        ([], [], 0, 1, 0.0),
        ([10.0], [], 3, 1, 30.0),
        ([10.0, 20.0], [], 4, 1, 60.0),  # 4 x 15
        ([10.0, 20.0], [5.0], 2, 1, 40.0),  # 10 + 2 x 15
        ([10.0], [25.0], 1, 1, 10.0),  # one that takes longer than the others is about to end
        ([60.0], [50.0, 10.0], 1, 2, 60.0),  # (10 + 50 + 60) / 2
        ([60.0], [50.0, 10.0], 0, 2, 50.0),  # not (10 + 50) / 2: the longer one ends last
        ([60.0], [], 1, 4, 60.0),  # one run does not get faster by processes that are idle
        ([60.0], [30.0], 3, 4, 52.5),  # (30 + 3 x 60) / 4
    ],
)
def test_the_time_left(
    taken: list[float], running: list[float], waiting: int, width: int, seconds: float | None
) -> None:
    assert time_left(taken, running, waiting, width) == seconds


def test_the_line_counts_every_kind_of_run_and_takes_time_from_computed_ones_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overview.time, "time", lambda: 1000.0)
    progress = Overview([[f"seed={seed}"] for seed in range(9)], Console(file=io.StringIO()))
    for report in (
        Report(0, "skipped", 0.0, 0.1),
        Report(1, "done", 0.0, 30.0),
        Report(2, "done", 0.0, 50.0),
        Report(3, "failed", 0.0, 500.0, "no"),
        Report(4, "running", 980.0),
    ):
        progress.add(report)
    assert progress.line() == "sweep: 3 of 9 done, 1 running, 1 failed, eta 0:03:00"  # 40 - 20 + 4 x 40
    progress.add(Report(5, "running", 1000.0))
    assert progress.line() == "sweep: 3 of 9 done, 2 running, 1 failed, eta 0:01:30"  # (20 + 40 + 3 x 40) / 2


def test_a_run_is_named_by_what_others_do_not_have() -> None:
    jobs = [["a=1", "b=2", "c=3"], ["a=1", "b=2", "c=4"], ["a=2", "b=2", "c=3"]]
    assert names(jobs) == ["a=1 c=3", "a=1 c=4", "a=2 c=3"]
    assert names([["a=1", "b=2"]]) == ["a=1 b=2"]


def test_a_terminal_shows_the_sweep_above_the_progress_of_its_run(
    tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = Progress.update
    monkeypatch.setattr(Progress, "update", lambda *args, **kwargs: update(*args, **kwargs, refresh=True))
    file = io.StringIO()
    screen = Console(file=file, force_terminal=True, width=100, highlight=False)
    progress = Overview([["seed=1"], ["seed=2"], ["seed=3"]], screen)
    progress.add(Report(0, "done", 0.0, 20.0))
    progress.add(Report(1, "running", time.time()))
    view = console.View(screen, sweep=True, above=progress)
    run(composed(*TINY, *QUICK, f"output_dir={tmp_path}/runs", f"cache_dir={cache_dir}"), view)
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue()))
    above = re.compile(r"sweep: 1 of 3 done, 1 running, 0 failed [━╸╺]{12} eta 0:00:\d\d *")
    bars = [number for number, line in enumerate(lines) if re.match(r"task 3 of 3, round 2 of 2, .* eta ", line)]
    assert bars
    assert all(above.fullmatch(lines[number - 1]) for number in bars)
    assert sum(line.startswith("task  ") for line in lines) == 3  # the lines of finished tasks are not drawn over
    assert file.getvalue().rindex("\x1b[?25h") > file.getvalue().rindex("\x1b[?25l")  # the cursor is shown again


def slurm_words() -> list[str]:
    """The example of the documentation."""
    text = (ROOT / "docs" / "sweeps.md").read_text()
    (example,) = re.findall(r"^python -m fcl_bench (-m [^`]*submitit_slurm[^`]*)\n```", text, re.MULTILINE)
    return shlex.split(example.replace("\\\n", ""))


def test_slurm_is_asked_for_what_the_documented_command_says(
    tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With commands of Slurm that keep what they are given, and refuse it."""
    for name in ("sbatch", "srun"):
        (tmp_path / name).write_text(f'#!/bin/sh\ncp "$1" {tmp_path}/submitted\necho "no such cluster" >&2\nexit 1\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    places = ("output_dir=", "cache_dir=", "data_dir=", "dataset=")
    words = [word for word in slurm_words() if not word.startswith(places)]
    assert len(words) == len(slurm_words()) - 4
    words.append("+hydra.launcher.additional_parameters.nice=100")
    refused = command(*words, *TINY, f"output_dir={tmp_path}/runs", f"cache_dir={cache_dir}")
    assert refused.code == 1
    assert re.search(r"Of the sweep 6 runs are left, as the launcher stopped \(.*no such cluster", refused.err)
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)=(.*)$", (tmp_path / "submitted").read_text(), re.MULTILINE))
    expected = {
        "partition": "gpu",
        "time": "240",
        "gpus-per-node": "1",
        "cpus-per-task": "8",
        "mem": "32GB",
        "nice": "100",
    }
    assert {key: asked.get(key) for key in expected} == expected
    assert asked["array"] == "0-5%4"
    assert asked["job-name"] == "fcl_bench"


def test_jobs_with_logs_of_their_own_report_to_the_sweep(tiny: Command, output_dir: Path) -> None:
    """As on a cluster, with processes of this machine; a wrong seed is found before torch is loaded."""
    done = tiny("-m", "method=afcl", "seed=1,-1", "hydra/launcher=submitit_local")
    assert done.code == 1, done.err
    assert told(done)[-1].startswith("sweep: 1 of 2 done, 1 failed, after ")
    assert done.err.splitlines()[-1].endswith(" but got -1.")
    assert [record.result["status"] for record in records(output_dir).values()] == ["complete"]
    logs = [path.read_text() for path in output_dir.rglob("*_log.out")]
    assert sum("task  3 of 3" in log for log in logs) == 1
    assert "task  3 of 3" not in done.out
