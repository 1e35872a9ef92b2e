"""Damaged run folders are gone on with to the same end, or refused in a sentence."""

import importlib
import json
import os
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, TINY, Command, Outcome, assert_equal_runs, command, contents

from fcl_bench.run import pace
from fcl_bench.transport import Call

QUICK = ("method=scaffold", "method.rounds=2", "method.epochs=1")
LAST = "checkpoint/checkpoint.safetensors"
BEFORE = "checkpoint/before.safetensors"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Outcome:
    """A run that nothing has happened to."""
    return command(*TINY, *QUICK, f"cache_dir={cache_dir}", f"output_dir={tmp_path_factory.mktemp('whole')}")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Path:
    """The output folder of a run that was stopped in the last round of its third task, with two checkpoints."""
    from fcl_bench.transport.site import LocalSite

    place = tmp_path_factory.mktemp("stopped")
    answer = LocalSite.answer

    def stopping(self: LocalSite, call: Call, client: int) -> object:
        if (call.task, call.exchange) == (2, 1):
            raise KeyboardInterrupt
        return answer(self, call, client)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "SHARE", float("inf"))
        patch.setattr(LocalSite, "answer", stopping)
        assert command(*TINY, *QUICK, f"cache_dir={cache_dir}", f"output_dir={place}").code == 130
    return place


@pytest.fixture
def interrupted(stopped: Path, output_dir: Path) -> Path:
    """A copy of its folder, where ``tiny`` goes on with it."""
    shutil.copytree(stopped, output_dir)
    (result,) = output_dir.rglob("result.json")
    return result.parent


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 16
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def refused(tiny: Command, pattern: str) -> None:
    """One sentence, and nothing else on the error stream."""
    done = tiny(*QUICK)
    assert done.code == 1
    assert re.fullmatch(rf"fcl_bench: {pattern}\n", done.err), done.err


@pytest.mark.parametrize("place", [3, 90, 300, -1])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    tiny: Command, interrupted: Path, whole: Outcome, place: int
) -> None:
    flip(interrupted / LAST, place)
    done = tiny(*QUICK)
    assert re.search(
        rf"warning: The checkpoint \S+{LAST} cannot be read .*: the run goes on from the one before", done.err
    )
    assert "resumed   after task 2 of 3" in done.out
    assert "round 1 of the next" not in done.out
    assert_equal_runs(done, whole)


def test_two_damaged_checkpoints_are_told(tiny: Command, interrupted: Path) -> None:
    for name in (LAST, BEFORE):
        truncate(interrupted / name)
    refused(tiny, rf"The checkpoint \S+{LAST} cannot be read \(it is damaged.*\): remove it, or set resume=false\.")
    assert tiny(*QUICK, "resume=false").code == 0


def test_a_checkpoint_without_a_seal_is_told(tiny: Command, interrupted: Path) -> None:
    from fcl_bench.message import encode

    (interrupted / BEFORE).unlink()
    (interrupted / LAST).write_bytes(encode({"progress": {}, "memories": {}}))
    refused(
        tiny, r".*\(it has no seal: an earlier version wrote it, or it is damaged\): remove it, or set resume=false\."
    )


@pytest.mark.parametrize("other", ["seed=2", "method.lr=0.02", "partition.alpha=0.2", "dataset.data_seed=1"])
def test_a_checkpoint_of_another_run_is_refused(tiny: Command, output_dir: Path, interrupted: Path, other: str) -> None:
    foreign = tiny(*QUICK, other, f"output_dir={output_dir}-other").folder
    shutil.copy(foreign / LAST, interrupted / LAST)
    refused(tiny, r"The checkpoints in \S+ are those of another run, .*: move them away, or set resume=false\.")


def test_a_kill_between_two_names_loses_nothing(tiny: Command, interrupted: Path, whole: Outcome) -> None:
    os.replace(interrupted / LAST, interrupted / "checkpoint" / "next.safetensors")
    done = tiny(*QUICK)
    assert "resumed   after task 2 of 3, round 1 of the next" in done.out
    assert done.err == ""
    assert set(os.listdir(interrupted / "checkpoint")) == {"checkpoint.safetensors", "before.safetensors"}
    assert_equal_runs(done, whole)


FOREIGN = ["link", "pipe", "folder"]


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("name", [LAST, "exchanges.jsonl", "result.json", "config.yaml", ".lock"])
def test_what_is_no_file_is_refused(tiny: Command, interrupted: Path, name: str, kind: str) -> None:
    path = interrupted / name
    aside = path.with_name("aside")
    os.replace(path, aside)
    match kind:
        case "link":
            path.symlink_to(aside)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
    refused(tiny, rf"Expected {path} to be a file, but it is a link, a folder or a device: move it away\.")


def test_a_linked_checkpoint_folder_is_refused(tiny: Command, interrupted: Path, tmp_path: Path) -> None:
    folder = interrupted / "checkpoint"
    shutil.move(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    refused(tiny, rf"Expected {folder} to be a folder, but it is a link or a file: move it away\.")


@pytest.mark.parametrize("damage", ["cut in the middle", "foreign line", "binary", "gone"])
def test_a_damaged_log_is_told(tiny: Command, interrupted: Path, damage: str) -> None:
    log = interrupted / "exchanges.jsonl"
    data = log.read_bytes()
    log.write_bytes(
        {
            "cut in the middle": data[:200],
            "foreign line": b'{"task": 0}\n' + data,
            "binary": b"\xff\xfe" + data[2:],
            "gone": b"",
        }[damage]
    )
    refused(tiny, r".*\(exchanges\.jsonl is not the log that it belongs to\): remove it, or set resume=false\.")


def test_a_log_without_its_last_line_goes_with_the_checkpoint_before(
    tiny: Command, interrupted: Path, whole: Outcome
) -> None:
    log = interrupted / "exchanges.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    done = tiny(*QUICK)
    assert "warning: The checkpoint" in done.err
    assert_equal_runs(done, whole)


def test_results_are_those_of_the_checkpoint(tiny: Command, whole: Outcome) -> None:
    """Where all is learned and only the last word is missing, nothing is taken from the files of the record."""
    done = tiny(*QUICK)
    result = json.loads((done.folder / "result.json").read_text())
    result["status"] = "interrupted"
    result["curves"]["average_accuracy"][0] = 99.0
    (done.folder / "result.json").write_text(json.dumps(result))
    (done.folder / "predictions.npz").write_bytes(b"nothing")
    again = tiny(*QUICK)
    assert_equal_runs(again, whole)


def test_temporary_files_of_a_kill_are_removed_and_no_others(tiny: Command, interrupted: Path) -> None:
    ours = [".result.json.ab12cd_9", ".predictions.npz.abcdefgh", "checkpoint/.next.safetensors.0000000z"]
    others = [".notes.json.ab12cd_9", ".result.json.backup", "result.json.ab12cd_9", "checkpoint/.mine"]
    for name in ours + others:
        (interrupted / name).write_bytes(b"part")
    tiny(*QUICK)
    there = contents(interrupted)
    assert not set(ours) & set(there)
    assert set(others) <= set(there)


def test_a_repetition_leaves_nothing_of_the_first_run(
    tiny: Command, interrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted_at_once(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fcl_bench.methods.scaffold.Scaffold.learn", interrupted_at_once)
    assert tiny(*QUICK, "resume=false").code == 130
    assert set(contents(interrupted)) - {".lock"} == {
        *("config.yaml", "stream.npz", "stream.json", "result.json", "exchanges.jsonl"),
        *("metrics.csv", "exchanges.csv"),
    }
    assert (interrupted / "exchanges.jsonl").read_bytes() == b""


def test_a_short_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setattr(pace, "SHARE", pace.SHARE)  # which the command sets
    damage = importlib.import_module("benchmarks.damage")
    count = damage.folders(8, random.Random(3))
    assert damage.good(count), count
    assert count["goes on to the same end"] > 0
    assert np.sum(list(count.values())) == 8
