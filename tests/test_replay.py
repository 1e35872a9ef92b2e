import numpy as np
import pytest
import torch

from fcl_bench.decoding import decode
from fcl_bench.message import encode
from fcl_bench.message_classes import named
from fcl_bench.replay import Reservoir, Samples
from fcl_bench.traffic import size

CPU = torch.device("cpu")


@pytest.mark.parametrize("parts", [(30,), (10, 20), (1,) * 10, (5, 0, 25)])
def test_a_reservoir_keeps_every_row_with_the_same_probability(parts):
    """4,000 reservoirs of 6 out of n rows: each row is in its share of them, give or take 5 standard deviations."""
    torch.manual_seed(0)
    counts = np.zeros(sum(parts))
    share = 6 / len(counts)
    for _ in range(4000):
        reservoir = Reservoir()
        for part in parts:
            reservoir = reservoir.add(6, numbers=torch.arange(reservoir.seen, reservoir.seen + part))
        assert len(set(reservoir["numbers"].tolist())) == len(reservoir) == 6
        counts[reservoir["numbers"].numpy()] += 1
    assert np.abs(counts - 4000 * share).max() < 5 * np.sqrt(4000 * share * (1 - share))


def test_columns_stay_together():
    torch.manual_seed(0)
    reservoir = Reservoir()
    for start in range(0, 60, 20):
        numbers = torch.arange(start, start + 20)
        reservoir = reservoir.add(7, inputs=numbers[:, None].expand(-1, 3) * 2.0, labels=numbers)
    assert torch.equal(reservoir["inputs"], reservoir["labels"][:, None].expand(-1, 3) * 2.0)
    drawn = reservoir.draw(50, CPU)
    assert torch.equal(drawn["inputs"], drawn["labels"][:, None].expand(-1, 3) * 2.0)
    assert set(drawn["labels"].tolist()) == set(reservoir["labels"].tolist())


def test_a_reservoir_that_is_not_full_keeps_everything_and_adding_leaves_the_old_one_alone():
    first = Reservoir().add(5, labels=torch.tensor([4, 5]))
    second = first.add(5, labels=torch.tensor([6, 7]))
    assert second["labels"].tolist() == [4, 5, 6, 7]
    assert first["labels"].tolist() == [4, 5]
    assert (first.seen, second.seen) == (2, 4)
    assert len(Reservoir()) == 0
    assert Reservoir().add(5, labels=torch.tensor([])) == Reservoir()


def test_old_rows_are_filled_up_where_new_ones_are_longer():
    first = Reservoir().add(5, logits=torch.tensor([[1.0, 2.0]]))
    second = first.add(5, logits=torch.tensor([[3.0, 4.0, 5.0]]))
    assert second["logits"].tolist() == [[1, 2, 0], [3, 4, 5]]


def test_a_reservoir_is_a_message():
    reservoir = Reservoir().add(5, inputs=torch.ones(2, 3), labels=torch.tensor([0, 1]))
    assert encode(decode(encode(reservoir), named(Reservoir))) == encode(reservoir)
    assert size(reservoir) == 8 + 2 * 3 * 4 + 2 * 8


def test_samples_join():
    one, two = (Samples(torch.full((3, 2), float(label)), torch.full((3,), label)) for label in (1, 2))
    both = one + two
    assert both.labels.tolist() == [1, 1, 1, 2, 2, 2]
    assert both.inputs[:, 0].tolist() == [1, 1, 1, 2, 2, 2]
