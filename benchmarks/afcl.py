"""AFCL over a whole stream, clients and server together, against one joint ridge regression on the same features."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from benchmarks.harness import learn_all, make_scenario
from benchmarks.measure import Row, best, seconds_of
from fcl_bench.exact.answers import joint_answer
from fcl_bench.exact.comparison import hashes_of
from fcl_bench.run.scenario import Scenario

GAMMA = 1.0
REPEATS = 5
RUN = ("method=afcl", f"method.gamma={GAMMA}", "stream=si_blurry", "stream.tasks=10")
SPREAD = ("partition=dirichlet", "partition.clients=5", "partition.alpha=0.1")
MANY = ("partition=dirichlet", "partition.clients=100", "partition.alpha=0.1")
SYNTHETIC = ("dataset=gaussian", "dataset.train_size=50000", "dataset.features=1280", "dataset.test_size=100")
RANGE = "backbone.feature_range=8"  # of the synthetic features
IN_FLOAT64 = "method.arithmetic=float64"


def afcl(data_dir: Path | None, recursive: bool) -> Iterator[Row]:
    with TemporaryDirectory() as folder:
        synthetic = (*SYNTHETIC, RANGE, f"cache_dir={folder}")
        data = ("dataset=cifar100", f"data_dir={data_dir}") if data_dir else synthetic
        scenario = make_scenario(*RUN, *SPREAD, *data)
        in_float64 = make_scenario(*RUN, *SPREAD, *data, IN_FLOAT64)
        many = make_scenario(*RUN, *MANY, *data)
        check_equal(in_float64)
        samples, features = scenario.train.shape
        where = f"on {samples:,} x {features} cached features; reference: one naive float64 solve"
        tail = f"{where}; best of {REPEATS}"
        for name, each, clients, limit in (
            ("AFCL, integers / joint ridge", scenario, 5, 0.35),
            ("AFCL, integers, 100 clients / joint ridge", many, 100, 0.6),
            ("AFCL, float64 / joint ridge", in_float64, 5, 1.0),
        ):
            seconds, reference = best(REPEATS, partial(run_seconds, each), lambda: joint(scenario))
            yield Row(name, f"10 tasks x {clients} clients {tail}", seconds, "s", reference, limit=limit)
        masked = make_scenario(*RUN, *SPREAD, *data, "privacy=secure_sum")
        how_masked = f"10 tasks x 5 clients, a mask with every other client; best of {REPEATS}"
        for name, measure, limit in (("", run_seconds, 1.5), (", sums alone", learning_seconds, None)):
            seconds, reference = best(REPEATS, partial(measure, masked), partial(measure, scenario))
            yield Row(f"AFCL, secure sums / plain uploads{name}", how_masked, seconds, "s", reference, limit=limit)
        for name, each in (("integers", scenario), ("float64", in_float64)):
            seconds, reference = best(REPEATS, partial(certify, each), lambda: joint(scenario))
            yield Row(
                f"certify, {name} / joint ridge",
                f"the answer of one place and its hashes, {tail}",
                seconds,
                "s",
                reference,
                limit=1.2,
            )
        megabytes = [uplink_megabytes(each) for each in (scenario, in_float64)]
        yield Row("uploads, integers / float64", "10 tasks x 5 clients", megabytes[0], "MB", megabytes[1], limit=0.55)
        if recursive:
            seconds = run_seconds(make_scenario(*RUN, *SPREAD, *data, "method.form=recursive"))
            yield Row("AFCL, form: recursive / joint ridge", "the same, once", seconds, "s", reference)


def run_seconds(scenario: Scenario) -> float:
    """Clients and server, where weights are solved after every task, as a run does to score them."""
    return _seconds(scenario, solutions=len(scenario.stream.tasks))


def learning_seconds(scenario: Scenario) -> float:
    """Clients and server without any solution."""
    return _seconds(scenario, solutions=0)


def _seconds(scenario: Scenario, solutions: int) -> float:
    method = scenario.method()
    state, costs = learn_all(scenario, method)
    solving = seconds_of(lambda: method.classifier(state)) if solutions else 0.0
    return costs.client_seconds + costs.server_seconds + solutions * solving


def certify(scenario: Scenario) -> None:
    """What ``python -m fcl_bench certify`` computes, once the data are at hand."""
    hashes_of(joint_answer(scenario.method(), scenario))


def uplink_megabytes(scenario: Scenario) -> float:
    _, costs = learn_all(scenario)
    return costs.uplink_bytes / 1e6


def joint(scenario: Scenario) -> Tensor:
    """Ridge regression as a textbook writes it: (features, labels)."""
    features = scenario.train.tensor.double()
    targets = one_hot(torch.from_numpy(scenario.dataset.train.labels)).double()
    gram = features.T @ features + GAMMA * torch.eye(features.shape[1], dtype=torch.float64)
    return torch.linalg.solve(gram, features.T @ targets)


def check_equal(scenario: Scenario) -> None:
    """Times may be compared only where results are the same."""
    method = scenario.method()
    state, _ = learn_all(scenario, method)
    weights = method.classifier(state).get_buffer("weights")
    torch.testing.assert_close(weights, joint(scenario)[:, scenario.stream.order], rtol=1e-8, atol=1e-10)
