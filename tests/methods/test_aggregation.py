"""The choice of aggregation, in all methods that average and in those that do not."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from conftest import Command, command, course
from hydra.utils import get_class
from making import INPUTS, LABELS, learned, make, sgd

from fcl_bench import ConfigError
from fcl_bench.aggregate import Update
from fcl_bench.checks.variants import method_node
from fcl_bench.config.catalogue import catalogue
from fcl_bench.config.compose import composed, parameters
from fcl_bench.federation import Participation
from fcl_bench.message import mapped, tensors_in
from fcl_bench.methods.finetune import Finetune
from fcl_bench.methods.scaffold import Reply, Scaffold
from fcl_bench.partition import IidClients
from fcl_bench.temporal import Disjoint, IidTasks
from fcl_bench.transport.in_process import InProcess

LIE = 1e6
ROBUST = ("median", "trimmed_mean", "krum", "multi_krum")
METHODS = {name: get_class(method_node(f"method={name}")["_target_"]) for name in catalogue()["method"]}
AVERAGING = [name for name, kind in METHODS.items() if "aggregation" in dict(parameters(kind))]
PLAIN = partial(sgd, momentum=0)


class LyingClient(InProcess):
    """Every number in the models of client 2 is a million."""

    def map(self, call, clients):
        for answer in super().map(call, clients):
            if answer.client == 2 and isinstance(answer.reply, Update | Reply):
                answer = replace(answer, reply=mapped(answer.reply, lie))
            yield answer


def lie(leaf):
    return torch.full_like(leaf, LIE) if isinstance(leaf, torch.Tensor) else leaf


def largest(name, aggregation):
    """The largest number in the final state of a method to which one of five clients lies."""
    settings = {"rounds": 2, "optimizer": PLAIN, **getattr(METHODS[name], "quick_settings", {})}
    method = make(METHODS[name], aggregation=aggregation, **settings)
    done = course(method, INPUTS, LABELS, IidTasks(2), IidClients(5), transport=LyingClient())
    weights = [tensor.abs().max().item() for _, tensor in tensors_in(done.states[-1])]
    return max(weights, key=lambda value: math.inf if math.isnan(value) else value)


def test_these_methods_average():
    assert set(AVERAGING) >= {
        *("finetune", "fedprox", "fedlwf", "fedewc", "fedavg_er", "derpp", "fedicarl", "scaffold", "target")
    }
    assert not {"afcl", "fedncm", "joint", "joint_sgd", "fedcbc", "fedmgp"} & set(AVERAGING)


@pytest.mark.parametrize("name", AVERAGING)
def test_a_lie_reaches_the_mean_of_every_method_and_nothing_else(name):
    assert not largest(name, "mean") < LIE / 10
    for aggregation in ROBUST:
        assert largest(name, aggregation) < LIE / 1000, aggregation


@pytest.mark.parametrize("name", sorted(set(METHODS) - set(AVERAGING)))
def test_other_methods_do_not_have_the_setting(name):
    with pytest.raises(ConfigError, match=r"There is no setting 'method\.aggregation'; method has: "):
        composed(f"method={name}", "+method.aggregation=median")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["method.aggregation=medain"], r"Expected method\.aggregation to be one of median, krum, mean, "),
        (["method.liars=-1"], r"Expected method\.liars to be greater than or equal to 0, but got -1"),
    ],
)
def test_wrong_values_are_named(words, sentence):
    with pytest.raises(ConfigError, match=sentence):
        composed("method=finetune", *words)


def test_a_federation_that_is_too_small_is_refused_before_anybody_trains(tiny: Command):
    done = tiny("method=finetune", "method.aggregation=krum")
    assert done.code == 2
    assert (
        "Expected at least 4 clients for method.aggregation=krum with method.liars=1, but got 3: "
        "set partition.clients=4, fewer method.liars, or method.aggregation=median."
    ) in " ".join(done.err.split())


def test_the_median_of_three_clients_runs_and_is_in_the_record(tiny: Command):
    mean = tiny("method=finetune", "method.rounds=2")
    done = tiny("method=finetune", "method.rounds=2", "method.aggregation=median")
    assert (mean.code, done.code) == (0, 0), mean.err + done.err
    assert done.result["config"]["method"]["aggregation"] == "median"
    assert done.folder != mean.folder


def test_the_setting_is_shown():
    shown = command("show", "finetune").out
    (line,) = [line for line in shown.splitlines() if line.startswith("  method.aggregation ")]
    assert line.split()[:2] == ["method.aggregation", "mean"]
    assert "mean | median | trimmed_mean | krum | multi_krum" in line
    assert "  method.liars " in shown


def test_scaffold_takes_one_change_for_all():
    """Where clients are alike, control variates under the median are those under the mean."""
    settings = {"optimizer": PLAIN, "epochs": 1, "batch_size": 1000, "rounds": 3}
    one, other = (
        learned(make(Scaffold, aggregation=rule, **settings), IidClients(1), Disjoint(2)).states[-1]
        for rule in ("mean", "median")
    )
    for name, value in one.control.items():
        torch.testing.assert_close(other.control[name], value, rtol=1e-5, atol=1e-7)
    for name, value in one.weights.items():
        torch.testing.assert_close(other.weights[name], value, rtol=1e-5, atol=1e-7)


def test_a_round_with_too_few_answers_changes_nothing_and_warns():
    method = make(Finetune, aggregation="krum", rounds=1)
    with pytest.warns(UserWarning, match=r"A round has 2 models .* but krum with liars=1 needs 4"):
        done = learned(method, IidClients(4), Disjoint(1), Participation(participation=0.5))
    assert torch.equal(done.states[-1]["head.bias"], torch.zeros(6))
