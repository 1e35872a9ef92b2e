"""A record belongs to the contents it was made from, and tells the truth whenever a run ends."""

from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from conftest import Command, Outcome, command, read_json
from PIL import Image

from fcl_bench.backbone.weights import load_network


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
    return command(*small, *place, *words)


def test_other_images_at_the_same_setting_are_not_answered_with_the_old_table(tmp_path: Path) -> None:
    pictures(tmp_path / "a", 1)
    pictures(tmp_path / "b", 2)
    first = run(tmp_path / "a", tmp_path, "method=afcl")
    assert first.code == 0, first.err
    again = run(tmp_path / "a", tmp_path, "method=afcl")
    assert again.code == 0
    other = run(tmp_path / "b", tmp_path, "method=afcl")
    assert other.code == 1
    assert (
        "holds a different run: the contents of its data set, weights or stream were not the present ones" in other.err
    )
    assert first.result["status"] == "complete"


def test_other_initial_weights_of_a_trainable_backbone_are_not_answered_with_the_old_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcl_bench.run.identity.JUST_NOW", 0)  # the weights count as old
    weights = tmp_path / "weights.pth"

    def write(seed: int) -> None:
        torch.manual_seed(seed)
        torch.save(timm.create_model("test_efficientnet").state_dict(), weights)
        load_network.cache_clear()  # as a new process would

    def train() -> Outcome:
        backbone = ("backbone=timm", "backbone.name=test_efficientnet", f"backbone.weights={weights}")
        short = ("backbone.trainable=true", "backbone.input_size=32", "method.rounds=1", "method.epochs=1")
        return run(tmp_path / "data", tmp_path, "method=finetune", *backbone, *short)

    pictures(tmp_path / "data", 1)
    write(1)
    assert train().code == 0
    assert train().out.startswith("This run was finished before")
    write(2)
    other = train()
    assert other.code == 1
    assert "holds a different run: the contents of its data set, weights or stream were not the present" in other.err
    write(1)
    assert train().out.startswith("This run was finished before")


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
