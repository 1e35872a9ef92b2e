"""The verb from beginning to end."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, Outcome, command

from fcl_bench.errors import UserError
from fcl_bench.tuning import tune as tuning
from fcl_bench.tuning import workers
from fcl_bench.tuning.held_out import hold_out
from fcl_bench.tuning.subject import subject
from fcl_bench.tuning.workers import Worker

QUICK = ("budget.rounds=1", "budget.epochs=1", "~method.search.logit_adjustment")
Tune = Callable[..., Outcome]


@pytest.fixture
def tune(cache_dir: Path) -> Tune:
    """Tune into a folder, on tiny synthetic features."""
    return lambda out, *words: command("tune", *TINY, *QUICK, f"cache_dir={cache_dir}", "--out", str(out), *words)


def content(out: Path) -> dict[str, Any]:
    return json.loads((out / "none.json").read_text())


def test_two_people_get_one_file_with_any_number_of_processes(tune: Tune, tmp_path: Path) -> None:
    words = ("method=finetune,afcl,fedncm", "--trials", "3")
    assert tune(tmp_path / "one", *words).code == 0
    assert tune(tmp_path / "two", *words, "--workers", "2").code == 0
    assert tune(tmp_path / "three", "method=fedncm,afcl", "--trials", "3").code == 0
    assert tune(tmp_path / "three", "--trials", "3", "method=finetune").code == 0
    files = [(tmp_path / name / "none.json").read_bytes() for name in ("one", "two", "three")]
    assert files[0] == files[1] == files[2]
    found = content(tmp_path / "one")
    assert {name: len(method["trials"]) for name, method in found["methods"].items()} == {
        "afcl": 3,
        "fedncm": 0,
        "finetune": 3,
    }
    assert found["run_seed"] == found["settings"]["seed"] == 1_000_000
    assert found["settings"]["threads"] == 1


def test_another_seed_gives_another_file(tune: Tune, tmp_path: Path) -> None:
    for seed in ("0", "1"):
        assert tune(tmp_path / seed, "method=afcl", "--trials", "2", "--seed", seed).code == 0
    one, two = content(tmp_path / "0"), content(tmp_path / "1")
    assert one["stream"] != two["stream"]
    assert one["held_out"]["hash"] != two["held_out"]["hash"]
    trials = [each["methods"]["afcl"]["trials"] for each in (one, two)]
    assert trials[0][0]["values"] == trials[1][0]["values"]
    assert trials[0][1]["values"] != trials[1][1]["values"]


def test_finished_trials_are_kept_and_not_repeated(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("method=afcl", "--trials", "4")
    assert tune(tmp_path / "whole", *words).code == 0
    run: list[str] = []
    original = workers.carry_out

    def counted(scenario: Any, trial: str, config: Any) -> Any:
        if len(run) == 2:
            raise KeyboardInterrupt
        run.append(trial)
        return original(scenario, trial, config)

    with monkeypatch.context() as patch:
        patch.setattr(workers, "carry_out", counted)
        stopped = tune(tmp_path / "parts", *words)
        assert stopped.code == 130
        assert f"finished trials are in {tmp_path}/parts/none.json" in stopped.out
        half = content(tmp_path / "parts")["methods"]["afcl"]
        assert [trial["id"] for trial in half["trials"]] == run
        assert half["best"] is None
    rest: list[str] = []
    monkeypatch.setattr(workers, "carry_out", lambda *job: rest.append(job[1]) or original(*job))
    done = tune(tmp_path / "parts", *words)
    assert "afcl: 2 of 4 trials are in " in done.out
    assert len(rest) == 2
    assert not set(rest) & set(run)
    assert (tmp_path / "parts" / "none.json").read_bytes() == (tmp_path / "whole" / "none.json").read_bytes()
    assert tune(tmp_path / "parts", *words).code == 0
    assert len(rest) == 2


def test_trials_with_equal_values_are_run_once(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[str] = []
    original = workers.carry_out
    monkeypatch.setattr(workers, "carry_out", lambda *job: run.append(job[1]) or original(*job))
    assert tune(tmp_path, "method=joint", "--trials", "9", "method.search.gamma.choices=[1,10]").code == 0
    trials = content(tmp_path)["methods"]["joint"]["trials"]
    assert len(trials) == 9
    assert len(run) == len({trial["values"]["gamma"] for trial in trials}) == 2


def test_another_search_drops_what_the_earlier_one_has_tried_and_says_so(tune: Tune, tmp_path: Path) -> None:
    assert tune(tmp_path, "method=joint", "--trials", "3").code == 0
    changed = tune(tmp_path, "method=joint", "--trials", "3", "method.search.gamma.choices=[5]")
    assert "joint: 1 of 3 trials are in " in changed.out
    assert "joint: its settings or its search have changed, so " in changed.out
    trials = content(tmp_path)["methods"]["joint"]["trials"]
    assert [trial["values"]["gamma"] for trial in trials] == [1.0, 5, 5]


def test_a_trial_that_diverges_is_recorded_and_not_chosen(tune: Tune, tmp_path: Path) -> None:
    words = ("method=finetune", "--trials", "2", "~method.search", "method.search.lr.choices=[1e30]")
    done = tune(tmp_path, *words, "method.rounds=2")
    assert done.code == 0, done.err
    method = content(tmp_path)["methods"]["finetune"]
    assert method["best"] == 0
    assert method["trials"][0]["failed"] is None
    diverged = method["trials"][1]
    assert (diverged["average_accuracy"], diverged["anytime_accuracy"]) == (None, None)
    assert re.match(r"The reply of client \d to train in task 1 is not usable: ", diverged["failed"])
    assert f"failed: {diverged['failed']}" in done.out


def test_where_all_trials_fail_nothing_is_chosen(tune: Tune, tmp_path: Path) -> None:
    words = ("method=finetune", "--trials", "2", "~method.search", "method.search.lr.choices=[1e30]")
    done = tune(tmp_path, *words, "method.lr=1e20", "method.rounds=2", "--configs", str(tmp_path / "configs"))
    assert done.code == 1
    assert done.err.startswith("fcl_bench: Every trial has failed, so nothing was chosen: finetune (")
    assert not (tmp_path / "configs").exists()


def test_a_method_without_a_search_is_told(tune: Tune, tmp_path: Path) -> None:
    done = tune(tmp_path, "method=fedncm", "--configs", str(tmp_path / "configs"))
    assert "fedncm has nothing to tune: its YAML has no search.\n" in done.out
    assert "hyperparameters: []" in (tmp_path / "configs" / "none" / "fedncm.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Name the methods to tune once, with commas between them: method=NAME,NAME."),
        (["method=afcl", "method=joint"], "Name the methods to tune once, "),
        (["method=afcl,joint,afcl"], "Expected each method once, but afcl is named 2 times."),
        (["method=afcl,fientune"], "There is no method 'fientune'; choose from: finetune, "),
        (["method=afcl", "seed=1"], "Tuning has seeds of its own, "),
        (["method=afcl", "partition.alpha=0.1,0.2"], "Ambiguous value for argument 'partition.alpha=0.1,0.2'"),
        (["method=afcl", "dataset.train_size=6", "dataset.test_size=6", "limit_train=4"], "Of 4 training samples "),
    ],
)
def test_a_wrong_command_ends_with_one_line_and_nothing_is_written(
    tune: Tune, tmp_path: Path, words: list[str], sentence: str
) -> None:
    refused = tune(tmp_path / "out", *words)
    assert refused.code in (1, 2)
    assert refused.err.startswith(f"fcl_bench: {sentence}")
    assert refused.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_process_that_is_killed_is_told(cache_dir: Path) -> None:
    config = subject("afcl", [*TINY, f"cache_dir={cache_dir}"], 0).config
    worker = Worker.started(hold_out(config, lambda what: lambda *_: None).scenario)
    worker.process.kill()
    worker.process.join()
    with pytest.raises(UserError, match=r"ended in the middle of a trial \(exit code -9\)\. The same command goes on"):
        worker.receive()
    worker.end()


def test_the_file_of_a_protocol_bears_its_name() -> None:
    assert tuning.path_of(Path("out"), "frozen_v1") == Path("out/frozen_v1.json")
    assert tuning.path_of(Path("out"), None) == Path("out/none.json")
