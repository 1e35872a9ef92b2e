"""The small end-to-end track: what its protocol fixes, what its experiment sweeps over, and that all of it runs."""

from pathlib import Path

import pytest
from conftest import command
from test_config import CONFIGS, swept

from fcl_bench.config.catalogue import names
from fcl_bench.config.compose import composed
from fcl_bench.errors import ConfigError

PROTOCOL = "protocol=scratch_small_v1"
EXPERIMENT = "experiment=scratch_small_cifar100"
METHODS = swept("scratch_small_cifar100")["method"].split(",")
FROZEN_ONLY = {"afcl", "fedncm", "joint", "fedmgp", "fedcbc"}


def test_the_sweep_has_every_method_that_trains_a_network() -> None:
    assert set(METHODS) == set(names("method")) - FROZEN_ONLY
    axes = swept("scratch_small_cifar100")
    assert (axes["stream"], axes["seed"], str(axes["stream.tasks"])) == ("disjoint,si_blurry", "1,2,3", "5")


@pytest.mark.parametrize("method", METHODS)
def test_the_budget_of_the_protocol_reaches_every_method(method: str) -> None:
    config = composed(EXPERIMENT, f"method={method}")
    budget = config.budget
    assert (config.protocol, config.dataset.name, config.limit_classes) == ("scratch_small_v1", "cifar100", 20)
    assert (config.partition.clients, config.backbone.trainable, config.backbone.weights) == (5, True, "none")
    assert config.method.batch_size == budget.batch_size
    assert config.method.lr == (budget.plain_lr if method == "scaffold" else budget.lr)
    if method == "joint_sgd":
        assert config.method.epochs == budget.joint_epochs
    else:
        assert (config.method.rounds, config.method.epochs) == (budget.rounds, budget.epochs)
    if method == "target":
        assert {key: config.method[key] for key in budget.target} == budget.target


@pytest.mark.parametrize(
    ("method", "override"),
    [
        ("finetune", "limit_classes=10"),
        ("finetune", "limit_classes=null"),
        ("finetune", "backbone.width=32"),
        ("finetune", "backbone.norm=gn"),
        ("finetune", "backbone.augment=none"),
        ("finetune", "backbone.trainable=false"),
        ("finetune", "method.rounds=1"),
        ("finetune", "method.lr=0.01"),
        ("finetune", "budget.lr=0.01"),
        ("fedlwf", "method.batch_size=64"),
        ("scaffold", "method.lr=0.5"),
        ("joint_sgd", "method.epochs=1"),
        ("joint_sgd", "method.lr=0.01"),
        ("target", "method.synthetic=7"),
        ("target", "method.generator_steps=1"),
    ],
)
def test_a_run_that_names_the_protocol_has_followed_it(method: str, override: str) -> None:
    composed(PROTOCOL, f"method={method}")
    with pytest.raises(ConfigError, match=r"protocol=scratch_small_v1 fixes \S+=\S+, but got "):
        composed(PROTOCOL, f"method={method}", override)


@pytest.mark.parametrize("method", ["afcl", "fedncm", "fedcbc"])
def test_methods_on_features_are_refused(method: str) -> None:
    with pytest.raises(ConfigError, match=f"Expected a frozen backbone for method={method}"):
        composed(PROTOCOL, f"method={method}")


def test_other_budgets_leave_learning_rates_batches_and_epochs_as_they_were() -> None:
    for budget in {path.stem for path in CONFIGS if path.parent.name == "budget"} - {"scratch_small"}:
        words = (f"budget={budget}", "dataset=cifar100")
        assert composed("method=finetune", *words).method.lr == 0.01
        assert composed("method=scaffold", *words).method.lr == 0.1
        assert composed("method=finetune", f"budget={budget}", "dataset=digits").method.lr == 0.003
        joint, target = composed("method=joint_sgd", *words).method, composed("method=target", *words).method
        assert (joint.epochs, joint.batch_size, joint.lr) == (20, 128, 0.01)
        assert (target.synthetic, target.synthesis_rounds, target.student_steps, target.warm_up) == (8000, 32, 50, 5)


FEW = (  # of the digits, in place of CIFAR-100, with the network and the steps of the protocol
    *("dataset=digits", "budget=scratch_small", "budget.rounds=1", "budget.epochs=1", "budget.joint_epochs=1"),
    *("backbone=resnet18_small", "backbone.stem=standard", "backbone.augment=crop_flip", "stream=disjoint"),
    *("stream.tasks=2", "limit_classes=4", "limit_train=40", "limit_test=16", "partition.clients=2"),
    *("budget.target.synthetic=16", "budget.target.synthesis_rounds=3", "budget.target.synthesis_batch=8"),
    *("budget.target.generator_steps=1", "budget.target.student_steps=1", "budget.target.warm_up=1"),
)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_the_sweep_runs_in_the_shape_of_the_protocol(
    method: str, tmp_path: Path, cache_dir: Path
) -> None:
    done = command(f"method={method}", *FEW, f"output_dir={tmp_path}", f"cache_dir={cache_dir}")
    assert done.code == 0, done.err
    assert done.result["track"] == "end_to_end"
    assert done.result["config"]["limit_classes"] == 4
    assert len(done.result["matrix"]) == 2
