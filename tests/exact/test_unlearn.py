"""Unlearning: equal to never having learned, to the bit, and a record of its own; what cannot be forgotten."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Outcome, command, contents, read_json
from hypothesis import given, settings
from hypothesis import strategies as some
from test_certify import doctor, without_evidence

from fcl_bench import linalg
from fcl_bench.checks import Sandbox, configured
from fcl_bench.datasets.gaussian import gaussian
from fcl_bench.message import encode

DATA = gaussian("gaussian", Path(), 6, 240, 60, 16, separation=4.0, data_seed=0)


@pytest.fixture
def run(afcl_run: Outcome, tmp_path: Path) -> Path:
    """The folder of a run of AFCL in whole numbers, to change."""
    return afcl_run.kept(tmp_path / "runs" / afcl_run.folder.name).folder


@cache
def sandbox(*words: str) -> Sandbox:
    return Sandbox(configured(*words))


@pytest.mark.parametrize("words", [("method=afcl",), ("method=fedncm",)])
@given(some.data())
@settings(deadline=None, max_examples=8)
def test_whatever_is_forgotten_the_rest_is_that_of_a_run_without_it(words: tuple[str, ...], data: some.DataObject):
    place = sandbox(*words)
    stream = place.stream
    task, client = stream.places.T
    label = place.train_labels.numpy()[stream.samples]
    chosen = np.ones(len(label), dtype=bool)
    for of, count in ((task, 3), (client, 4), (label, 6)):
        only = data.draw(some.none() | some.integers(0, count - 1))
        chosen &= (of == only) if only is not None else True
    picked = data.draw(some.none() | some.sets(some.integers(0, len(label) - 1), max_size=30))
    chosen &= np.isin(np.arange(len(label)), list(picked)) if picked is not None else True
    if chosen.all():
        return
    rest = place.without(chosen)
    assert encode(place.unlearned(chosen, rest)) == encode(place.run(stream=rest).state)


def test_the_sums_that_are_left_are_numpys() -> None:
    place = sandbox("method=afcl")
    chosen = place.stream.places[:, 1] == 2
    rest = place.without(chosen)
    state = place.unlearned(chosen, rest)
    rows = np.rint(place.train.numpy()[rest.samples] * np.float32((2**16 - 1) / 64)).astype(np.int64)
    targets = np.eye(len(rest.order), dtype=np.int64)[rest.number[place.train_labels[rest.samples]]]
    np.testing.assert_array_equal(linalg.whole(state.gram, 16), rows.T @ rows)
    np.testing.assert_array_equal(state.cross, targets.T @ rows)
    assert state.counts.tolist() == [len(rows), 0]


def test_a_new_record_lies_beside_the_old_one(run: Path) -> None:
    before = contents(run)
    done = command("unlearn", str(run), "--client", "1", "--task", "2")
    assert done.code == 0, done.err
    assert contents(run) == before
    assert done.folder.parent == run.parent
    assert done.folder.name.rpartition("-")[0] == f"{run.name}-without"
    result, parent = done.result, read_json(run / "result.json")
    old, new = np.load(run / "stream.npz"), np.load(done.folder / "stream.npz")
    starts = old["sizes"].ravel().cumsum() - old["sizes"].ravel()
    forgotten = old["samples"][starts[1 * 3 + 1] :][: old["sizes"][1, 1]]
    assert sorted(new["samples"]) == sorted(set(old["samples"]) - set(forgotten))
    assert result["forgotten"] == {
        **{"client": 1, "task": 2, "class": None, "samples": None},
        "number": len(forgotten),
    }
    assert result["parent"]["run_id"] == run.name
    assert (result["run_id"], result["status"]) == (done.folder.name, "complete")
    assert result["unlearned"]["verdict"] == "equal"
    assert f"equal to the bit to those of a run that never saw these {len(forgotten)} samples.\n" in done.out
    assert result["inputs"] != parent["inputs"]
    assert result["stream"]["hash"] == read_json(done.folder / "stream.json")["hash"]
    np.testing.assert_array_equal(done.predictions[:-1], np.load(run / "predictions.npz")["predictions"][:-1])
    assert result["matrix"][:-1] == parent["matrix"][:-1]
    of_a_run_only = {".lock", "metrics.csv", "exchanges.csv", "checkpoint/before.safetensors"}
    assert set(contents(done.folder)) == set(contents(run)) - of_a_run_only


def test_its_predictions_are_those_of_ridge_regression_on_the_rest(run: Path) -> None:
    """To a tenth of a percent: features are rounded."""
    done = command("unlearn", str(run), "--class", "2", "--no-proof")
    assert done.result["unlearned"] == {"verdict": None}
    kept = np.flatnonzero(DATA.train.labels != 2)
    rows = DATA.train.read(kept).double().numpy()  # type: ignore[union-attr]
    classes = np.array([0, 1, 3, 4, 5])
    targets = (DATA.train.labels[kept][:, None] == classes).astype(float)
    weights = np.linalg.solve(rows.T @ rows + np.eye(16), rows.T @ targets)
    tests = DATA.test.read(np.arange(60)).double().numpy()  # type: ignore[union-attr]
    np.testing.assert_array_equal(done.predictions[-1], classes[(tests @ weights).argmax(axis=1)])
    assert 2 not in np.load(done.folder / "stream.npz")["order"]


def test_what_has_unlearned_can_be_certified_and_unlearn_more(run: Path) -> None:
    first = command("unlearn", str(run), "--class", "2", "--no-proof")
    told = command("certify", str(first.folder))
    assert "are equal to the bit to those of one place with all 200 samples" in told.out
    second = command("unlearn", str(first.folder), "--client", "0")
    assert second.result["unlearned"]["verdict"] == "equal"
    assert second.result["parent"]["run_id"] == first.folder.name


@pytest.mark.parametrize("suffix", [".txt", ".npy"])
def test_single_samples_are_named_in_a_file(run: Path, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"mine{suffix}"
    if suffix == ".npy":
        np.save(file, [3, 17, 200])
    else:
        file.write_text("3\n17\n200\n")
    done = command("unlearn", str(run), "--samples", str(file))
    assert done.result["forgotten"]["number"] == 3
    assert done.result["unlearned"]["verdict"] == "equal"
    assert not {3, 17, 200} & set(np.load(done.folder / "stream.npz")["samples"])


def test_a_method_that_unlearns_wrongly_is_found_out(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def keep_all(self: Any, state: Any, forgotten: Any, classes: torch.Tensor) -> Any:
        return state

    monkeypatch.setattr("fcl_bench.methods.afcl.AFCL.unlearn", keep_all)
    done = command("unlearn", str(run), "--client", "1")
    assert done.code == 1
    assert "fcl_bench: The model is not that of a run that never saw these samples" in done.err
    assert "\ndifferent from those of a run that never saw these" in done.out


def test_the_leaderboard_leaves_out_what_has_unlearned_and_says_so(run: Path) -> None:
    command("unlearn", str(run), "--client", "1", "--no-proof")
    shown = command("leaderboard", str(run.parent))
    assert shown.err == "fcl_bench: Records of runs that have forgotten samples are left out: 1.\n"
    (line,) = (line for line in shown.out.splitlines() if line.startswith("afcl"))
    assert line.split()[1] == "1"


def without_checkpoint(folder: Path) -> None:
    shutil.rmtree(folder / "checkpoint")


def with_a_damaged_checkpoint(folder: Path) -> None:
    (folder / "checkpoint" / "checkpoint.safetensors").write_bytes(b"nothing")


def untouched(folder: Path) -> None:
    pass


SAMPLES = {"broken.txt": "one\n", "half.txt": "1.5\n", "many.txt": "5\n240\n"}
BAD: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "nothing said": ("", untouched, "Say what is to be forgotten: --client K, --task T, --class C or --samples FILE"),
    "no such client": ("--client 3", untouched, "There is no client 3: those of this run are 0 to 2"),
    "no such task": ("--task 0", untouched, "There is no task 0: those of this run are 1 to 3"),
    "no such class": ("--class 6", untouched, "There is no class '6' in gaussian: name one of its 6 classes, such as"),
    "no file": ("--samples FOLDER/none.txt", untouched, "Cannot read sample numbers from .*none.txt"),
    "no numbers": ("--samples FOLDER/broken.txt", untouched, "Cannot read sample numbers from .*broken.txt"),
    "half a number": ("--samples FOLDER/half.txt", untouched, "half.txt: expected whole numbers, one per line"),
    "no such sample": ("--samples FOLDER/many.txt", untouched, "No client has training sample 240, which .*many.txt"),
    "unfinished": ("--client 1", lambda f: doctor(f, lambda r: r.update(status="interrupted")), "is not finished"),
    "other data": ("--client 1", lambda f: doctor(f, lambda r: r.update(inputs="0")), "are no longer those of the rec"),
    "no checkpoint": ("--client 1", without_checkpoint, "There is no checkpoint .*: run it again"),
    "no state at all": ("--client 1", without_evidence, "There is no checkpoint .*: run it again"),
    "damaged checkpoint": ("--client 1", with_a_damaged_checkpoint, "The checkpoint .* cannot be read"),
    "absent clients": (
        "--client 1",
        lambda f: doctor(f, lambda r: r["config"]["federation"].update(participation=0.5)),
        "some clients did not take part",
    ),
}


@pytest.mark.parametrize(("words", "change", "message"), BAD.values(), ids=list(BAD))
def test_what_cannot_be_forgotten_is_named_in_one_sentence(
    run: Path, tmp_path: Path, words: str, change: Callable[[Path], object], message: str
) -> None:
    for name, text in SAMPLES.items():
        (tmp_path / name).write_text(text)
    change(run)
    before = contents(run.parent)
    with pytest.raises(AssertionError, match=message):
        assert_unlearned(run, *words.replace("FOLDER", str(tmp_path)).split())
    assert contents(run.parent) == before


def assert_unlearned(folder: Path, *words: str) -> None:
    """Fails with the one sentence of a refusal."""
    done = command("unlearn", str(folder), *words)
    assert (done.code, done.err.count("\n"), done.out) in [(2, 1, ""), (0, 0, done.out)]
    assert done.code == 0, done.err


def test_nothing_everything_and_the_same_again_are_refused(run: Path, tmp_path: Path) -> None:
    with np.load(run / "stream.npz") as stream:
        (tmp_path / "all.txt").write_text("\n".join(map(str, stream["samples"])))
        first = stream["samples"][0]  # of task 1 and client 0
    (tmp_path / "one.txt").write_text(f"{first}\n")
    file = str(tmp_path / "one.txt")
    with pytest.raises(AssertionError, match="nothing to forget: no client has such samples"):
        assert_unlearned(run, "--samples", file, "--client", "1")
    with pytest.raises(AssertionError, match="All samples of the stream would be forgotten"):
        assert_unlearned(run, "--samples", str(tmp_path / "all.txt"))
    assert_unlearned(run, "--samples", file, "--no-proof")
    with pytest.raises(AssertionError, match=r"These samples were forgotten before, in .*: remove it to do so again"):
        assert_unlearned(run, "--samples", file, "--client", "0")


def test_a_method_that_does_not_offer_it_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("fcl_bench.methods.afcl.AFCL.unlearn")
    with pytest.raises(AssertionError, match="is one of afcl, which is exact but does not offer unlearn: see docs"):
        assert_unlearned(run, "--client", "1")
