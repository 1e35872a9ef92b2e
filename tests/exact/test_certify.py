"""Certificates of honest and of doctored records, and what is no run to certify."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command, Outcome, command, contents, read_json

from fcl_bench.message_classes import named
from fcl_bench.moments import Moments
from fcl_bench.run.checkpoint import decoded

CHECKPOINT = Path("checkpoint") / "checkpoint.safetensors"
EQUAL = (
    "statistics, weights, predictions and accuracies are equal to the bit to those of one place with all 240 samples"
)
FLOAT64 = ("method=afcl", "method.arithmetic=float64")


@pytest.fixture
def run(afcl_run: Outcome, tmp_path: Path) -> Path:
    """The folder of a run of AFCL in whole numbers, to change."""
    return afcl_run.kept(tmp_path / afcl_run.folder.name).folder


@pytest.fixture(scope="module")
def float64_run(tmp_path_factory: pytest.TempPathFactory, afcl_run: Outcome) -> Outcome:
    """A run of AFCL in float64, to look at."""
    folder = tmp_path_factory.mktemp("float64")
    words = afcl_run.result["command"].split()[3:]
    kept = [word for word in words if not word.startswith(("output_dir=", "method="))]
    return command(*kept, *FLOAT64, f"output_dir={folder}")


def certificate(folder: Path) -> Any:
    return read_json(folder / "certificate.json")


def doctor(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Write another result.json."""
    result = read_json(folder / "result.json")
    change(result)
    (folder / "result.json").write_text(json.dumps(result))


def stretch(folder: Path) -> None:
    """Let the state know a millionth more of every sum over classes."""
    checkpoint = decoded((folder / CHECKPOINT).read_bytes(), named(Moments))
    state = checkpoint.progress.state
    stretched = replace(state, cross=state.cross * (1 + 1e-6))
    progress = checkpoint.progress.at(stretched)
    (folder / CHECKPOINT).write_bytes(replace(checkpoint, progress=progress).encoded())


def test_whole_numbers_are_certified_to_the_bit(run: Path) -> None:
    done = command("certify", str(run))
    assert done == Outcome(0, f"{run.name}: {EQUAL}.\n", "")
    found = certificate(run)
    assert (found["schema"], found["verdict"], found["run_id"]) == (1, "equal", run.name)
    assert found["record"] == hashlib.sha256((run / "result.json").read_bytes()).hexdigest()
    assert (found["samples"], found["classes"]) == (240, 6)
    evidence = read_json(run / "result.json")["evidence"]
    for name in ("statistics", "weights", "predictions"):
        assert found["parts"][name]["expected"] == evidence[name]
    assert "torch" in found["environment"]


def test_the_hash_of_predictions_is_that_of_the_last_ones(afcl_run: Outcome) -> None:
    last = afcl_run.predictions[-1].astype("<i8")
    content = b"predictions torch.int64 (60,)" + last.tobytes()
    assert afcl_run.result["evidence"]["predictions"] == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("words", [FLOAT64, ("method=afcl", "method.form=recursive"), ("method=fedncm",)])
def test_every_exact_method_is_certified(tiny: Command, words: tuple[str, ...]) -> None:
    folder = tiny(*words).folder
    told = command("certify", str(folder / "result.json"))
    assert told.code == 0, told.err
    found = certificate(folder)
    assert found["verdict"] == ("equal" if words == ("method=fedncm",) else "within")
    assert all(part["difference"] < 1e-12 for part in found["parts"].values())


def test_hashes_do_where_there_is_no_checkpoint(run: Path) -> None:
    shutil.rmtree(run / "checkpoint")
    for name in ("stream.npz", "stream.json", "predictions.npz"):
        (run / name).unlink()
    assert command("certify", str(run)).out == f"{run.name}: {EQUAL}.\n"


def test_a_record_of_other_weights_differs_and_its_own_state_does_not_tell_by_how_much(run: Path) -> None:
    doctor(run, lambda result: result["evidence"].update(weights="0" * 64))
    done = command("certify", str(run))
    assert done.code == 1
    assert "different from those of one place" in done.out
    assert "weights by hashes that do not tell how far" in done.out
    assert done.err == "fcl_bench: Of 1 runs, 1 did not give the answer of one place.\n"
    found = certificate(run)
    assert (found["verdict"], found["parts"]["weights"]["difference"]) == ("differs", None)
    assert found["parts"]["statistics"]["verdict"] == "equal"


@pytest.mark.parametrize("where", ["matrix", "metrics"])
def test_accuracies_that_do_not_follow_from_the_predictions_differ(run: Path, where: str) -> None:
    def flatter(result: dict[str, Any]) -> None:
        if where == "matrix":
            result["matrix"][-1][1] += 2.0
        else:
            result["metrics"]["average_accuracy"] += 2.0

    doctor(run, flatter)
    assert command("certify", str(run)).code == 1
    part = certificate(run)["parts"]["accuracies"]
    assert part["verdict"] == "differs"
    assert part["difference"] == pytest.approx(2.0 / 160, rel=0.5)  # the norm of four accuracies of about 80


def test_of_a_state_it_is_told_how_far_it_is(float64_run: Outcome, tmp_path: Path) -> None:
    folder = float64_run.kept(tmp_path / "run").folder
    stretch(folder)
    doctor(folder, lambda result: result.pop("evidence"))
    assert command("certify", str(folder)).code == 1
    parts = certificate(folder)["parts"]
    assert parts["statistics"]["difference"] == pytest.approx(1e-6, rel=1e-3)
    assert parts["weights"]["difference"] == pytest.approx(1e-6, rel=1e-3)
    assert parts["predictions"]["difference"] == 0.0


def without_evidence(folder: Path) -> None:
    shutil.rmtree(folder / "checkpoint")
    doctor(folder, lambda result: result.pop("evidence"))


def with_a_damaged_checkpoint(folder: Path) -> None:
    (folder / CHECKPOINT).write_bytes(b"nothing")
    doctor(folder, lambda result: result.pop("evidence"))


def with_another_manifest(folder: Path) -> None:
    with np.load(folder / "stream.npz") as saved:
        arrays = dict(saved)
    arrays["samples"] = arrays["samples"][::-1]
    np.savez(folder / "stream.npz", **arrays)


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda folder: (folder / "result.json").unlink(), "There is no record .*: name the folder"),
    "unreadable": (lambda folder: (folder / "result.json").write_text("{"), "The record .* cannot be read"),
    "unfinished": (lambda folder: doctor(folder, lambda r: r.update(status="interrupted")), "is not finished: go on"),
    "no inputs": (lambda folder: doctor(folder, lambda r: r.pop("inputs")), r"is damaged \(there is no inputs\)"),
    "other data": (
        lambda folder: doctor(folder, lambda r: r["config"]["dataset"].update(data_seed=9)),
        "The stream manifest .* was made for other data|The contents of data set, weights or stream are no longer",
    ),
    "other stream": (with_another_manifest, "was altered: it does not match its own hash"),
    "other inputs": (
        lambda folder: doctor(folder, lambda r: r.update(inputs="0")),
        "are no longer those of the record",
    ),
    "absent clients": (
        lambda folder: doctor(folder, lambda r: r["config"]["federation"].update(dropout=0.5)),
        r"some clients did not take part \(federation.dropout=0.5\)",
    ),
    "unknown setting": (
        lambda folder: doctor(folder, lambda r: r["config"]["method"].update(gama=1)),
        "do not fit this version: There is no setting 'method.gama'",
    ),
    "no evidence": (without_evidence, "has neither evidence nor a checkpoint to be compared: run it again"),
    "damaged checkpoint": (with_a_damaged_checkpoint, "The checkpoint .* cannot be read"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=list(BAD))
def test_what_cannot_be_certified_is_named_in_one_sentence(
    run: Path, change: Callable[[Path], object], message: str
) -> None:
    change(run)
    before = contents(run)
    with pytest.raises(AssertionError, match=message):
        assert_certified(run)
    assert contents(run) == before


def assert_certified(folder: Path, *words: str) -> None:
    """Fails with the one sentence of a refusal."""
    done = command("certify", str(folder), *words)
    assert (done.code, done.err.count("\n"), done.out) in [(2, 1, ""), (0, 0, done.out)]
    assert done.code == 0, done.err


def test_rounded_sums_cannot_be_compared_by_hashes(float64_run: Outcome, tmp_path: Path) -> None:
    folder = float64_run.kept(tmp_path / "run").folder
    shutil.rmtree(folder / "checkpoint")
    with pytest.raises(AssertionError, match="has no checkpoint, and by hashes alone rounded sums cannot be compared"):
        assert_certified(folder)


def test_a_method_that_is_not_exact_or_offers_no_evidence_is_refused(tiny: Command) -> None:
    trained = tiny("method=finetune", "method.rounds=1", "method.epochs=1").folder
    with pytest.raises(AssertionError, match="is one of finetune, which with these settings does not declare to be ex"):
        assert_certified(trained)
    oracle = tiny("method=joint").folder
    with pytest.raises(AssertionError, match="is one of joint, which is exact but does not offer evidence, joint: see"):
        assert_certified(oracle)


def test_only_places_may_be_set(run: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="Expected data_dir=FOLDER or cache_dir=FOLDER, but got 'seed=3'"):
        assert_certified(run, "seed=3")
    assert_certified(run, f"cache_dir={tmp_path / 'cache'}", f"data_dir={tmp_path}")
    assert list((tmp_path / "cache").iterdir())
    assert command("certify", "data_dir=x").err == (
        "fcl_bench: Name a run: the folder of a finished one, or its result.json.\n"
    )


def test_of_several_runs_those_that_can_be_are_certified_and_the_worst_counts(run: Path, tmp_path: Path) -> None:
    doctored = shutil.copytree(run, tmp_path / "doctored")
    doctor(doctored, lambda result: result["evidence"].update(statistics="0" * 64))
    done = command("certify", str(tmp_path / "missing"), str(doctored), str(run))
    assert done.code == 2
    assert [line.split(": ")[1][:10] for line in done.out.splitlines()] == ["different ", "statistics"]
    assert done.err.splitlines()[0] == "fcl_bench: Of 3 runs, 1 did not give the answer of one place."
    assert done.err.splitlines()[1].startswith("fcl_bench: There is no record ")
    assert certificate(run)["verdict"] == "equal"
