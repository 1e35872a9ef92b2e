import numpy as np
import pytest
import torch

from fcl_bench.replay import Samples, kept, reservoir


@pytest.mark.parametrize("parts", [(30,), (10, 20), (1,) * 30, (5, 0, 25)])
def test_a_reservoir_keeps_every_sample_with_the_same_probability(parts):
    """4,000 reservoirs of 6 out of 30: each sample is in 800 of them, give or take 5 standard deviations."""
    torch.manual_seed(0)
    counts = np.zeros(30)
    for _ in range(4000):
        held, seen = None, 0
        for part in parts:
            slots = reservoir(6, seen, part)
            if len(slots) and part:
                held = kept(held, torch.arange(seen, seen + part), slots)
            seen += part
        assert len(set(held.tolist())) == 6
        counts[held.numpy()] += 1
    assert np.abs(counts - 800).max() < 5 * np.sqrt(4000 * 0.2 * 0.8)


def test_a_reservoir_that_is_not_full_keeps_everything():
    first = kept(None, torch.tensor([4, 5]), reservoir(5, 0, 2))
    second = kept(first, torch.tensor([6, 7]), reservoir(5, 2, 2))
    assert second.tolist() == [4, 5, 6, 7]
    assert len(reservoir(5, 0, 0)) == 0


def test_samples_join_and_are_drawn_in_pairs():
    one, two = (Samples(torch.full((3, 2), float(label)), torch.full((3,), label)) for label in (1, 2))
    both = one + two
    assert both.labels.tolist() == [1, 1, 1, 2, 2, 2]
    inputs, labels = both.drawn(50, torch.device("cpu"))
    assert torch.equal(inputs, labels[:, None].expand(-1, 2).float())
    assert set(labels.tolist()) == {1, 2}
