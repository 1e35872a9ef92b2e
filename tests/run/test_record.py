"""The run folder: its public format, against computations of the tests' own, and what resuming does to it."""

import csv
import errno
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ACCURACY, Command, Outcome, assert_equal_runs, contents, read_json
from omegaconf import OmegaConf
from safetensors import safe_open
from sklearn.metrics import f1_score

from fcl_bench.config.compose import composed
from fcl_bench.config.run_id import run_id
from fcl_bench.datasets.gaussian import gaussian
from fcl_bench.run.environment import peak_memory_mb

FILES = {
    *("config.yaml", "stream.npz", "stream.json", "result.json", "predictions.npz", "exchanges.jsonl", "metrics.csv"),
    *("exchanges.csv", "classes.npz", "checkpoint/checkpoint.safetensors", "checkpoint/before.safetensors"),
}
COSTS = {
    *("uplink_bytes", "downlink_bytes", "exchanges", "client_seconds", "server_seconds", "runtime_seconds"),
    *("stored_bytes", "peak_memory_mb", "wall_seconds", "samples_revealed", "revealing_uploads"),
    *("lost_answers", "late_answers", "double_answers"),
    "rejected_replies",
}
QUICK = ("method=finetune", "method.rounds=2", "method.epochs=1")


def test_layout_and_names(afcl_run: Outcome) -> None:
    *_, dataset, backbone, stream, method, run_id = afcl_run.folder.parts
    assert (dataset, backbone, stream, method) == ("gaussian", "none", "si_blurry", "afcl")
    assert re.fullmatch(r"seed1-[0-9a-f]{8}", run_id)
    assert set(contents(afcl_run.folder)) - {".lock"} == FILES


def test_result_has_the_public_keys_and_types(afcl_run: Outcome) -> None:
    result = afcl_run.result
    assert {key: result[key] for key in ("schema", "run_id", "method", "dataset", "backbone", "seed", "status")} == {
        **{"schema": 1, "run_id": afcl_run.folder.name, "method": "afcl", "dataset": "gaussian"},
        **{"backbone": "none", "seed": 1, "status": "complete"},
    }
    stream = result["stream"]
    assert (stream["name"], stream["tasks"], stream["clients"], stream["alpha"]) == ("si_blurry", 3, 3, 0.1)
    assert re.fullmatch(r"[0-9a-f]{64}", stream["hash"])
    assert set(result["metrics"]) == set(result["curves"]) == ACCURACY | COSTS
    assert all(result["metrics"][name] == curve[-1] for name, curve in result["curves"].items())
    assert all(len(curve) == 3 for curve in result["curves"].values())
    assert np.shape(result["matrix"]) == (3, 3)
    assert {name: result["metrics"][name] for name in result["traffic"]} == result["traffic"]
    assert set(result["traffic"]) == {"uplink_bytes", "downlink_bytes", "exchanges"}
    assert set(result["seconds"]) == {"client", "server", "total", "whole_run"}
    assert result["seconds"]["whole_run"] > result["metrics"]["wall_seconds"]
    assert result["seconds"]["total"] == pytest.approx(result["seconds"]["client"] + result["seconds"]["server"])
    assert {"torch", "python", "platform", "device", "git_commit"} <= set(result["environment"])


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux forgets a peak")
def test_the_peak_of_memory_is_that_of_the_run_and_not_of_what_the_process_did_before(tiny: Command) -> None:
    ballast = [b"x" * 2**20 for _ in range(2**9)]
    before = peak_memory_mb()
    del ballast
    assert tiny("method=afcl").result["metrics"]["peak_memory_mb"] < before - 256


def test_a_record_tells_how_to_repeat_it(afcl_run: Outcome) -> None:
    result = afcl_run.result
    assert result["config"] == OmegaConf.to_container(OmegaConf.load(afcl_run.folder / "config.yaml"))
    assert result["command"].startswith("python -m fcl_bench ")
    assert run_id(composed(*shlex.split(result["command"])[3:])) == result["run_id"]


def test_every_metric_can_be_recomputed_from_predictions_and_stream(afcl_run: Outcome) -> None:
    """By loops over the definitions; who is in which task comes from the manifest, labels from the data set."""
    labels = gaussian("gaussian", Path(), 6, 240, 60, 16, separation=4.0, data_seed=0)
    saved = np.load(afcl_run.folder / "predictions.npz")
    predictions, targets = saved["predictions"], saved["targets"]
    np.testing.assert_array_equal(targets, labels.test.labels)
    stream = np.load(afcl_run.folder / "stream.npz")
    tests = np.split(stream["test"], np.cumsum(stream["test_sizes"])[:-1])
    held = np.split(stream["samples"], np.cumsum(stream["sizes"].sum(axis=1))[:-1])
    T = range(3)
    A = [[100 * np.mean([predictions[i][s] == targets[s] for s in tests[j]]) for j in T] for i in T]
    seen_classes = [{labels.train.labels[s] for j in range(i + 1) for s in held[j]} for i in T]
    seen = [100 * np.mean([predictions[i][s] == t for s, t in enumerate(targets) if t in seen_classes[i]]) for i in T]

    def mean(values: list[float]) -> float | None:
        return sum(values) / len(values) if values else None

    expected = {
        "average_accuracy": [mean([A[i][j] for j in range(i + 1)]) for i in T],
        "retention": [mean([A[i][j] / A[j][j] for j in range(i) if A[j][j]]) for i in T],
        "retention_as_printed": [mean([A[j][j] / A[i][j] for j in range(i) if A[i][j]]) for i in T],
        "retention_left_out": [sum(A[j][j] == 0 for j in range(i)) for i in T],
        "stability": [mean([mean([A[k][j] for j in range(k)]) for k in range(1, i + 1)]) for i in T],
        "plasticity": [mean([A[j][j] for j in range(i + 1)]) for i in T],
        "forgetting": [mean([max(A[k][j] for k in range(i)) - A[i][j] for j in range(i)]) for i in T],
        "backward_transfer": [mean([A[i][j] - A[j][j] for j in range(i)]) for i in T],
        "step_stability": [mean([A[i][j] for j in range(i)]) for i in T],
        "step_plasticity": [A[i][i] for i in T],
        "seen_accuracy": seen,
        "whole_accuracy": [100 * np.mean(predictions[i] == targets) for i in T],
        "anytime_accuracy": [mean(seen[: i + 1]) for i in T],
        "macro_f1": [macro_f1(predictions[i], targets, seen_classes[i]) for i in T],
        "calibration_error": [calibration(saved, i, np.isin(targets, list(seen_classes[i]))) for i in T],
    }
    assert set(expected) == ACCURACY
    for name, curve in expected.items():
        wanted = [None if x is None else pytest.approx(x, rel=1e-5) for x in curve]
        assert afcl_run.result["curves"][name] == wanted, name
    np.testing.assert_allclose(afcl_run.result["matrix"], A)


def calibration(saved: Any, task: int, chosen: np.ndarray) -> float:
    """By 15 bins of equal width: the distance of mean confidence and accuracy, by the share of the samples."""
    confidences = saved["confidences"][task][chosen]
    right = (saved["predictions"][task] == saved["targets"])[chosen]
    bins = np.ceil(15 * confidences).astype(int)
    parts = [(np.mean(bins == b), confidences[bins == b].mean() - right[bins == b].mean()) for b in np.unique(bins)]
    return 100 * sum(share * abs(distance) for share, distance in parts)


def macro_f1(predictions: np.ndarray, targets: np.ndarray, classes: set[int]) -> float:
    chosen = np.isin(targets, list(classes))
    return 100 * f1_score(targets[chosen], predictions[chosen], average="macro", zero_division=0)


def test_what_was_learned_class_by_class_is_in_a_file(tiny: Command) -> None:
    done = tiny("method=fedicarl", "method.rounds=1", "method.epochs=1")
    found, saved = np.load(done.folder / "classes.npz"), np.load(done.folder / "predictions.npz")
    assert set(found) == {"accuracy", "confusion", "accuracy_linear", "confusion_linear"}
    for name in ("", "_linear"):
        last = saved[f"predictions{name}"][-1]
        expected = [[np.sum((saved["targets"] == t) & (last == p)) for p in range(6)] for t in range(6)]
        np.testing.assert_array_equal(found[f"confusion{name}"], expected)
        per_class = [100 * np.mean(last[saved["targets"] == t] == t) for t in range(6)]
        np.testing.assert_allclose(found[f"accuracy{name}"], per_class, rtol=1e-6)


def test_exchanges_add_up_to_the_traffic(tiny: Command) -> None:
    done = tiny(*QUICK)
    lines, result = done.exchanges, done.result
    assert len(lines) == result["traffic"]["exchanges"] == 3 * 2
    assert [(line["task"], line["exchange"]) for line in lines] == [(t, e) for t in range(3) for e in range(2)]
    for name in ("uplink_bytes", "downlink_bytes", "client_seconds"):
        per_task = [sum(line[name] for line in lines if line["task"] <= task) for task in range(3)]
        assert result["curves"][name] == pytest.approx(per_task)
    assert {(line["asked"], line["answered"], line["function"]) for line in lines} == {(3, 3, "train")}
    classes = [len(np.unique(held)) for held in seen_labels(done)]
    head = [4 * (16 * n + n) for n in classes]  # weight and bias in float32, which come back with a number of samples
    assert [line["uplink_bytes"] for line in lines[::2]] == [3 * (size + 8) for size in head]


def seen_labels(done: Outcome) -> list[np.ndarray]:
    """Of the training samples of each task and those before."""
    labels = gaussian("gaussian", Path(), 6, 240, 60, 16, separation=4.0, data_seed=0).train.labels
    stream = np.load(done.folder / "stream.npz")
    return [labels[stream["samples"][:stop]] for stop in np.cumsum(stream["sizes"].sum(axis=1))]


def test_the_csv_log_holds_the_curves(afcl_run: Outcome) -> None:
    with (afcl_run.folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    for name, curve in afcl_run.result["curves"].items():
        assert [float(row[name]) if row[name] else None for row in rows] == curve


def test_a_checkpoint_is_safetensors_and_json(afcl_run: Outcome) -> None:
    path = afcl_run.folder / "checkpoint" / "checkpoint.safetensors"
    with safe_open(path, "np") as tensors:
        structure = json.loads(tensors.metadata()["message"])
        shapes = [tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()]  # noqa: SIM118
    assert "fcl_bench.run" not in json.dumps(structure)  # no class of the harness, so those may move
    assert (3, 60) in shapes  # predictions
    assert (6, 16) in shapes  # AFCL's sums of features by class


def test_a_finished_run_is_shown_and_not_repeated_unless_asked(tiny: Command, tmp_path: Path) -> None:
    first = tiny(*QUICK)
    kept = first.kept(tmp_path / "first")
    shown = tiny(*QUICK)
    assert contents(first.folder) == contents(kept.folder)
    note, table = shown.out.split("\n", 1)
    assert note.startswith("This run was finished before (version ")
    assert note.endswith("; resume=false runs it again.")
    assert table == first.out[first.out.index("\n\n") + 1 :]  # the final table, without the tasks
    again = tiny(*QUICK, "resume=false")
    assert again.out.count("task ") > 3
    assert_equal_runs(again, kept)
    assert again.result["seconds"] != kept.result["seconds"]


def test_a_repetition_that_is_interrupted_does_not_fall_back_on_the_first_run(
    tiny: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tiny(*QUICK).kept(tmp_path / "first")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fcl_bench.methods.finetune.Finetune.learn", interrupted)
        assert tiny(*QUICK, "resume=false").code == 130
    again = tiny(*QUICK)
    assert "resumed" not in again.out
    assert_equal_runs(again, kept)


def test_a_saved_stream_can_be_replayed(tiny: Command, afcl_run: Outcome) -> None:
    replayed = tiny("method=afcl", "seed=2", f"stream.manifest={afcl_run.folder}")
    assert replayed.result["stream"] == afcl_run.result["stream"]
    np.testing.assert_array_equal(replayed.predictions, afcl_run.predictions)
    for name in ("stream.json", "stream.npz"):
        assert (replayed.folder / name).read_bytes() == (afcl_run.folder / name).read_bytes()
    other = tiny("method=afcl", "seed=2")
    assert other.result["stream"]["hash"] != afcl_run.result["stream"]["hash"]


def test_the_transport_does_not_change_a_bit(tiny: Command, output_dir: Path) -> None:
    wire = tiny(*QUICK, "transport=wire", f"output_dir={output_dir}-wire")
    assert "transport.wire" in (wire.folder / "config.yaml").read_text()
    assert_equal_runs(wire, tiny(*QUICK))


def test_limits_shorten_both_halves(tiny: Command) -> None:
    done = tiny("method=afcl", "limit_train=100", "limit_test=20")
    assert "100 + 20 samples" in done.out
    assert done.predictions.shape == (3, 20)
    assert np.load(done.folder / "stream.npz")["samples"].size == 100


def test_participation_and_dropout_show_in_the_exchanges(tiny: Command) -> None:
    done = tiny(
        *QUICK, "method.rounds=8", "partition.clients=8", "federation.participation=0.5", "federation.dropout=0.5"
    )
    assert done.code == 0, done.err
    assert {line["asked"] for line in done.exchanges} == {4}
    answered = [line["answered"] for line in done.exchanges]
    assert max(answered) <= 4
    assert 24 < sum(answered) < 72  # of 96, half of which drop out: within 5 standard deviations


def test_a_folder_of_another_run_is_refused_and_left_alone(tiny: Command) -> None:
    folder = tiny(*QUICK).folder
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("seed: 1\n", "seed: 7\n"))
    before = contents(folder)
    for words in ([], ["resume=false"]):
        refused = tiny(*QUICK, *words)
        assert refused.code == 1
        assert re.fullmatch(rf"fcl_bench: \S+ holds a different run: .*{folder.name}; move it away.*\n", refused.err)
        assert contents(folder) == before
    config.write_text("not: [yaml")
    told = rf"fcl_bench: {config} is not the configuration of a run \(it is not valid YAML: .*\): move that folder .*\n"
    assert re.fullmatch(told, tiny(*QUICK).err)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("checkpoint/checkpoint.safetensors", "remove it, or set resume=false"),
        ("result.json", "remove it and run again"),
    ],
)
def test_damage_is_named_and_can_be_repaired(tiny: Command, file: str, message: str) -> None:
    whole = tiny(*QUICK)
    predictions, path = whole.predictions, whole.folder / file
    result = json.loads((whole.folder / "result.json").read_text())
    (whole.folder / "result.json").write_text(json.dumps({**result, "status": "interrupted"}))
    path.write_bytes(path.read_bytes()[:50])
    before = path.with_name("before.safetensors")
    before.unlink(missing_ok=True)
    refused = tiny(*QUICK)
    assert refused.code == 1
    assert re.fullmatch(rf"fcl_bench: .*{path}.*{message}\.\n", refused.err)
    path.unlink()
    np.testing.assert_array_equal(tiny(*QUICK).predictions, predictions)


def test_a_full_disk_keeps_what_was_finished(tiny: Command, output_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync

    def full(handle: int) -> None:
        if any(output_dir.rglob("checkpoint.safetensors")):  # from the end of the first task on
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    stopped = tiny(*QUICK)
    assert stopped.code == 1
    assert re.fullmatch(r"fcl_bench: Cannot write to \S+: No space left on device; .*set output_dir=.*\n", stopped.err)
    (result,) = output_dir.rglob("result.json")
    assert not [name for name in contents(result.parent) if Path(name).name.startswith(".") and name != ".lock"]
    unfinished = read_json(result)
    assert (unfinished["status"], len(unfinished["curves"]["average_accuracy"])) == ("interrupted", 1)

    monkeypatch.undo()
    with (result.parent / "exchanges.jsonl").open("a") as log:
        log.write('{"task": 1, "exchange": 0, "func')  # as a full disk would cut it off
    unfinished["seconds"]["whole_run"] = 1000.0  # of the first attempt
    result.write_text(json.dumps(unfinished))
    resumed = tiny(*QUICK)
    assert "resumed   after task 1 of 3" in resumed.out
    assert 1000 < resumed.result["seconds"]["whole_run"] < 1000 + 500
    assert_equal_runs(resumed, tiny(*QUICK, f"output_dir={output_dir}-whole"))


def test_a_failure_in_the_first_task_leaves_a_valid_record(tiny: Command, output_dir: Path) -> None:
    failed = tiny("method=afcl", "method.form=recursive", "method.gamma=0", "dataset.features=50")
    assert failed.code == 1
    (result,) = (read_json(path) for path in output_dir.rglob("result.json"))
    assert (result["status"], result["matrix"], result["metrics"]["average_accuracy"]) == ("interrupted", [], None)
    assert result["traffic"] == {"uplink_bytes": 0, "downlink_bytes": 0, "exchanges": 0}


def test_names_that_are_paths_stay_inside_the_output_folder(tiny: Command, output_dir: Path) -> None:
    done = tiny("method=afcl", "dataset.name=../../timm/x", "backbone.name=none")
    assert done.folder.parents[4] == output_dir
    assert done.result["dataset"] == "../../timm/x"


def test_digits_run_offline_with_nothing_but_a_method(digits_run: Outcome) -> None:
    assert digits_run.code == 0, digits_run.err
    assert digits_run.folder.parts[-6:-1] == ("runs", "digits", "efficientnet_lite0", "si_blurry", "afcl")
    facts: dict[str, Any] = digits_run.result["stream"]
    assert (facts["tasks"], facts["clients"], facts["partition"], facts["alpha"]) == (5, 5, "dirichlet", 0.1)
    assert digits_run.predictions.shape == (5, 359)
    assert digits_run.result["metrics"]["whole_accuracy"] > 90
