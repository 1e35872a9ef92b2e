"""What the tests of methods share: data of six classes, a method of any name with short training, a course of it."""

from functools import cache

import numpy as np
import torch
from conftest import SEED, Course, course
from omegaconf import OmegaConf

from fcl_bench import Backbone, Network, grown, snapshot
from fcl_bench.checks.variants import method_node
from fcl_bench.config.compose import parameters
from fcl_bench.local import FabricFit
from fcl_bench.partition import Dirichlet
from fcl_bench.seeds import derive
from fcl_bench.temporal import SiBlurry

FEATURES = 5
BACKBONE = Backbone(FEATURES)  # frozen: clients hold features
LABELS = np.arange(120) % 6
RANDOM = torch.Generator().manual_seed(0)
INPUTS = torch.randn(120, FEATURES, generator=RANDOM) + 2 * torch.randn(6, FEATURES, generator=RANDOM)[LABELS]


def sgd(parameters, lr, momentum=0.9, weight_decay=0.01):
    return torch.optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay)


SHORT = {"fit": FabricFit(accelerator="cpu"), "optimizer": sgd, "rounds": 2, "epochs": 2, "lr": 0.1}


@cache
def values_of(name):
    """The plain values in the YAML of a method."""
    node = OmegaConf.to_container(method_node(f"method={name}"), resolve=True)
    return {key: value for key, value in node.items() if not isinstance(value, dict)}


def make(kind, backbone=BACKBONE, **settings):
    """A method, or a class derived from one: the values of its YAML, short training, and these settings."""
    own = next(base for base in kind.__mro__ if base.__module__.startswith("fcl_bench.methods."))
    given = values_of(own.__module__.rpartition(".")[2]) | SHORT | settings
    accepted = dict(parameters(own))
    return kind(backbone, **{name: value for name, value in given.items() if name in accepted})


def learned(method, spatial=None, temporal=None, who=None) -> Course:
    """The method after a stream of the six classes."""
    return course(method, INPUTS, LABELS, temporal or SiBlurry(3), spatial or Dirichlet(3, alpha=0.5), who)


def server_random(task=0):
    """From now on, random numbers are those of the server in a course when this task begins."""
    torch.manual_seed(derive(SEED, "server", task))


def with_head(network, classes, seed=0):
    """A copy of a network whose head has been grown to so many classes."""
    torch.manual_seed(seed)
    return network.loaded(grown(snapshot(network), classes))


def first_network(classes, backbone=BACKBONE):
    """What clients receive in the first round of a course: a head that the server has just grown."""
    network = Network(backbone)
    server_random()
    return network.loaded(grown(snapshot(network), classes))


def accuracy(method, state, inputs, labels):
    """The share of samples that the method's classifier gets right."""
    predicted = method.classifier(state)(inputs).argmax(dim=1)
    return float((predicted == labels).float().mean())


def room_for_both():
    """Inputs of LABELS in twenty dimensions: two tasks of three classes each need not disturb each other."""
    noise = torch.randn(len(LABELS), 20, generator=torch.Generator().manual_seed(0))
    return 3 * torch.eye(20)[LABELS] + noise


def accuracy_on_the_first_task(method, inputs, done):
    """Of the final model, for a course of two tasks of three classes each."""
    numbers = torch.from_numpy(done.stream.number[LABELS])
    old = numbers < 3
    return accuracy(method, done.states[-1], inputs[old], numbers[old])
