"""Runs on the first classes of a data set only."""

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Command, Outcome

from fcl_bench.config.compose import composed
from fcl_bench.config.run_id import run_id
from fcl_bench.dataset import limited, with_first_classes
from fcl_bench.datasets.digits import digits


def test_both_halves_keep_the_samples_of_these_classes_in_their_order() -> None:
    whole = digits("digits", Path())
    part = with_first_classes(whole, 3)
    assert part.classes == ("0", "1", "2")
    for half, own in ((whole.train, part.train), (whole.test, part.test)):
        kept = [position for position, label in enumerate(half.labels.tolist()) if label in (0, 1, 2)]
        assert own.labels.tolist() == [half.labels[position] for position in kept]
        backwards = np.arange(len(kept))[::-1].copy()
        read = own.read(backwards)
        expected = half.read(np.array(kept[::-1]))
        assert isinstance(read, torch.Tensor)
        assert isinstance(expected, torch.Tensor)
        assert torch.equal(read, expected)


def test_a_part_is_other_data_than_the_whole() -> None:
    whole = digits("digits", Path())
    parts = [whole, with_first_classes(whole, 3), with_first_classes(whole, 4)]
    parts.append(limited(with_first_classes(whole, 3), 50, None, seed=1))
    assert len({part.fingerprint for part in parts}) == len(parts)
    assert len(parts[-1].train.labels) == 50
    assert set(parts[-1].train.labels) == {0, 1, 2}


@pytest.mark.parametrize("number", [None, 10, 11])
def test_a_number_that_leaves_nothing_out_changes_nothing(number: int | None) -> None:
    whole = digits("digits", Path())
    assert with_first_classes(whole, number) is whole


def test_a_run_learns_and_is_tested_on_these_classes_only(tiny: Command) -> None:
    done: Outcome = tiny("method=finetune", "limit_classes=3", "stream=disjoint", "stream.tasks=3")
    assert done.code == 0, done.err
    assert done.result["config"]["limit_classes"] == 3
    saved = np.load(done.folder / "predictions.npz")
    assert set(saved["targets"]) == {0, 1, 2}
    assert set(saved["predictions"][-1]) <= {0, 1, 2}
    dealt = np.load(done.folder / "stream.npz")
    assert len(dealt["order"]) == 3


def test_a_record_of_the_time_before_the_setting_has_the_run_id_that_it_had() -> None:
    config = composed("method=finetune")
    before = run_id(config)
    del config["limit_classes"]
    assert run_id(config) == before
