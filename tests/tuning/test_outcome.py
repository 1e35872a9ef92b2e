"""The file of a tuning, and the configuration that is written from it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

from fcl_bench.errors import ConfigError, UserError
from fcl_bench.tuning.outcome import Outcome, TrialRecord, Tuned, best, change, read
from fcl_bench.tuning.tune import with_trials
from fcl_bench.tuning.tuned_yaml import configuration, write_configs

SAMPLES = 2500  # an accuracy of 50 % has a standard error of one point
FILES = sorted((ROOT / "results" / "tuning").glob("*.json"))


def trial(number: int, accuracy: float | None, **values: object) -> TrialRecord:
    failed = "It diverged." if accuracy is None else None
    return TrialRecord(number, f"id{number}", dict(values), accuracy, accuracy, failed)


def tuned(*accuracies: float | None) -> Tuned:
    trials = [trial(each, accuracy, **{"lr": each, "optimizer.x": None}) for each, accuracy in enumerate(accuracies)]
    return with_trials(Tuned({}, {"lr": {}, "optimizer.x": {}}), trials, len(accuracies), SAMPLES)


EMPTY = Outcome(1, "frozen_v9", "average_accuracy", 3, 0, 1_000_000, {"samples": 5}, "s", "c", {"stream": {"tasks": 3}})


@pytest.mark.parametrize(
    ("accuracies", "chosen"), [((1, 3, 2), 1), ((3, 1, 3), 0), ((None, 1, 1), 1), ((None, None), None), ((0, None), 0)]
)
def test_the_best_is_the_most_accurate_the_earlier_of_equal_ones_and_never_one_that_failed(
    accuracies: tuple[float | None, ...], chosen: int | None
) -> None:
    assert best(tuned(*accuracies).trials, SAMPLES) == chosen
    assert tuned(*accuracies).best == chosen


@pytest.mark.parametrize(
    ("finals", "anytimes", "chosen"),
    [
        ((50, 49.1, 48.9), (30, 31, 90), 1),  # 48.9 is more than a point below 50
        ((50, 49.1, 50), (30, 29, 30), 0),  # of equal ones the earlier
        ((50, None, 49.5), (30, None, 30.1), 2),
    ],
)
def test_of_those_within_a_standard_error_of_the_best_the_best_on_the_way_is_chosen(
    finals: tuple[float | None, ...], anytimes: tuple[float | None, ...], chosen: int
) -> None:
    both = enumerate(zip(finals, anytimes, strict=True))
    trials = [replace(trial(number, final), anytime_accuracy=anytime) for number, (final, anytime) in both]
    assert best(trials, SAMPLES) == chosen


def test_nothing_is_chosen_before_all_trials_are_there() -> None:
    assert with_trials(tuned(1, 2), [], 3, SAMPLES).best is None


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "frozen_v9.json"
    change(path, EMPTY, lambda methods: {"b": tuned(1, None, 3)})
    after = change(path, EMPTY, lambda methods: methods | {"a": tuned(3, 2, 1)})
    assert list(json.loads(path.read_text())["methods"]) == ["a", "b"]
    found = read(path)
    assert found == after
    assert found.methods["b"].trials[1] == trial(1, None, **{"lr": 1, "optimizer.x": None})


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"trials": 4}, r"have trials=3, but this command has 4: .* name another folder with --out"),
        ({"settings": {"stream": {"tasks": 5}}}, r"have settings\.stream\.tasks=3, but this command has 5"),
        ({"held_out": {"samples": 6}}, r"have held_out\.samples=5, but this command has 6"),
        ({"seed": 1}, r"have seed=0, but this command has 1"),
    ],
)
def test_trials_that_are_not_comparable_are_not_put_into_one_file(tmp_path: Path, other: dict, sentence: str) -> None:
    path = tmp_path / "frozen_v9.json"
    change(path, EMPTY, lambda methods: {"b": tuned(1, 2, 3)})
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=sentence):
        change(path, replace(EMPTY, **other), lambda methods: methods)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", r"is no outcome of tune: "),
        ('{"schema": 1}', r"is no outcome of tune: protocol: Field required"),
        ("{", r"Cannot read .*: Expecting property name"),
        ('{"a": NaN}', r"Cannot read .*: NaN is not a finite number"),
    ],
)
def test_a_file_that_is_none_is_left_alone(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "frozen_v9.json"
    path.write_text(text)
    with pytest.raises(UserError, match=sentence):
        change(path, EMPTY, lambda methods: methods)
    assert path.read_text() == text


def test_the_configuration_of_a_method_has_its_best_values_and_says_where_they_come_from(tmp_path: Path) -> None:
    outcome = replace(EMPTY, methods={"finetune": tuned(1, 3, 2), "unready": with_trials(tuned(1), [], 3, SAMPLES)})
    (path,) = write_configs(outcome, tmp_path)
    assert path == tmp_path / "frozen_v9" / "finetune.yaml"
    assert path.read_text() == (
        "# @package _global_\n"
        "# finetune under frozen_v9: the best of 3 trials on held-out training samples (python -m fcl_bench tune)\n"
        "method:\n"
        "  lr: 1\n"
        "  optimizer:\n"
        "    x: null\n"
        "settings:\n"
        "  name: tuned\n"
        "  trials: 3\n"
        "  hyperparameters: [lr, optimizer.x]\n"
    )


def test_a_method_with_nothing_to_tune_says_so() -> None:
    outcome = replace(EMPTY, methods={"fedncm": Tuned({}, {})})
    text = configuration(outcome, "fedncm")
    assert "# fedncm under frozen_v9: there is nothing to tune" in text
    assert yaml.safe_load(text) == {"settings": {"name": "tuned", "trials": 0, "hyperparameters": []}}


@pytest.mark.skipif(not FILES, reason="no outcome of tune is committed")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_committed_outcome_says_what_the_committed_configuration_is(path: Path) -> None:
    outcome = read(path)
    assert path.read_text() == outcome.text
    for method, of in outcome.methods.items():
        assert of.best == (best(of.trials, outcome.held_out["samples"]) if len(of.trials) == outcome.trials else None)
        committed = ROOT / "configs" / "tuned" / path.stem / f"{method}.yaml"
        if committed.exists():
            assert committed.read_text() == configuration(outcome, method)
