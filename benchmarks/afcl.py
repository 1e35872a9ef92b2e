"""AFCL over a whole stream, clients and server together, against one joint ridge regression on the same features."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from benchmarks.harness import learn_all, make_scenario
from benchmarks.measure import Row, best
from fcl_bench.run.scenario import Scenario

GAMMA, REPEATS = 1.0, 5
RUN = ("method=afcl", f"method.gamma={GAMMA}", "stream=si_blurry", "stream.tasks=10")
SPREAD = ("partition=dirichlet", "partition.clients=5", "partition.alpha=0.1")
SYNTHETIC = ("dataset=gaussian", "dataset.train_size=50000", "dataset.features=1280", "dataset.test_size=100")


def afcl(data_dir: Path | None, recursive: bool) -> Iterator[Row]:
    with TemporaryDirectory() as folder:
        data = ("dataset=cifar100", f"data_dir={data_dir}") if data_dir else (*SYNTHETIC, f"cache_dir={folder}")
        scenario = make_scenario(*RUN, *SPREAD, *data)
        check_equal(scenario)
        seconds, reference = best(REPEATS, lambda: learning_seconds(scenario), lambda: joint(scenario))
        samples, features = scenario.train.shape
        how = f"10 tasks x 5 clients on {samples:,} x {features} cached features; reference: one naive float64 solve"
        yield Row("AFCL / joint ridge", f"{how}; best of {REPEATS}", seconds, "s", reference, limit=1.0)
        if recursive:
            seconds = learning_seconds(make_scenario(*RUN, *SPREAD, *data, "method.form=recursive"))
            yield Row("AFCL, form: recursive / joint ridge", "the same, once", seconds, "s", reference)


def learning_seconds(scenario: Scenario) -> float:
    _, costs = learn_all(scenario)
    return costs.client_seconds + costs.server_seconds


def joint(scenario: Scenario) -> Tensor:
    """Ridge regression as a textbook writes it: (features, labels)."""
    features = scenario.train.tensor.double()
    targets = one_hot(torch.from_numpy(scenario.dataset.train.labels)).double()
    gram = features.T @ features + GAMMA * torch.eye(features.shape[1], dtype=torch.float64)
    return torch.linalg.solve(gram, features.T @ targets)


def check_equal(scenario: Scenario) -> None:
    """Times may be compared only where results are the same."""
    state, _ = learn_all(scenario)
    torch.testing.assert_close(state.weights, joint(scenario)[:, scenario.stream.order], rtol=1e-8, atol=1e-10)
