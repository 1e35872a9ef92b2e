"""``python -m benchmarks.tuning OVERRIDES``: accuracy on held-out training samples, to choose hyper-parameters by.

As for a sweep, values between commas are all tried. A fifth of the training samples is kept from the clients and takes
the place of the test set, which is not looked at. Each line is one choice, after the last task of seed 0.
"""

import sys
from dataclasses import replace
from itertools import product

import numpy as np

from benchmarks.harness import learn, make_world
from fcl_bench.config.compose import build
from fcl_bench.data.images import Pixels
from fcl_bench.run.evaluate import predict
from fcl_bench.run.scenario import World
from fcl_bench.stream import make_stream

SEED, SHARE = 0, 0.2


def main() -> None:
    """One line per choice."""
    words = [word.partition("=") for word in sys.argv[1:]]
    for values in product(*(value.split(",") for _, _, value in words)):
        overrides = [f"{key}={value}" for (key, _, _), value in zip(words, values, strict=True)]
        world = held_out(make_world(*overrides, f"seed={SEED}"))
        method = world.method()
        state, meter = learn(world, method)
        predicted = predict(method.classifier(state), world.test, world.stream.order, world.stream.tasks[-1])
        accuracy = 100 * np.mean(predicted == world.dataset.test.labels)
        print(f"{accuracy:6.2f} %  {meter.client_seconds:6.0f} s  {' '.join(overrides)}", flush=True)


def held_out(world: World) -> World:
    """The same world, where part of the training samples are tested on instead."""
    order = np.random.default_rng(SEED).permutation(len(world.train))
    test, train = np.split(order, [int(SHARE * len(order))])
    labels = world.dataset.train.labels
    config = world.config
    stream = make_stream(labels[train], labels[test], build(config.stream), build(config.partition), SEED)
    no_images = world.train[:0].numpy()
    halves = {name: Pixels(no_images, labels[indices]) for name, indices in (("train", train), ("test", test))}
    dataset = replace(world.dataset, **halves)
    return replace(world, dataset=dataset, stream=stream, train=world.train[train], test=world.train[test])


if __name__ == "__main__":
    main()
