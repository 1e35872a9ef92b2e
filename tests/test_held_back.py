"""``min_count``: the statistics are those of the samples that were released, by a loop over the stream."""

from collections import defaultdict

import numpy as np
import pytest
import torch
from conftest import SEED, TINY, command, course

from fcl_bench import Backbone, configured
from fcl_bench.checks import Sandbox, rules, run_check
from fcl_bench.config.compose import composed
from fcl_bench.config.run_id import run_id
from fcl_bench.linalg import whole
from fcl_bench.method import facts
from fcl_bench.partition import Dirichlet
from fcl_bench.temporal import SiBlurry

FEATURES = 12
LABELS = np.arange(200) % 8
INPUTS = torch.randn(200, FEATURES, generator=torch.Generator().manual_seed(SEED))
CLIENTS = 6


def learned(name, **settings):
    words = [f"method.{key}={value}" for key, value in settings.items()]
    method = configured(f"method={name}", "method.arithmetic=float64", *words)(Backbone(FEATURES))
    return method, course(method, INPUTS, LABELS, SiBlurry(6), Dirichlet(CLIENTS, alpha=0.2))


def piles_of(stream, min_count):
    """The samples released in all, and those that each client holds back after every task."""
    released, held, after = [], defaultdict(list), []
    for task in range(len(stream.tasks)):
        for client in range(stream.clients):
            for sample in stream.indices(task, client):
                held[client, stream.number[LABELS[sample]]].append(int(sample))
        for cell, pile in held.items():
            if len(pile) >= min_count:
                released += pile
                held[cell] = []
        after.append(by_client(held))
    assert len(set(released)) == len(released)
    return released, after


def by_client(held):
    piles = defaultdict(list)
    for (client, _), pile in held.items():
        piles[client] += pile
    return piles


@pytest.mark.parametrize("min_count", [2, 3, 7])
def test_the_server_has_the_sums_of_the_released_samples(min_count):
    _, done = learned("afcl", min_count=min_count)
    released, _ = piles_of(done.stream, min_count)
    rows = INPUTS[released].double().numpy()
    targets = np.eye(8)[done.stream.number[LABELS[released]]]
    state = done.states[-1]
    np.testing.assert_allclose(whole(state.gram, FEATURES).numpy(), rows.T @ rows, atol=1e-10)
    np.testing.assert_allclose(state.cross.numpy(), targets.T @ rows, atol=1e-10)
    assert 0 < len(released) < 200
    _, means = learned("fedncm", min_count=min_count)
    assert means.states[-1].counts.tolist() == targets.sum(axis=0).tolist()
    np.testing.assert_allclose(means.states[-1].totals.numpy(), targets.T @ rows, atol=1e-10)
    recursive, last = learned("afcl", form="recursive", min_count=min_count)
    expected = np.linalg.solve(rows.T @ rows + np.eye(FEATURES), rows.T @ targets)
    np.testing.assert_allclose(recursive.classifier(last.states[-1]).weights.numpy(), expected, atol=1e-8)


@pytest.mark.parametrize("name", ["afcl", "fedncm"])
def test_clients_keep_what_they_hold_back_and_nothing_else(name):
    _, done = learned(name, min_count=4)
    _, after = piles_of(done.stream, 4)
    for memories, expected in zip(done.memories, after, strict=True):
        kept = {client: memory["held_back"] for client, memory in memories.items() if memory}
        assert set(kept) == {client for client, samples in expected.items() if samples}
        for client, samples in kept.items():
            assert sorted(samples.inputs.tolist()) == sorted(INPUTS[expected[client]].tolist())


@pytest.mark.parametrize(("name", "form"), [("afcl", "statistics"), ("afcl", "recursive"), ("fedncm", None)])
def test_from_two_samples_on_none_is_revealed(name, form):
    settings = {"form": form} if form else {}
    for min_count, expected in ((1, True), (2, False)):
        _, done = learned(name, min_count=min_count, **settings)
        revealed = sum(exchange.samples_revealed for exchange in done.exchanges)
        assert (revealed > 0) is expected
        assert bool(done.memories[-1]) is not expected


@pytest.mark.parametrize("name", ["afcl", "fedncm"])
def test_a_method_that_holds_back_is_neither_exact_nor_without_exemplars(name):
    for min_count, expected in ((1, True), (2, False)):
        declared = facts(configured(f"method={name}", f"method.min_count={min_count}")(Backbone(3)))
        assert (declared["exact"], declared["exemplar_free"]) == (expected, expected)


@pytest.mark.parametrize("name", ["afcl", "fedncm"])
@pytest.mark.parametrize(
    "check",
    [
        rules.check_runs_over_the_wire,
        rules.check_leaves_messages_alone,
        rules.check_continues_from_a_checkpoint,
        rules.check_survives_few_clients_and_little_data,
        rules.check_order_of_clients_does_not_matter,
    ],
)
def test_what_is_held_back_survives_wire_and_interruption(name, check):
    run_check(check, Sandbox(configured(f"method={name}", "method.min_count=5")))


def test_a_run_that_holds_nothing_back_has_the_id_it_had():
    config = composed(*TINY, "method=afcl")
    before = config.copy()
    del before.method["min_count"]
    assert run_id(config) == run_id(before) != run_id(composed(*TINY, "method=afcl", "method.min_count=2"))


def test_a_count_below_one_is_refused(tmp_path):
    refused = command(*TINY, "method=afcl", "method.min_count=0", f"output_dir={tmp_path / 'runs'}")
    assert refused.code == 2
    assert "Expected method.min_count to be" in refused.err
    assert not (tmp_path / "runs").exists()
