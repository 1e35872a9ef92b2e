"""Samples that an upload reveals, against a loop over the definition."""

import numpy as np
import pytest
import torch

from fcl_bench.client_data import ClientData
from fcl_bench.revealed import ClassSums, samples_revealed
from fcl_bench.traffic import Exchange
from fcl_bench.whole_numbers import Grid

RANDOM = torch.Generator().manual_seed(0)
FEATURES = torch.randn(60, 40, generator=RANDOM)
LABELS = torch.tensor([0, 1, 1, *range(2, 20), *torch.randint(2, 24, (39,), generator=RANDOM).tolist()])
DATA = ClientData(FEATURES, torch.randperm(60, generator=RANDOM), LABELS)


def rows(data=DATA):
    inputs, labels = data.tensors
    return inputs.double().numpy(), labels.numpy()


def sums_of(inputs, labels, classes=24):
    return np.stack([inputs[labels == number].sum(axis=0) for number in range(classes)])


def test_it_is_the_samples_that_are_the_sum_of_their_class():
    inputs, labels = rows()
    singles = sum(np.bincount(labels) == 1)
    assert singles > 3
    assert samples_revealed(ClassSums(torch.from_numpy(sums_of(inputs, labels)), 0.0), DATA) == singles


@pytest.mark.parametrize("resolution", [0.0, 0.01, 1.0, 5.0])
def test_a_sample_counts_if_no_feature_is_further_away_than_the_resolution(resolution):
    inputs, labels = rows()
    sums = sums_of(inputs, labels) + np.linspace(-0.02, 0.02, 40)
    expected = 0
    for row, label in zip(inputs, labels, strict=True):
        expected += max(abs(row - sums[label])) <= resolution
    assert samples_revealed(ClassSums(torch.from_numpy(sums), resolution), DATA) == expected


def test_one_other_feature_far_behind_is_enough_to_be_another_sample():
    sums = FEATURES[:1].double().clone()
    sums[0, -1] += 1e-6
    one = ClientData(FEATURES, torch.tensor([0]), torch.tensor([0]))
    assert samples_revealed(ClassSums(sums, 1e-7), one) == 0
    assert samples_revealed(ClassSums(sums, 1e-5), one) == 1


def test_sums_of_features_of_length_1_reveal_directions():
    inputs, labels = rows()
    sums = torch.from_numpy(sums_of(inputs / np.linalg.norm(inputs, axis=1, keepdims=True), labels))
    singles = sum(np.bincount(labels) == 1)
    assert samples_revealed(ClassSums(sums, 1e-12, normalised=True), DATA) == singles
    assert samples_revealed(ClassSums(sums, 1e-12), DATA) == 0


def test_classes_that_are_not_told_and_clients_without_data_reveal_nothing():
    inputs, labels = rows()
    told = torch.from_numpy(sums_of(inputs, labels)[:10])
    assert samples_revealed(ClassSums(told, 0.0), DATA) == sum(np.bincount(labels)[:10] == 1)
    nobody = ClientData(FEATURES, torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))
    assert samples_revealed(ClassSums(told, 0.0), nobody) == 0


def test_samples_that_are_sent_as_they_are_count_without_a_look():
    assert samples_revealed(ClassSums(torch.zeros(0, 0), 0.0, samples=60), DATA) == 60


@pytest.mark.parametrize("bits", range(2, 18))
def test_the_resolution_of_a_grid_is_what_rounding_can_do(bits):
    grid = Grid(bits, bound=6.0)
    features = 6 * torch.rand(200_000, generator=torch.Generator().manual_seed(bits))
    numbers, _ = grid.rounded(features)
    error = np.abs(numbers.double().numpy() * grid.step - features.double().numpy()).max()
    assert 0.98 * grid.resolution < error <= grid.resolution < 0.52 * grid.step


def test_an_exchange_counts_samples_and_uploads_of_what_is_measured():
    exchange = Exchange(task=0, exchange=0, function="f", asked=4)
    exchange.revealed(None)
    assert (exchange.samples_revealed, exchange.revealing_uploads) == (None, None)
    for samples in (0, 3, None, 2):
        exchange.revealed(samples)
    assert (exchange.samples_revealed, exchange.revealing_uploads) == (5, 2)
