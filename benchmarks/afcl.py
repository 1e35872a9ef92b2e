"""AFCL over a whole stream, clients and server together, against one joint ridge regression on the same features."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from benchmarks.harness import learn, make_world
from benchmarks.measure import Row, best
from fcl_bench.world import World

STREAM = ("method=afcl", "stream=si_blurry", "stream.tasks=10", "partition=dirichlet", "partition.clients=5")
SYNTHETIC = ("dataset=gaussian", "dataset.train_size=50000", "dataset.features=1280", "dataset.test_size=100")
GAMMA = 1.0
REPEATS = 5


def afcl(data_dir: Path | None, recursive: bool) -> Iterator[Row]:
    with TemporaryDirectory() as folder:
        real = ("dataset=cifar100", f"data_dir={data_dir}")
        data = real if data_dir else (*SYNTHETIC, f"cache_dir={folder}")
        overrides = (*STREAM, "partition.alpha=0.1", f"method.gamma={GAMMA}", *data)
        world = make_world(*overrides)
        check_equal(world)
        seconds, reference = best(REPEATS, lambda: learning_seconds(world), lambda: joint(world) and None)
        shape = "{:,} x {}".format(*world.train.shape)
        how = f"{shape} cached features, 10 tasks x 5 clients, best of {REPEATS}; reference: one naive float64 solve"
        yield Row("AFCL / joint ridge", how, seconds, "s", reference, limit=1.0)
        if recursive:
            _, meter = learn(make_world(*overrides, "method.form=recursive"))
            seconds = meter.client_seconds + meter.server_seconds
            yield Row("AFCL, form recursive / joint ridge", "the same, run once", seconds, "s", reference)


def learning_seconds(world: World) -> float:
    _, meter = learn(world)
    return meter.client_seconds + meter.server_seconds


def joint(world: World) -> Tensor:
    """Ridge regression as a textbook writes it; one column per label."""
    features = world.train.double()
    targets = one_hot(torch.from_numpy(world.dataset.train.labels)).double()
    gram = features.T @ features + GAMMA * torch.eye(features.shape[1], dtype=torch.float64)
    return torch.linalg.solve(gram, features.T @ targets)


def check_equal(world: World) -> None:
    """Both sides must have done the same work."""
    state, _ = learn(world)
    torch.testing.assert_close(state.weights, joint(world)[:, world.stream.order], rtol=0, atol=1e-8)
