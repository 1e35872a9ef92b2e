"""``python -m benchmarks.tuning OVERRIDES``: accuracy on held-out training samples, to choose hyper-parameters by.

As for a sweep, values between commas are all tried. A fifth of the training samples is kept from the clients and takes
the place of the test set, which is not looked at. Each line is one choice, after the last task of seed 0.
"""

import sys
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from torch import Tensor

from benchmarks.harness import learn_all, make_scenario
from fcl_bench.config.compose import build
from fcl_bench.data.images import Pixels
from fcl_bench.run.evaluate import predict
from fcl_bench.run.scenario import Scenario
from fcl_bench.stream import make_stream

SEED, SHARE = 0, 0.2


def main() -> None:
    """One line per choice."""
    words = [word.partition("=") for word in sys.argv[1:]]
    for values in product(*(value.split(",") for _, _, value in words)):
        overrides = [f"{key}={value}" for (key, _, _), value in zip(words, values, strict=True)]
        scenario, inputs = held_out(make_scenario(*overrides, f"seed={SEED}"))
        method = scenario.method()
        state, costs = learn_all(scenario, method)
        stream = scenario.stream
        predicted = predict(method.classifier(state), inputs, stream.order, stream.tasks[-1])
        accuracy = 100 * np.mean(predicted == scenario.dataset.test.labels)
        print(f"{accuracy:6.2f} %  {costs.client_seconds:6.0f} s  {' '.join(overrides)}", flush=True)


def held_out(scenario: Scenario) -> tuple[Scenario, Tensor]:
    """The same scenario without part of its training samples, and those samples, to test on instead."""
    order = np.random.default_rng(SEED).permutation(len(scenario.train))
    test, train = np.split(order, [int(SHARE * len(order))])
    labels = scenario.dataset.train.labels
    config = scenario.config
    stream = make_stream(labels[train], labels[test], build(config.stream), build(config.partition), SEED)
    no_images = np.zeros(0)
    halves = {name: Pixels(no_images, labels[indices]) for name, indices in (("train", train), ("test", test))}
    dataset = replace(scenario.dataset, **halves)
    inputs: Any = scenario.train.tensor
    return replace(scenario, dataset=dataset, stream=stream, train=inputs[train]), inputs[test]


if __name__ == "__main__":
    main()
