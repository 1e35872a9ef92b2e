"""AFCL over a whole stream, clients and server together, against one joint ridge regression on the same features."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from benchmarks.harness import learn, make_world
from benchmarks.measure import Row, best
from fcl_bench.run.scenario import World

GAMMA, REPEATS = 1.0, 5
RUN = ("method=afcl", f"method.gamma={GAMMA}", "stream=si_blurry", "stream.tasks=10")
SPREAD = ("partition=dirichlet", "partition.clients=5", "partition.alpha=0.1")
SYNTHETIC = ("dataset=gaussian", "dataset.train_size=50000", "dataset.features=1280", "dataset.test_size=100")


def afcl(data_dir: Path | None, recursive: bool) -> Iterator[Row]:
    with TemporaryDirectory() as folder:
        data = ("dataset=cifar100", f"data_dir={data_dir}") if data_dir else (*SYNTHETIC, f"cache_dir={folder}")
        world = make_world(*RUN, *SPREAD, *data)
        check_equal(world)
        seconds, reference = best(REPEATS, lambda: learning_seconds(world), lambda: joint(world))
        samples, features = world.train.shape
        how = f"10 tasks x 5 clients on {samples:,} x {features} cached features; reference: one naive float64 solve"
        yield Row("AFCL / joint ridge", f"{how}; best of {REPEATS}", seconds, "s", reference, limit=1.0)
        if recursive:
            seconds = learning_seconds(make_world(*RUN, *SPREAD, *data, "method.form=recursive"))
            yield Row("AFCL, form: recursive / joint ridge", "the same, once", seconds, "s", reference)


def learning_seconds(world: World) -> float:
    _, meter = learn(world)
    return meter.client_seconds + meter.server_seconds


def joint(world: World) -> Tensor:
    """Ridge regression as a textbook writes it: (features, labels)."""
    features = world.train.double()
    targets = one_hot(torch.from_numpy(world.dataset.train.labels)).double()
    gram = features.T @ features + GAMMA * torch.eye(features.shape[1], dtype=torch.float64)
    return torch.linalg.solve(gram, features.T @ targets)


def check_equal(world: World) -> None:
    """Times may be compared only where results are the same."""
    state, _ = learn(world)
    torch.testing.assert_close(state.weights, joint(world)[:, world.stream.order], rtol=1e-8, atol=1e-10)
