"""``python -m benchmarks.exactness OVERRIDES``: AFCL's weights and predictions against joint ridge regression.

The overrides name data set, backbone, ``data_dir`` and ``cache_dir``. Each line is one stream; exit code 1 if weights
differ by more than 1e-8 (relative, Frobenius norm) or one prediction differs. The paper's recursion solves two systems
per client and task, over an hour for all lines: ``--recursive N`` checks it only where those are at most N.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np
from omegaconf import OmegaConf

from benchmarks.harness import learn_all, make_scenario
from fcl_bench.partition import Dirichlet
from fcl_bench.run.scenario import Scenario
from fcl_bench.stream import make_stream
from fcl_bench.temporal import SiBlurry
from fcl_bench.transport import Answer, Call
from fcl_bench.transport.in_process import InProcess
from fcl_bench.transport.site import LocalSite

TOLERANCE = 1e-8


@dataclass(frozen=True)
class Answers:
    """Who answers, in which order, and how large the clients are."""

    arrival: str
    without_idle: bool = False
    balance: Literal["equal", "capped"] = "equal"

    def __str__(self) -> str:
        return f"{self.arrival}, without idle" if self.without_idle else self.arrival


WAYS = {0.05: Answers("shuffled", without_idle=True, balance="capped"), 0.1: Answers("shuffled")}  # by alpha


class WithoutIdle(InProcess):
    """Clients without data never answer."""

    def open(self, site: Callable[[], LocalSite]) -> None:
        super().open(site)
        self.sizes = site().stream.sizes

    def map(self, call: Call, clients: Sequence[int]) -> Iterator[Answer]:
        return super().map(call, [client for client in clients if self.sizes[call.task, client]])


def main() -> int:
    """Solve the joint problem once by numpy, then run every stream."""
    parser = argparse.ArgumentParser("python -m benchmarks.exactness", description=__doc__)
    parser.add_argument("--recursive", type=int, default=10_000, metavar="N", help="most clients x tasks of that form")
    parser.add_argument("--tasks", type=numbers, default=(1, 5, 10), metavar="1,5,10")
    parser.add_argument("--alphas", type=numbers, default=(0.05, 0.1, 1, 100), metavar="0.05,0.1,1,100")
    parser.add_argument("--clients", type=numbers, default=(1, 5, 100, 1000), metavar="1,5,100,1000")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    scenario = make_scenario("method=afcl", *options.overrides)
    labels, test_labels = scenario.dataset.train.labels, scenario.dataset.test.labels
    rows = scenario.train.tensor.numpy().astype(np.float64)
    targets = np.eye(len(scenario.dataset.classes))[labels]
    joint = np.linalg.solve(rows.T @ rows + scenario.config.method.gamma * np.eye(rows.shape[1]), rows.T @ targets)
    expected = (scenario.test.tensor.numpy().astype(np.float64) @ joint).argmax(axis=1)
    print(
        f"joint ridge: {100 * np.mean(expected == test_labels):.2f} % of {len(test_labels):,} test samples", flush=True
    )
    print(
        f"{'form':<12}{'tasks':>6}{'alpha':>8}{'clients':>9}{'idle':>7}  {'answers':<24}{'error':>10}{'accuracy':>10}"
    )
    worst = 0.0
    for case in cases(options):
        error, line = compare(scenario, joint, expected, *case)
        worst = max(worst, error)
        print(line, flush=True)
    print(f"largest difference {worst:.1e}, allowed {TOLERANCE:.0e}")
    return int(not worst <= TOLERANCE)


def numbers(text: str) -> tuple[float, ...]:
    """The numbers between commas."""
    return tuple(float(word) if "." in word else int(word) for word in text.split(","))


def cases(options: argparse.Namespace) -> Iterator[tuple[str, int, float, int, Answers]]:
    """Form, tasks, alpha, clients, and who answers in which order: a way of its own for two of the alphas."""
    for clients, tasks, alpha in product(options.clients, options.tasks, options.alphas):
        for form in ("statistics", "recursive") if clients * tasks <= options.recursive else ("statistics",):
            yield form, tasks, alpha, clients, WAYS.get(alpha, Answers("ordered"))


def compare(
    scenario: Scenario,
    joint: np.ndarray,
    expected: np.ndarray,
    form: str,
    tasks: int,
    alpha: float,
    clients: int,
    answers: Answers,
) -> tuple[float, str]:
    """The relative error of the weights (infinite where a prediction differs), and the line to print."""
    labels, test_labels = scenario.dataset.train.labels, scenario.dataset.test.labels
    spatial = Dirichlet(clients, alpha=alpha, balance=answers.balance)
    stream = make_stream(labels, test_labels, SiBlurry(tasks), spatial, scenario.config.seed)
    changes = {"method": {"form": form}, "federation": {"arrival": answers.arrival}}
    if answers.without_idle:
        changes["transport"] = {"_target_": "benchmarks.exactness.WithoutIdle"}
    state, _ = learn_all(replace(scenario, stream=stream, config=OmegaConf.merge(scenario.config, changes)))
    weights = state.weights.numpy()
    error = np.linalg.norm(weights - joint[:, stream.order]) / np.linalg.norm(joint)
    predicted = stream.order[(scenario.test.tensor.numpy().astype(np.float64) @ weights).argmax(axis=1)]
    differing = int(np.sum(predicted != expected))
    line = (
        f"{form:<12}{tasks:>6}{alpha:>8g}{clients:>9}{int((stream.sizes == 0).sum()):>7}  {answers!s:<24}{error:>10.1e}"
    )
    line += f"{100 * np.mean(predicted == test_labels):>8.2f} %" + (
        f"  {differing} PREDICTIONS DIFFER" if differing else ""
    )
    return (np.inf if differing else float(error)), line


if __name__ == "__main__":
    sys.exit(main())
