"""A record belongs to the contents it was made from, and tells the truth whenever a run ends."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Command, Outcome, command, read_json
from PIL import Image


def pictures(root: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    for half, count in (("train", 8), ("test", 3)):
        for label in range(3):
            folder = root / "images" / half / f"class{label}"
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = random.integers(0, 60, (6, 6, 3), dtype=np.uint8) + np.uint8(60 * label)
                Image.fromarray(pixels).save(folder / f"{number}.png")


def run(data_dir: Path, tmp_path: Path, *words: str) -> Outcome:
    place = (f"data_dir={data_dir}", f"output_dir={tmp_path / 'runs'}", f"cache_dir={tmp_path / 'cache'}")
    small = ("dataset=image_folder", "backbone=none", "stream.tasks=2", "partition.clients=2")
    return command("method=afcl", *small, *place, *words)


def test_other_images_at_the_same_setting_are_not_answered_with_the_old_table(tmp_path: Path) -> None:
    pictures(tmp_path / "a", 1)
    pictures(tmp_path / "b", 2)
    first = run(tmp_path / "a", tmp_path)
    assert first.code == 0, first.err
    again = run(tmp_path / "a", tmp_path)
    assert again.code == 0
    other = run(tmp_path / "b", tmp_path)
    assert other.code == 1
    assert (
        "holds a different run: the contents of its data set, weights or stream were not the present ones" in other.err
    )
    assert first.result["status"] == "complete"


def test_a_run_stopped_before_its_first_task_is_marked_interrupted(
    tiny: Command, output_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fcl_bench.run.scenario.cached_inputs", stop)
    assert tiny("method=afcl").code == 130
    (path,) = output_dir.rglob("result.json")
    result = read_json(path)
    assert (result["status"], result["matrix"]) == ("interrupted", [])
    monkeypatch.undo()
    assert tiny("method=afcl").result["status"] == "complete"


def test_a_repetition_is_marked_interrupted_from_its_start(tiny: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tiny("method=afcl")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fcl_bench.run.scenario.cached_inputs", stop)
    assert tiny("method=afcl", "resume=false").code == 130
    assert first.result["status"] == "interrupted"


def test_a_wrong_setting_that_is_found_late_leaves_no_folder(tiny: Command, output_dir: Path) -> None:
    refused = tiny("method=finetune", "method.optimizer.momentum=-1")
    assert refused.code == 2
    assert "Expected method.optimizer to be one that torch accepts" in refused.err
    assert not list(output_dir.rglob("*.json"))


def test_a_sweep_into_a_file_is_refused(tiny: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = tiny("-m", "method=afcl", f"output_dir={tmp_path / 'file' / 'runs'}")
    assert refused.code == 1
    assert "set output_dir= to another folder" in refused.err
