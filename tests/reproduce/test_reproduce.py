"""A row is run again from its record: equal, equal within rounding, different, or not to be run, and in what."""

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY, Command, Outcome, command, contents, read_json
from records import sealed_again

from fcl_bench.config.run_id import NEUTRAL, settings_hash
from fcl_bench.run.metrics import curves

Change = Callable[[dict[str, Any]], object]
ALL = "settings, contents, stream, accuracies, traffic, exchanges, predictions, evidence, final state"
FINETUNE = ("method=finetune", "method.rounds=2", "method.epochs=1")


@pytest.fixture
def again(tmp_path: Path, cache_dir: Path) -> Command:
    """``reproduce`` with a folder for new records."""
    places = (f"output_dir={tmp_path / 'reproduced'}", f"cache_dir={cache_dir}")
    return lambda *words: command("reproduce", *words, *places)


@pytest.fixture
def row(afcl_run: Outcome, tmp_path: Path) -> Path:
    """A finished run, to change."""
    return afcl_run.kept(tmp_path / "published" / afcl_run.folder.name).folder


@pytest.fixture(scope="module")
def finetune_run(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Outcome:
    """A run of a method that trains, to look at."""
    return command(*TINY, *FINETUNE, f"output_dir={tmp_path_factory.mktemp('runs')}", f"cache_dir={cache_dir}")


def as_published(folder: Path, change: Change, digests: bool = True) -> Path:
    """Only the record remains, changed, with digests that fit it or with none, as those of early versions."""
    result = read_json(folder / "result.json")
    change(result)
    if digests:
        result = sealed_again(result)
    else:
        result.pop("digests", None)
    shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))
    return folder / "result.json"


def flattered(points: float) -> Change:
    """Another accuracy on the tests of task 1 after task 2, and all that follows from it."""

    def change(result: dict[str, Any]) -> None:
        result["matrix"][1][0] += points
        follow = curves(np.array(result["matrix"], dtype=float))
        for name, curve in follow.items():
            result["curves"][name] = [None if np.isnan(value) else float(value) for value in curve]
            result["metrics"][name] = result["curves"][name][-1]

    return change


def new_records(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "reproduced").rglob("result.json"))


def test_a_run_of_today_is_equal_and_its_folder_is_left_alone(row: Path, again: Command, tmp_path: Path) -> None:
    before = contents(row)
    told = again(str(row))
    assert (told.code, told.err) == (0, "")
    assert told.out == f"{row / 'result.json'}: equal: {ALL} are equal to the bit.\n"
    assert contents(row) == before
    (path,) = new_records(tmp_path)
    assert (path.parent.name, read_json(path)["status"]) == (row.name, "complete")
    words = shlex.split(read_json(path)["command"])
    assert words[:5] == ["python", "-m", "fcl_bench", "reproduce", str(row / "result.json")]
    assert f"output_dir={tmp_path / 'reproduced'}" in words


def test_a_method_that_trains_is_equal_in_other_processes_and_with_other_loggers(
    finetune_run: Outcome, again: Command, tmp_path: Path
) -> None:
    told = again(str(finetune_run.folder / "result.json"), "transport=wire", "logger=none")
    assert (told.code, told.err) == (0, "")
    assert ": equal: " in told.out
    (path,) = new_records(tmp_path)
    assert read_json(path)["config"]["transport"]["_target_"].endswith(".Wire")
    assert not path.with_name("metrics.csv").exists()


@pytest.mark.parametrize("digests", [True, False])
def test_a_changed_accuracy_is_different_and_named_with_both_values(
    row: Path, again: Command, tmp_path: Path, digests: bool
) -> None:
    true = read_json(row / "result.json")["matrix"][1][0]
    path = as_published(row, flattered(-2.5), digests)
    told = again(str(path))
    assert (told.code, told.err) == (1, "fcl_bench: Of 1 records, 1 did not come out again.\n")
    place = "after task 2, accuracy on the tests of task 1"
    assert told.out.startswith(f"{path}: different: {place} is {true - 2.5} in the record and {true} here; ")
    assert "; and " in told.out
    assert [found.parent.name for found in new_records(tmp_path)] == [row.name]


def test_accuracies_a_tenth_of_a_point_apart_are_equal_within_rounding(row: Path, again: Command) -> None:
    true = read_json(row / "result.json")["matrix"][1][0]
    told = again(str(as_published(row, flattered(-0.09))))
    assert (told.code, told.err) == (0, "")
    place = f"after task 2, accuracy on the tests of task 1 is {true - 0.09} in the record and {true} here"
    assert f": equal within rounding: accuracies differ by up to 0.09 percentage points ({place});" in told.out


def test_eleven_hundredths_are_not_rounding(row: Path, again: Command) -> None:
    assert ": different: after task 2, " in again(str(as_published(row, flattered(-0.11)))).out


@pytest.mark.parametrize("name", ["uplink_bytes", "stored_bytes"])
def test_a_count_has_no_rounding(row: Path, again: Command, name: str) -> None:
    def count_more(result: dict[str, Any]) -> None:
        result["curves"][name] = [value + 1 for value in result["curves"][name]]
        result["metrics"][name] = result["curves"][name][-1]
        if name in result["traffic"]:
            result["traffic"][name] += 1

    told = again(str(as_published(row, count_more)))
    assert told.code == 1
    assert f": different: after task 1, {name} is " in told.out


@pytest.mark.parametrize(
    ("part", "verdict"), [("weights", "equal within rounding"), ("predictions", "equal within rounding")]
)
def test_bits_that_no_accuracy_knows_of_are_rounding(row: Path, again: Command, part: str, verdict: str) -> None:
    path = as_published(row, lambda result: result["evidence"].update({part: "0" * 64}))
    told = again(str(path))
    assert told.code == 0
    assert f": {verdict}: accuracies are equal, but evidence, {part} is 000" in told.out


def test_sums_of_whole_numbers_have_no_rounding(row: Path, again: Command) -> None:
    told = again(str(as_published(row, lambda result: result["evidence"].update(statistics="0" * 64))))
    assert told.code == 1
    assert ": different: evidence, statistics is 000" in told.out


def test_predictions_are_compared_by_their_digest(row: Path, again: Command) -> None:
    told = again(str(as_published(row, lambda result: result["digests"].update({"predictions.npz": "0" * 64}))))
    assert told.code == 0
    assert ": equal within rounding: accuracies are equal, but predictions or confidences differ" in told.out


def test_versions_are_named_where_bits_differ_and_only_there(row: Path, again: Command) -> None:
    def older(result: dict[str, Any]) -> None:
        result["environment"].update(torch="1.0", threads=str(torch.get_num_threads()))

    other = shutil.copytree(row, row.parent / "other")
    assert "computed with" not in again(str(as_published(row, older))).out
    told = again(str(as_published(other, lambda result: (older(result), flattered(-3)(result)))), "resume=false")
    assert f"The record was computed with torch 1.0 (here {torch.__version__.partition('+')[0]}" in told.out


def test_as_many_threads_are_taken_as_the_record_names(row: Path, again: Command, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    again(str(as_published(row, lambda result: result["environment"].update(threads="3"))))
    (path,) = new_records(tmp_path)
    assert read_json(path)["environment"]["threads"] == "3"
    assert torch.get_num_threads() == before


def test_contents_that_are_others_are_told_before_anything_is_run(row: Path, again: Command, tmp_path: Path) -> None:
    told = again(str(as_published(row, lambda result: result.update(inputs="0" * 16))))
    assert told.code == 1
    assert "different: the contents of their data set, weights or stream differ (inputs): nothing was run" in told.out
    assert new_records(tmp_path) == []


def without_data(result: dict[str, Any]) -> None:
    cifar = {"_target_": "fcl_bench.datasets.cifar100.cifar100", "name": "cifar100", "data_dir": "data"}
    result["config"]["dataset"] = {**cifar, "download": False}
    result["dataset"] = "cifar100"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without_data, "data_dir"),
        (lambda result: result["config"]["method"].update(gama=2.0), "There is no setting 'method.gama'"),
        (lambda result: result["config"].update(colour="red"), "There is no setting 'colour'"),
        (
            lambda result: result["config"]["stream"].update(_target_="gone.Gone", name="gone"),
            "Expected _target_ to be module.name of a class or function, but got gone.Gone",
        ),
        (lambda result: result.update(status="interrupted"), "is not finished"),
        (lambda result: result.update(forgotten={"number": 3}), "has forgotten samples: run unlearn again"),
        (lambda result: result["matrix"][1].__setitem__(0, 1.0), "do not follow from each other"),
        (lambda result: result.pop("matrix"), "is damaged"),
    ],
)
def test_what_cannot_be_run_is_one_sentence_and_exit_code_2(
    row: Path, again: Command, tmp_path: Path, change: Change, reason: str
) -> None:
    path = as_published(row, change)
    told = again(str(path), f"data_dir={tmp_path / 'nowhere'}")
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"fcl_bench: {path} cannot be run again: ")
    assert reason in told.err
    assert told.err.count("\n") == 1
    assert new_records(tmp_path) == []


@pytest.mark.parametrize("word", ["seed=2", "method.gamma=2", "threads=3"])
def test_settings_that_decide_more_than_the_place_are_refused(row: Path, again: Command, word: str) -> None:
    told = again(str(row), word)
    assert told.code == 2
    assert f"but got '{word}': all others are those of the record." in told.err


@pytest.mark.parametrize("link", [False, True])
def test_a_new_record_never_comes_to_lie_among_the_published_ones(row: Path, tmp_path: Path, link: bool) -> None:
    published = place = row.parent
    if link:
        place = tmp_path / "link"
        place.symlink_to(published)
    before = contents(published)
    for given in (row, published):
        told = command("reproduce", str(given), f"output_dir={place}")
        assert told.code == 2
        assert f"The record lies in output_dir={place}, where new ones would be written" in told.err
    assert contents(published) == before


def test_new_records_are_not_taken_for_published_ones(row: Path, again: Command, tmp_path: Path) -> None:
    for _ in range(2):
        told = again(str(tmp_path))
        assert [line.partition(": ")[0] for line in told.out.splitlines()] == [str(row / "result.json")]


def test_folders_are_searched_and_one_bad_record_does_not_stop_the_others(
    row: Path, finetune_run: Outcome, again: Command, tmp_path: Path
) -> None:
    as_published(row, flattered(-4))
    finetune_run.kept(row.parent / "good")
    (row.parent / "broken").mkdir()
    (row.parent / "broken" / "result.json").write_text("{")
    told = again(str(row.parent), str(row))
    assert told.code == 2
    assert [line.partition(": ")[2].partition(":")[0] for line in told.out.splitlines()[:2]] == ["equal", "different"]
    assert told.out.splitlines()[2] == "3 records: 1 cannot be run again, 1 equal, 1 different."
    assert [line.partition("broken")[0] for line in told.err.splitlines()] == [
        f"fcl_bench: {row.parent}/",
        "fcl_bench: Of 3 records, 1 cannot be run again.",
    ]
    assert len(new_records(tmp_path)) == 2


def test_no_record_at_all(tmp_path: Path, again: Command) -> None:
    (tmp_path / "empty").mkdir()
    told = again(str(tmp_path / "empty"))
    assert told.code == 2
    assert "There is no record to reproduce" in told.err


def test_an_attempt_that_was_interrupted_goes_on_unless_the_code_has_changed(
    finetune_run: Outcome, again: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fcl_bench.reproduce import again as module
    from fcl_bench.run import experiment

    scored = 0
    score = experiment.score

    def counted(*arguments: Any) -> Any:
        nonlocal scored
        scored += 1
        if scored == 2:
            raise KeyboardInterrupt
        return score(*arguments)

    monkeypatch.setattr(experiment, "score", counted)
    monkeypatch.setattr(module, "made_by_present_code", lambda result: True)
    assert again(str(finetune_run.folder)).code == 130
    assert ": equal: " in again(str(finetune_run.folder)).out
    assert scored == 2 + 2  # the first of three tasks is not learned again
    assert "It had been run before, by the same code" in again(str(finetune_run.folder)).out
    assert scored == 4
    monkeypatch.setattr(module, "made_by_present_code", lambda result: False)
    told = again(str(finetune_run.folder))
    assert "It had been run before" not in told.out
    assert (told.code, scored) == (0, 7)


def made_older(result: dict[str, Any]) -> None:
    """A record as the first version wrote it: without settings, views and metrics that came later."""
    config = result["config"]
    for place in NEUTRAL:
        group, _, name = place.rpartition(".")
        (config.get(group, {}) if group else config).pop(name, None)
    del config["method"]["name"]
    config["backbone"]["_target_"] = "fcl_bench.backbone.BackboneConfig"
    config["partition"]["_target_"] = "fcl_bench.spatial.Dirichlet"
    for name in ("views", "evidence"):
        result.pop(name, None)
    for name in ("macro_f1", "step_stability", "wall_seconds", "rejected_replies"):
        result["curves"].pop(name)
        result["metrics"].pop(name)
    result["environment"].pop("threads")
    result["run_id"] = f"seed1-{settings_hash(config)}"


def test_a_record_of_an_earlier_version_is_equal(finetune_run: Outcome, again: Command, tmp_path: Path) -> None:
    path = as_published(finetune_run.kept(tmp_path / "old").folder, made_older, digests=False)
    old = read_json(path)["config"]
    assert "privacy" not in old
    assert "aggregation" not in old["method"]
    told = again(str(path))
    assert (told.code, told.err) == (0, "")
    assert ": equal: settings, contents, stream, accuracies, traffic are equal to the bit. Not compared" in told.out
    (new,) = new_records(tmp_path)
    assert settings_hash(read_json(new)["config"]) == settings_hash(old)
