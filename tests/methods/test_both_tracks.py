"""Every method that trains: both ways of local training give the same weights, on features and end to end."""

from functools import cache, partial

import pytest
from hydra.utils import get_class
from omegaconf import OmegaConf

from fcl_bench import Backbone
from fcl_bench.checks import Sandbox, configured
from fcl_bench.checks.variants import BRIEF, method_node, short_settings
from fcl_bench.config.catalogue import catalogue
from fcl_bench.config.compose import build, composed
from fcl_bench.message import encode
from fcl_bench.method import facts

TRAINING = [name for name in catalogue()["method"] if "rounds" in method_node(f"method={name}")]


def test_there_are_some():
    assert {"finetune", "fedlwf", "fedewc", "fedicarl", "fedprox", "scaffold", "fedavg_er", "derpp"} <= set(TRAINING)


@cache
def brief(name, local):
    settings = short_settings(method_node(f"method={name}")) | BRIEF
    words = [f"method.{key}={value}" for key, value in settings.items()]
    return composed(f"method={name}", *words, f"local={local}", "local.accelerator=cpu").method


@pytest.mark.parametrize("trainable", [False, True], ids=["frozen", "end_to_end"])
@pytest.mark.parametrize("name", TRAINING)
def test_fabric_and_trainer_give_the_same_weights(name, trainable):
    if trainable and facts(configured(f"method={name}")(Backbone(1)))["needs_frozen_backbone"]:
        pytest.skip("needs a frozen backbone")
    fabric, trainer = (brief(name, local) for local in ("fabric", "trainer"))
    if trainable and getattr(get_class(fabric["_target_"]), "needs_frozen_backbone", False):
        pytest.skip("it does not train the backbone")
    one, other = (Sandbox(partial(build, node), trainable).run().state for node in (fabric, trainer))
    assert encode(one) == encode(other)


@pytest.mark.parametrize("name", TRAINING)
def test_settings_of_local_training_reach_the_method(name):
    words = ("local.precision=bf16-mixed", "local.gradient_clip=0.5", "local.deterministic=true", "local.compile=eager")
    for local in ("fabric", "trainer"):
        fit = composed(f"method={name}", f"local={local}", *words).method.fit
        expected = {"precision": "bf16-mixed", "gradient_clip": 0.5, "deterministic": True, "compile": "eager"}
        assert expected.items() <= OmegaConf.to_container(fit, resolve=True).items()
