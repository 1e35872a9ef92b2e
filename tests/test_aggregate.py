import torch
from torch import nn

from fcl_bench.aggregate import Update, weighted_mean
from fcl_bench.message import snapshot


def test_the_mean_of_equal_models_is_that_model_to_the_bit_buffers_included():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5))
    for _ in range(3):
        model(torch.randn(11, 7))
    weights = snapshot(model)
    mean = weighted_mean([Update(weights, samples) for samples in (3, 7, 1, 19)], default={})
    assert set(mean) == set(weights)
    for name, value in weights.items():
        assert mean[name].dtype == value.dtype
        assert torch.equal(mean[name], value)


def test_the_mean_is_weighted_by_samples():
    updates = [Update({"w": torch.tensor([1.0, 2.0])}, 1), Update({"w": torch.tensor([4.0, 8.0])}, 2)]
    assert torch.equal(weighted_mean(updates, {})["w"], torch.tensor([3.0, 6.0]))  # (1 + 2*4)/3, (2 + 2*8)/3


def test_integer_buffers_are_rounded_and_stay_integers():
    updates = [Update({"n": torch.tensor(3)}, 1), Update({"n": torch.tensor(5)}, 2)]
    mean = weighted_mean(updates, {})["n"]
    assert mean.dtype == torch.int64
    assert mean == 4  # 13/3 = 4.33


def test_without_samples_or_answers_the_default_stays():
    default = {"w": torch.ones(2)}
    assert weighted_mean([], default) is default
    assert weighted_mean([Update({"w": torch.zeros(2)}, 0)], default) is default


def test_counted_once_every_client_has_the_same_weight_unless_it_has_no_samples():
    updates = [Update({"w": torch.tensor([value])}, samples) for value, samples in ((1.0, 5), (3.0, 100), (50.0, 0))]
    mean = weighted_mean([update.counted_once() for update in updates], {})
    assert torch.equal(mean["w"], torch.tensor([2.0]))
    assert updates[1].samples == 100


def test_updates_are_left_alone():
    update = Update({"w": torch.ones(3)}, 2)
    weighted_mean([update, Update({"w": torch.zeros(3)}, 2)], {})
    assert torch.equal(update.weights["w"], torch.ones(3))
