"""Inputs are a handle: a path that opens itself when rows are asked for."""

import pickle
from pathlib import Path

import numpy as np
import torch

from fcl_bench.data.inputs import Inputs, SomeInputs


def stored(folder: Path, values: np.ndarray) -> Inputs:
    values.tofile(folder / "data.bin")
    return Inputs(folder / "data.bin", torch.from_numpy(values).dtype, values.shape)


def test_rows_are_those_of_the_file(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((10, 3), dtype=np.float32)
    inputs = stored(tmp_path, values)
    assert (len(inputs), inputs.shape, inputs.ndim, inputs.dtype) == (10, (10, 3), 2, torch.float32)
    np.testing.assert_array_equal(inputs.tensor, values)
    np.testing.assert_array_equal(inputs[torch.tensor([7, 0, 7])], values[[7, 0, 7]])
    batches = inputs.split(4)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    np.testing.assert_array_equal(torch.cat(batches), values)


def test_images_are_bytes(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 256, (5, 3, 4, 4), dtype=np.uint8)
    inputs = stored(tmp_path, values)
    assert (inputs.ndim, inputs.dtype) == (4, torch.uint8)
    np.testing.assert_array_equal(inputs[torch.tensor([4])], values[[4]])


def test_nothing_is_opened_before_a_row_is_asked_for(tmp_path: Path) -> None:
    inputs = Inputs(tmp_path / "later.bin", torch.uint8, (2, 3))
    assert (len(inputs), inputs.ndim) == (2, 2)
    inputs.path.write_bytes(bytes([1, 2, 3, 4, 5, 6]))
    assert inputs.tensor.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_a_pickle_holds_the_path_and_no_rows(tmp_path: Path) -> None:
    inputs = stored(tmp_path, np.ones((50_000, 128), dtype=np.float32))
    assert inputs.tensor.sum() == 50_000 * 128  # it is open
    data = pickle.dumps(inputs)
    assert len(data) < 500 + len(str(inputs.path))
    copy = pickle.loads(data)
    assert copy == inputs
    assert torch.equal(copy[torch.tensor([3])], torch.ones(1, 128))


def test_a_write_stays_in_this_process(tmp_path: Path) -> None:
    inputs = stored(tmp_path, np.zeros((4, 2), dtype=np.float32))
    inputs.tensor[1] = 5
    assert not np.fromfile(inputs.path, np.float32).any()


def test_some_rows_are_those_that_were_asked_for(tmp_path: Path) -> None:
    values = np.random.default_rng(2).standard_normal((10, 3), dtype=np.float32)
    rows = [8, 1, 5, 9, 0]
    some = SomeInputs(stored(tmp_path, values), torch.tensor(rows))
    assert (len(some), some.shape, some.ndim, some.dtype) == (5, (5, 3), 2, torch.float32)
    np.testing.assert_array_equal(some.tensor, values[rows])
    np.testing.assert_array_equal(some[torch.tensor([4, 0])], values[[0, 8]])
    batches = list(some.split(2))
    assert [len(batch) for batch in batches] == [2, 2, 1]
    np.testing.assert_array_equal(torch.cat(batches), values[rows])
    packed = pickle.dumps(some)
    assert len(packed) < 2000
    np.testing.assert_array_equal(pickle.loads(packed).tensor, values[rows])
