"""A record is believed as far as its numbers follow from its own evidence; the first one that does not is named."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Command, Outcome, command, read_json
from records import sealed_again

from fcl_bench.errors import UserError
from fcl_bench.leaderboard.runs import gather, read_run
from fcl_bench.run.digests import PREDICTIONS, check_record
from fcl_bench.run.metrics import curves
from fcl_bench.run.trust import verified

Doctor = Callable[[dict[str, Any]], None]
WITH_PREDICTIONS = "digest; accuracies computed again from predictions"


@pytest.fixture
def run(afcl_run: Outcome, tmp_path: Path) -> Path:
    """A copy of a finished run, to be changed."""
    return afcl_run.kept(tmp_path / "run").folder


def change(folder: Path, doctor: Doctor, digests: str = "kept") -> Path:
    """Write another record; its digests are kept, computed again, or removed."""
    path = folder / "result.json"
    result = read_json(path)
    doctor(result)
    if digests == "none":
        del result["digests"]
    path.write_text(json.dumps(sealed_again(result) if digests == "again" else result))
    return path


def end_at(name: str, value: float) -> Doctor:
    def doctor(result: dict[str, Any]) -> None:
        result["curves"][name][-1] = value
        result["metrics"][name] = value

    return doctor


def believed(path: Path) -> str:
    return verified(read_json(path), path)


def test_a_new_record_is_believed_and_its_accuracies_are_computed_again(run: Path) -> None:
    assert believed(run / "result.json") == WITH_PREDICTIONS
    (run / PREDICTIONS).unlink()
    assert believed(run / "result.json") == "digest"
    assert believed(change(run, lambda result: None, digests="none")) == "no digest"


def test_digests_are_those_that_the_documentation_says(run: Path) -> None:
    result = read_json(run / "result.json")
    digests = result["digests"]
    own = digests.pop("result.json")
    texts = {"result.json": result, "stream.json": read_json(run / "stream.json")}
    found = {}
    for name, content in texts.items():
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        found[name] = hashlib.sha256(text.encode("ascii")).hexdigest()
    for name in ("stream.npz", "predictions.npz"):
        sha = hashlib.sha256()
        with np.load(run / name) as saved:
            for key in sorted(saved.files):
                array = saved[key]
                kind = {"int64": "<i8", "float32": "<f4"}[str(array.dtype)]
                shape = "(" + "".join(f"{size}, " for size in array.shape).strip()
                shape = shape[:-1] + ")" if array.ndim > 1 else shape + ")"
                sha.update(f"{key} {kind} {shape}\n".encode() + array.astype(kind).tobytes())
        found[name] = sha.hexdigest()
    assert found == {"result.json": own, **digests}


def test_digests_do_not_depend_on_how_files_are_packed(run: Path) -> None:
    with np.load(run / PREDICTIONS) as saved:
        arrays = {name: saved[name] for name in reversed(saved.files)}
    np.savez(run / PREDICTIONS, **arrays)
    summary = read_json(run / "stream.json")
    (run / "stream.json").write_text(json.dumps(dict(reversed(summary.items())), indent=3))
    (run / "result.json").write_text(json.dumps(read_json(run / "result.json"), indent=None, sort_keys=True))
    assert believed(run / "result.json") == WITH_PREDICTIONS


@pytest.mark.parametrize(
    "doctor",
    [
        end_at("average_accuracy", 99.0),
        lambda result: result["environment"].update(torch="1.0"),
        lambda result: result.update(command="another"),
        lambda result: result["curves"]["macro_f1"].__setitem__(0, 1.0),
        lambda result: result.update(more=None),
    ],
)
def test_whatever_is_changed_under_a_digest_is_noticed(run: Path, doctor: Doctor) -> None:
    with pytest.raises(UserError, match=r"The record \S+ was changed: its content has another digest than it says\."):
        believed(change(run, doctor))


@pytest.mark.parametrize("digests", [None, {}, {"result.json": "0"}, {"result.json": 5}])
def test_digests_that_are_none_are_damaged(run: Path, digests: Any) -> None:
    with pytest.raises(UserError, match="has damaged digests"):
        check_record({"digests": digests}, run)


def flatter(result: dict[str, Any]) -> None:
    """As a liar would who knows what follows from a matrix."""
    own = result["views"]["present"]
    own["matrix"][-1] = [min(100.0, value + 1) for value in own["matrix"][-1]]
    for name, curve in curves(np.array(own["matrix"])).items():
        values = [None if np.isnan(value) else float(value) for value in curve]
        own["curves"][name] = values
        own["metrics"][name] = values[-1]


@pytest.mark.parametrize(
    ("doctor", "clause"),
    [
        (end_at("average_accuracy", 99.0), "the curve of average_accuracy does not follow from the matrix"),
        (end_at("retention", 1.2), "the curve of retention does not follow from the matrix"),
        (lambda result: result["metrics"].update(forgetting=0.0), "the metric forgetting is not the end of its curve"),
        (lambda result: result["matrix"][0].__setitem__(0, 100.5), "the matrix is not between 0 and 100"),
        (lambda result: result["views"]["present"]["matrix"][0].__setitem__(0, 1.0), r"\(view present\)"),
        (end_at("seen_accuracy", 1.0), "anytime_accuracy does not follow from that of seen_accuracy"),
        (end_at("whole_accuracy", 1.0), "whole_accuracy does not follow from the matrix"),
        (flatter, "the matrix of the view present does not follow from the predictions"),
        (end_at("uplink_bytes", 1), "uplink_bytes falls from one task to the next"),
        (lambda result: result["traffic"].update(uplink_bytes=1), "traffic.uplink_bytes is not the metric"),
        (lambda result: result["seconds"].update(total=0.1), "seconds.total is not the metric runtime_seconds"),
        (end_at("runtime_seconds", 1e6), "seconds.total is not the metric runtime_seconds"),
        (end_at("stored_bytes", -8), "stored_bytes is negative"),
        (lambda result: result.update(seed=2), "seed is not that of the configuration"),
        (lambda result: result.update(method="fedncm"), "method is not that of the configuration"),
        (lambda result: result.update(track="end_to_end"), "track is not that of the configuration"),
        (lambda result: result["stream"].update(tasks=4), "the stream has 4 tasks, but the matrix 3"),
        (lambda result: result["stream"].update(alpha=5.0), "stream.alpha is not that of the configuration"),
        (lambda result: result["config"]["method"].update(gamma=7.0), "run_id is not that of the configuration"),
        (lambda result: result.update(run_id="best"), "run_id is not of the form"),
        (lambda result: result["stream"].update(dataset="other"), "stream.json beside it has other parameters"),
        (lambda result: result["stream"].update(hash="0" * 64), "stream.json beside it is that of another stream"),
    ],
)
def test_numbers_that_do_not_follow_are_named_without_digests_too(run: Path, doctor: Doctor, clause: str) -> None:
    with pytest.raises(UserError, match=rf"The numbers of the record \S+ do not follow from each other \(.*{clause}"):
        believed(change(run, doctor, digests="none"))


@pytest.mark.parametrize("name", ["predictions.npz", "stream.npz", "stream.json"])
def test_files_of_another_run_are_noticed(run: Path, tiny: Command, name: str) -> None:
    other = tiny("method=afcl", "seed=2")
    shutil.copy(other.folder / name, run / name)
    with pytest.raises(UserError, match=rf"and {name} beside it do not belong together"):
        believed(run / "result.json")


@pytest.mark.parametrize("name", ["predictions.npz", "stream.npz", "stream.json"])
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 no archive", b"{}"])
def test_files_beside_it_that_cannot_be_read_are_named(run: Path, name: str, data: bytes) -> None:
    (run / name).write_bytes(data)
    with pytest.raises(UserError, match=rf"The (arrays|stream) \S+/{name} (cannot be read|is damaged) \("):
        believed(run / "result.json")


def test_the_committed_records_are_believed() -> None:
    found = gather([ROOT / "results"])
    records = list((ROOT / "results").rglob("result.json"))
    assert (len(found.runs), found.problems) == (len(records), ())
    sealed = {run.path for run in found.runs if run.trust == "digest"}
    assert sealed == {path for path in records if "digests" in read_json(path)}
    assert {run.trust for run in found.runs if run.path not in sealed} == {"no digest"}


def test_a_leaderboard_names_what_was_changed_and_shows_the_rest(run: Path, afcl_run: Outcome) -> None:
    change(run, end_at("average_accuracy", 99.0))
    told = command("leaderboard", str(run), str(afcl_run.folder))
    assert told.code == 0
    assert told.err.startswith(f"fcl_bench: The record {run}/result.json was changed: ")
    assert told.err.count("\n") == 1
    assert "99.00" not in told.out
    assert f"{afcl_run.result['metrics']['average_accuracy']:.2f}" in told.out


def test_how_many_records_have_no_digest_is_said(run: Path) -> None:
    change(run, lambda result: None, digests="none")
    assert command("leaderboard", str(run)).err == (
        "fcl_bench: Records without a digest, of earlier versions, whose numbers fit each other: 1.\n"
    )


def test_a_finished_run_is_shown_again_only_if_its_record_is_sound(tiny: Command) -> None:
    done = tiny("method=afcl")
    change(done.folder, end_at("average_accuracy", 99.0))
    again = tiny("method=afcl")
    assert (again.code, again.out) == (1, "")
    assert again.err.startswith("fcl_bench: The record ")
    assert " was changed: its content has another digest" in again.err


def test_texts_of_a_record_are_visible_wherever_it_is_shown(run: Path) -> None:
    nasty = "\x1b[31mred\u202e\nnext"
    changes = {"method": nasty, "config__method__name": nasty, "environment__torch": "=1+1\x07"}
    path = run / "result.json"
    path.write_text(json.dumps(sealed_again(read_json(path), **changes)))
    found = read_run(path)
    assert found is not None
    assert found.method == r"\x1b[31mred\u202e\nnext"
    assert found.result["environment"]["torch"] == r"=1+1\x07"
    told = command("leaderboard", str(run), "--out", str(run / "board"))
    assert told.code == 0, told.err
    for text in (told.out, *((run / "board" / name).read_text() for name in ("leaderboard.csv", "leaderboard.md"))):
        assert text.replace("\n", "").isprintable()
