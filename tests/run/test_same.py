"""Two records are the same run to the bit, or it is said where they part first."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TINY, Command, Outcome, command, read_json
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from test_trust import change

EVERYTHING = "settings, contents, stream, accuracies, traffic, exchanges, predictions, evidence, final state"


@pytest.fixture
def pair(afcl_run: Outcome, tmp_path: Path) -> tuple[Path, Path]:
    """A finished run and a copy of it, to be changed."""
    return afcl_run.folder, afcl_run.kept(tmp_path / "copy").folder


def parted(one: Path, other: Path) -> str:
    told = command("same", str(one), str(other))
    assert (told.code, told.out) == (1, "")
    assert told.err.count("\n") == 1
    return told.err.removeprefix("fcl_bench: Not the same run: ").rstrip(".\n")


def test_a_run_repeated_elsewhere_is_the_same(afcl_run: Outcome, tmp_path: Path, cache_dir: Path) -> None:
    words = (*TINY, f"output_dir={tmp_path}", f"cache_dir={cache_dir}", "method=afcl", "transport=wire", "logger=none")
    again = command(*words)
    assert again.result["seconds"] != afcl_run.result["seconds"]
    told = command("same", str(afcl_run.folder), str(again.folder / "result.json"))
    assert (told.code, told.err) == (0, "")
    assert told.out == f"The same run to the bit: {EVERYTHING} are equal.\n"


def test_what_not_both_have_is_not_compared_and_said(pair: tuple[Path, Path]) -> None:
    one, other = pair
    (other / "checkpoint" / "checkpoint.safetensors").unlink()
    (other / "exchanges.jsonl").unlink()
    told = command("same", str(one), str(other))
    assert told.code == 0
    assert told.out.endswith(" are equal. Not compared, as not both have it: exchanges, final state.\n")


def test_other_settings_are_named(afcl_run: Outcome, tiny: Command) -> None:
    other = tiny("method=afcl", "method.gamma=2")
    assert parted(afcl_run.folder, other.folder).startswith(
        "they have other settings, method.gamma is 1 in the first and 2 in the second"
    )
    seed = tiny("method=afcl", "seed=2")
    assert parted(afcl_run.folder, seed.folder).startswith("they have other settings, seed is 1 in the first and 2 in")


def test_the_first_exchange_that_differs_is_named(pair: tuple[Path, Path]) -> None:
    one, other = pair
    log = other / "exchanges.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines[1]["uplink_bytes"] += 8
    lines[2]["uplink_bytes"] += 16
    lines[0]["client_seconds"] += 1.0
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    before = lines[1]["uplink_bytes"] - 8
    assert parted(one, other) == (
        f"task 2, exchange 1 (summarise), uplink_bytes is {before} in the first and {before + 8} in the second"
    )


def without_digests(result: dict[str, Any]) -> None:
    result.pop("digests")


def test_the_first_predictions_that_differ_are_named_with_their_number(pair: tuple[Path, Path]) -> None:
    one, other = pair
    change(other, without_digests)
    path = other / "predictions.npz"
    with np.load(path) as saved:
        arrays = {name: saved[name] for name in saved.files}
    arrays["confidences"][1, 3:5] += np.float32(0.25)
    np.savez(path, **arrays)
    assert parted(one, other) == "confidences after task 2 differ for 2 of 60 test samples by up to 2.5e-01"


def test_a_tensor_of_the_final_state_that_differs_is_named(pair: tuple[Path, Path]) -> None:
    one, other = pair
    path = other / "checkpoint" / "checkpoint.safetensors"
    with safe_open(path, "numpy") as saved:
        metadata = saved.metadata()
    tensors = load_file(path)
    whole = max(tensors, key=lambda name: tensors[name].size * (tensors[name].dtype == np.int32))
    tensors[whole] = tensors[whole].copy()
    tensors[whole].reshape(-1)[5] += 3
    save_file(tensors, path, metadata)
    assert parted(one, other).startswith("in the final state, state.")
    assert parted(one, other).endswith("differs by up to 3.0e+00")


def test_one_number_of_a_record_without_other_evidence_is_found(pair: tuple[Path, Path]) -> None:
    one, other = pair
    change(other, lambda result: result["curves"]["macro_f1"].__setitem__(1, 12.5), digests="none")
    before = read_json(one / "result.json")["curves"]["macro_f1"][1]
    assert parted(one, other).startswith(f"after task 2, macro_f1 is {before} in the first and 12.5 in the second")


def test_a_number_among_the_views_that_belongs_to_no_task_is_compared_as_it_is(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    one, other = shutil.copytree(pair[0], tmp_path / "one"), pair[1]
    for path, value in ((one, 1.0), (other, 2.0)):
        change(path, lambda result, value=value: result["views"]["present"].update(more=value), digests="none")
    assert parted(one, other).startswith("after task 1, present, more is 1.0 in the first and 2.0 in the second")


def test_other_circumstances_are_named_where_bits_differ(pair: tuple[Path, Path]) -> None:
    one, other = pair
    change(other, lambda result: result["environment"].update(threads="99"), digests="again")
    assert command("same", str(one), str(other)).code == 0
    change(other, lambda result: result["curves"]["macro_f1"].__setitem__(0, 12.5), digests="again")
    assert parted(one, other).endswith(". They were computed with other threads")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda folder: (folder / "result.json").unlink(), "There is no record "),
        (lambda folder: (folder / "result.json").write_text("[" * 10_000), "cannot be read (it is nested more than 60"),
        (lambda folder: change(folder, lambda result: result.update(status="interrupted")), "is not finished"),
        (lambda folder: change(folder, lambda result: result.update(seed=2)), "was changed"),
        (lambda folder: (folder / "exchanges.jsonl").write_text("5\n"), "exchanges.jsonl cannot be read"),
        (lambda folder: (folder / "predictions.npz").write_bytes(b"PK"), "predictions.npz cannot be read"),
        (
            lambda folder: (folder / "checkpoint" / "checkpoint.safetensors").write_bytes(b"\xff" * 100),
            "checkpoint.safetensors cannot be read",
        ),
    ],
)
def test_what_cannot_be_compared_is_said_with_exit_code_2(pair: tuple[Path, Path], damage: Any, reason: str) -> None:
    one, other = pair
    damage(other)
    told = command("same", str(one), str(other))
    assert (told.code, told.out) == (2, "")
    assert reason in told.err
    assert told.err.count("\n") == 1


def test_what_earlier_versions_did_not_measure_does_not_make_another_run(pair: tuple[Path, Path]) -> None:
    one, other = pair

    def make_older(result: dict[str, Any]) -> None:
        result.pop("evidence")
        for part in ("metrics", "curves"):
            result[part].pop("macro_f1")

    change(other, make_older, digests="none")
    told = command("same", str(one), str(other))
    assert told.code == 0
    assert told.out.endswith(" are equal. Not compared, as not both have it: evidence, macro_f1.\n")
