"""The table of lying clients: what a lie is, and that the table says what ordinary runs say."""

import sys
from importlib import import_module

import numpy as np
import pytest
import torch
from conftest import ROOT, TINY, Command

from fcl_bench.aggregate import Update
from fcl_bench.averaging import Round
from fcl_bench.moments import Moments
from fcl_bench.partition import Dirichlet
from fcl_bench.stream import make_stream
from fcl_bench.temporal import SiBlurry

SMALL = (*TINY, "partition.clients=5", "budget.rounds=4", "budget.epochs=1")
RANDOM = np.random.default_rng(0)


@pytest.fixture
def lying(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return import_module("benchmarks.lying_clients")


def test_wrong_labels_are_the_next_class_of_the_liar_and_nobody_else_has_them(lying):
    labels = np.arange(120) % 6
    stream = make_stream(labels, labels, SiBlurry(3), Dirichlet(3, alpha=0.5), seed=1)
    numbers = torch.from_numpy(stream.number[labels])
    wrong = lying.mislabelled(numbers, stream)
    for task in range(3):
        own = stream.indices(task, lying.LIAR)
        classes = sorted({int(number) for number in numbers[own]})
        following = dict(zip(classes, [*classes[1:], classes[0]], strict=True))
        assert wrong[own].tolist() == [following[int(number)] for number in numbers[own]]
        for client in (1, 2):
            theirs = stream.indices(task, client)
            assert torch.equal(wrong[theirs], numbers[theirs])


def test_a_lie_about_a_model_begins_at_what_was_received(lying):
    received = Round({"w": torch.tensor([1.0, 2.0])}, columns=None, lr=0.1)
    honest = Update({"w": torch.tensor([2.0, 0.0])}, samples=7)
    longer = lying.distorted(honest, (received,), lying.longer, RANDOM)
    assert longer.weights["w"].tolist() == [11.0, -18.0]
    assert longer.samples == 7
    assert lying.distorted(honest, (received,), lying.flipped, RANDOM).weights["w"].tolist() == [-9.0, 22.0]
    noise = lying.distorted(honest, (received,), lying.noisy, RANDOM).weights["w"] - honest.weights["w"]
    assert float(noise.norm()) == pytest.approx(10 * 5**0.5, rel=1e-5)


def test_a_lie_about_sums_keeps_their_type_and_the_numbers_of_samples(lying):
    sums = Moments(torch.tensor([3], dtype=torch.int32), torch.tensor([[5, -7]]), torch.tensor([4, 0]))
    lie = lying.distorted(sums, (6,), lying.flipped, RANDOM)
    assert (lie.gram.tolist(), lie.cross.tolist()) == ([-30], [[-50, 70]])
    assert (lie.gram.dtype, lie.counts.tolist()) == (torch.int32, [4, 0])
    assert lying.distorted(None, (), lying.flipped, RANDOM) is None


def test_the_table_has_the_accuracy_of_the_ordinary_run_and_a_median_that_holds(
    lying, tiny: Command, cache_dir, capsys, monkeypatch
):
    options = ["--seeds", "1", "--methods", "finetune,fedncm", "--rules", "mean,median"]
    monkeypatch.setattr(sys, "argv", ["lying_clients", *options, *SMALL, f"cache_dir={cache_dir}"])
    lying.main()
    titles, _, *rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert titles == ["method", "aggregation", *lying.LIES]
    assert [row[:2] for row in rows] == [["`finetune`", "mean"], ["`finetune`", "median"], ["`fedncm`", "n/a"]]
    for cells in rows:
        name, rule, *accuracies = cells
        averaging = [] if rule == "n/a" else [f"method.aggregation={rule}"]
        plain = tiny(f"method={name.strip('`')}", *averaging, *SMALL, "seed=1")
        assert plain.code == 0, plain.err
        assert accuracies[0] == f"{plain.result['curves']['whole_accuracy'][-1]:.1f} ± 0.0"
    mean, median = ([float(cell.split()[0]) for cell in row[2:]] for row in rows[:2])
    flipped = titles.index("sign flip x10") - 2
    assert mean[flipped] < median[flipped]
