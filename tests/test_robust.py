"""Robust aggregation against definitions: brute force, numpy and scipy."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import trim_mean
from torch import nn

from fcl_bench.aggregate import Update
from fcl_bench.errors import UserError
from fcl_bench.message import snapshot
from fcl_bench.robust import aggregated, fewest, krum, median, trimmed_mean

RULES = ("median", "trimmed_mean", "krum", "multi_krum")
SHAPES = {"backbone.weight": (3, 2), "head.bias": (4,)}
ANYTHING = st.floats(width=32)  # NaN and infinity included
QUICK = settings(max_examples=60, deadline=None)


def update(row, samples=1):
    """A row of ten numbers as an update of two tensors."""
    one, other = np.split(np.asarray(row, dtype=np.float32), [6])
    weights = {"backbone.weight": torch.from_numpy(one.reshape(3, 2)), "head.bias": torch.from_numpy(other)}
    return Update(weights, samples)


def flat(weights):
    return np.concatenate([weights[name].numpy().ravel() for name in SHAPES])


def drawn(clients, seed=0):
    return np.random.default_rng(seed).normal(size=(clients, 10)).astype(np.float32)


def rows(clients, values):
    return st.lists(st.lists(values, min_size=10, max_size=10), min_size=clients, max_size=clients)


def krum_by_hand(vectors, liars):
    """The definition of the paper, in plain Python: the position of the winner, and the scores."""
    scores = []
    for one in vectors:
        distances = sorted(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) for other in vectors)
        scores.append(sum(distances[1 : len(vectors) - liars - 1]))  # the first is that to itself
    return int(np.argmin(scores)), scores


@pytest.mark.parametrize("clients", [1, 2, 5, 8])
def test_the_median_is_that_of_numpy(clients):
    vectors = drawn(clients)
    found = median([update(row) for row in vectors], default={})
    np.testing.assert_allclose(flat(found), np.median(vectors.astype(np.float64), axis=0), rtol=1e-6)


@pytest.mark.parametrize(("clients", "liars"), [(5, 0), (5, 1), (5, 2), (8, 3)])
def test_the_trimmed_mean_is_that_of_scipy(clients, liars):
    vectors = drawn(clients)
    found = trimmed_mean([update(row) for row in vectors], default={}, liars=liars)
    expected = trim_mean(vectors.astype(np.float64), (liars + 0.1) / clients, axis=0)  # scipy rounds the share down
    np.testing.assert_allclose(flat(found), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("clients", "liars"), [(5, 1), (5, 2), (7, 2), (9, 0), (12, 4)])
def test_krum_takes_the_update_of_the_definition_as_it_is(clients, liars):
    for seed in range(20):
        vectors = drawn(clients, seed)
        winner, scores = krum_by_hand(vectors.astype(np.float64), liars)
        found = flat(krum([update(row) for row in vectors], default={}, liars=liars))
        if clients - liars > 3:  # otherwise two share the smallest score
            np.testing.assert_array_equal(found, vectors[winner])
        tied = [row for row, score in zip(vectors, scores, strict=True) if np.isclose(score, min(scores), rtol=1e-12)]
        assert any(np.array_equal(found, row) for row in tied)


def test_multi_krum_is_the_mean_of_the_smallest_scores():
    vectors = drawn(7)
    _, scores = krum_by_hand(vectors.astype(np.float64), 2)
    expected = vectors[np.argsort(scores)[:5]].astype(np.float64).mean(axis=0)
    updates = [update(row) for row in vectors]
    np.testing.assert_allclose(flat(krum(updates, {}, liars=2, chosen=5)), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(
        flat(aggregated(updates, {}, "multi_krum", liars=2)), flat(krum(updates, {}, 2, chosen=5))
    )


@pytest.mark.parametrize("rule", RULES)
@given(vectors=rows(6, st.floats(-1e6, 1e6, width=32)), order=st.permutations(range(6)))
@QUICK
def test_the_order_of_updates_does_not_matter_to_the_bit(rule, vectors, order):
    updates = [update(row) for row in vectors]
    one = aggregated(updates, {}, rule, liars=1)
    other = aggregated([updates[position] for position in order], {}, rule, liars=1)
    np.testing.assert_array_equal(flat(one), flat(other))


def test_two_updates_with_the_same_score_are_told_apart_whatever_their_order():
    updates = [update(row) for row in drawn(4)]  # with one liar one neighbour counts: two nearest ones share a score
    found = [flat(krum([updates[i], *updates[:i], *updates[i + 1 :]], {}, liars=1)) for i in range(4)]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@pytest.mark.parametrize("rule", ["median", "trimmed_mean"])
@given(honest=rows(3, st.floats(-1e6, 1e6, width=32)), lies=rows(2, ANYTHING))
@QUICK
def test_what_liars_send_cannot_leave_the_range_of_honest_values(rule, honest, lies):
    found = flat(aggregated([update(row) for row in (*lies, *honest)], {}, rule, liars=2))
    truth = np.asarray(honest, dtype=np.float32)
    assert (truth.min(axis=0) <= found).all()
    assert (found <= truth.max(axis=0)).all()


@given(lies=rows(2, ANYTHING))
@QUICK
def test_krum_takes_an_honest_update_or_one_that_is_as_near(lies):
    honest = drawn(5)
    found = flat(krum([update(row) for row in (*lies, *honest)], {}, liars=2)).astype(np.float64)
    spread = max(np.linalg.norm(one - other) for one, other in combinations(honest.astype(np.float64), 2))
    assert min(np.linalg.norm(found - row) for row in honest) <= np.sqrt(3) * spread  # 3 neighbours count


@pytest.mark.parametrize("rule", RULES)
def test_a_far_lie_does_not_enter(rule):
    honest = drawn(4)
    for lie in (np.full(10, 1e30), np.full(10, np.nan), -10 * honest.mean(axis=0) - 100):
        updates = [update(lie, samples=10**9), *map(update, honest)]
        found = flat(aggregated(updates, {}, rule, liars=1))
        assert (np.abs(found) <= np.abs(honest).max()).all(), rule
    mean = flat(aggregated(updates, {}, "mean", liars=1))
    assert np.abs(mean).max() > 90


@pytest.mark.parametrize("rule", RULES)
def test_samples_count_only_as_some_or_none(rule):
    vectors = drawn(5)
    once = aggregated([update(row) for row in vectors], {}, rule, liars=1)
    numbers = (7, 1, 10**9, 3, 2)
    uneven = [update(row, samples) for row, samples in zip(vectors, numbers, strict=True)]
    absent = update(np.full(10, 50.0), samples=0)
    np.testing.assert_array_equal(flat(aggregated([absent, *uneven], {}, rule, liars=1)), flat(once))


@pytest.mark.parametrize("rule", RULES)
def test_equal_models_stay_as_they_are_to_the_bit_buffers_included(rule):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5))
    for _ in range(3):
        model(torch.randn(11, 7))
    weights = snapshot(model)
    found = aggregated([Update(weights, samples) for samples in (3, 7, 1, 19)], {}, rule, liars=1)
    assert set(found) == set(weights)
    for name, value in weights.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value)


def test_integer_buffers_are_rounded_and_do_not_count_in_distances():
    counters = [
        Update({"w": torch.tensor([value]), "n": torch.tensor(n)}, 1)
        for value, n in zip((0.0, 1.0, 1.1, 1.25, 9.0), (10**6, 4, 900, 6, 7), strict=True)
    ]
    assert median(counters[:4], {})["n"] == 453  # between 6 and 900
    assert median(counters[:4], {})["n"].dtype == torch.int64
    found = krum(counters, {}, liars=1)
    assert (found["w"].item(), found["n"].item()) == (pytest.approx(1.1), 900)  # 0.1**2 + 0.15**2 is the least


@pytest.mark.parametrize("rule", RULES)
def test_without_samples_or_answers_the_default_stays(rule):
    default = {"w": torch.ones(2)}
    assert aggregated([], default, rule, liars=1) is default
    assert aggregated([Update({"w": torch.zeros(2)}, 0)], default, rule, liars=1) is default


@pytest.mark.parametrize("liars", [0, 1, 2])
@pytest.mark.parametrize("rule", ["trimmed_mean", "krum", "multi_krum"])
def test_with_too_few_updates_the_default_stays_with_a_warning(rule, liars):
    default = {"w": torch.ones(2)}
    least = {"trimmed_mean": 2 * liars + 1}.get(rule, liars + 3)
    assert fewest(rule, liars) == least
    enough = [Update({"w": torch.tensor([float(n), 0.0])}, 1) for n in range(least)]
    assert aggregated(enough, default, rule, liars)["w"].isfinite().all()
    assert aggregated(enough, default, rule, liars) is not default
    if least > 1:
        with pytest.warns(UserWarning, match=f"A round has {least - 1} models .* with liars={liars} needs {least}: "):
            assert aggregated(enough[1:], default, rule, liars) is default


def test_the_functions_themselves_refuse_too_few_updates():
    updates = [Update({"w": torch.zeros(2)}, 1)] * 3
    with pytest.raises(UserError, match=r"Expected at least 4 updates with samples for krum with liars=1, but got 3: "):
        krum(updates, {}, liars=1)
    with pytest.raises(UserError, match=r"Expected at least 5 updates .* trimmed_mean with liars=2, but got 3: assume"):
        trimmed_mean(updates, {}, liars=2)


def test_updates_are_left_alone():
    updates = [update(row) for row in drawn(5)]
    before = [flat(each.weights) for each in updates]
    for rule in RULES:
        aggregated(updates, {}, rule, liars=1)
    for each, row in zip(updates, before, strict=True):
        np.testing.assert_array_equal(flat(each.weights), row)
