"""What trials are run and scored on."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY, Command, command

from fcl_bench import datasets
from fcl_bench.data.inputs import SomeInputs
from fcl_bench.dataset import Dataset, Part
from fcl_bench.datasets import gaussian as module
from fcl_bench.tuning.held_out import held_out_samples, hold_out
from fcl_bench.tuning.subject import subject

Halves = Callable[[Dataset], dict[str, Any]]


class Untouchable:
    """A half that nobody may look at."""

    def __getattr__(self, name: str) -> None:
        raise AssertionError(f"{name} of the test half was asked for")


@pytest.fixture
def dealt(monkeypatch: pytest.MonkeyPatch) -> Callable[[Halves], None]:
    """Let the data set have other halves."""

    def deal(halves: Halves) -> None:
        whole = module.gaussian

        @wraps(whole)
        def other(*arguments: Any, **keywords: Any) -> Dataset:
            dataset = whole(*arguments, **keywords)
            return replace(dataset, fingerprint=f"{dataset.fingerprint} dealt anew", **halves(dataset))

        monkeypatch.setattr(datasets.gaussian, "gaussian", other)

    return deal


def tuned(out: Path, cache: Path, *words: str) -> Any:
    return command("tune", *TINY, f"cache_dir={cache}", "--out", str(out), *words)


def test_the_test_half_is_never_read(tmp_path: Path, tiny: Command, dealt: Callable[[Halves], None]) -> None:
    dealt(lambda dataset: {"test": Untouchable()})
    with pytest.raises(AssertionError, match="labels of the test half was asked for"):
        tiny("method=afcl")  # the check can fail: a run reads it
    methods = "method=afcl,finetune,fedncm"
    small = ["budget.rounds=1", "budget.epochs=1", "~method.search", "limit_train=200"]
    done = tuned(tmp_path / "out", tmp_path / "cache", methods, "--trials", "1", *small)
    assert done.code == 0, done.err
    with_trials = tuned(tmp_path / "more", tmp_path / "cache", "method=afcl", "--trials", "3")
    assert with_trials.code == 0, with_trials.err
    assert with_trials.out.count("anytime") == 3
    entries = [path.name for path in (tmp_path / "cache").glob("gaussian-*") if path.is_dir()]
    assert entries
    assert not [name for name in entries if "-test-" in name]


@pytest.mark.parametrize("sizes", [[5, 5, 5], [7, 11, 300], [1, 2, 500]])
def test_a_fifth_of_the_samples_is_held_out_and_of_every_class_its_share(sizes: list[int]) -> None:
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    held = held_out_samples(labels, seed=3)
    assert len(held) == len(labels) // 5
    assert sorted(set(held)) == list(held)
    counts = Counter(labels[held])
    for label, size in enumerate(sizes):
        assert abs(counts[label] - size / 5) < 1
    assert list(held) == list(held_out_samples(labels, seed=3))
    assert list(held) != list(held_out_samples(labels, seed=4))


def test_a_trial_scores_as_a_run_does_whose_test_set_are_the_held_out_samples(
    tmp_path: Path, tiny: Command, dealt: Callable[[Halves], None], cache_dir: Path
) -> None:
    words = ["method=finetune", "method.rounds=2", "method.epochs=2"]
    done = tuned(tmp_path, cache_dir, *words, "--trials", "2", "~method.search", "method.search.lr.choices=[0.05]")
    assert done.code == 0, done.err
    (_, trial) = [line.split() for line in done.out.splitlines() if "anytime" in line]

    def halves(dataset: Dataset) -> dict[str, Any]:
        held = held_out_samples(dataset.train.labels, 1_000_000)
        left = [index for index in range(240) if index not in set(held)]
        return {"train": Part(dataset.train, np.array(left)), "test": Part(dataset.train, held)}

    dealt(halves)
    run = tiny(*words, "method.lr=0.05", "seed=1000000", "threads=1")
    assert run.code == 0, run.err
    expected = [run.result["metrics"][name] for name in ("average_accuracy", "anytime_accuracy")]
    assert [float(trial[2]), float(trial[5])] == pytest.approx(expected, abs=0.006)


def test_inputs_are_views_of_the_cache_and_the_same_for_all_methods(cache_dir: Path) -> None:
    words = [*TINY, f"cache_dir={cache_dir}"]
    held = [hold_out(subject(name, words, 0).config, lambda what: lambda *_: None) for name in ("afcl", "joint")]
    assert held[0].hash == held[1].hash
    assert held[0].contents == held[1].contents
    scenario = held[0].scenario
    assert isinstance(scenario.train, SomeInputs)
    assert scenario.train.whole == scenario.test.whole
    rows = torch.cat([scenario.train.rows, scenario.test.rows])
    assert sorted(rows.tolist()) == list(range(240))
    labels = np.concatenate([scenario.dataset.train.labels, scenario.dataset.test.labels])
    features = scenario.train.whole.tensor[rows]
    for label in range(6):  # labels go with their rows: classes lie apart
        own = features[labels == label]
        others = features[labels != label]
        assert (own - own.mean(0)).norm() / len(own) ** 0.5 < (others - own.mean(0)).norm() / len(others) ** 0.5
