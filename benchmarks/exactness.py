"""``python -m benchmarks.exactness OVERRIDES``: AFCL's weights and predictions against joint ridge regression.

The overrides name data set, backbone, ``data_dir`` and ``cache_dir``. Each line is one stream; exit code 1 if weights
in float64 differ by more than 1e-8 (relative, Frobenius norm), if one of their predictions differs, or if weights from
whole numbers differ in one bit between two streams. The paper's recursion solves two systems per client and task, over
an hour for all lines: ``--recursive N`` checks it only where those are at most N.
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
from fcl_bench.evidence import hashes
from fcl_bench.partition import Dirichlet
from fcl_bench.run.scenario import Scenario
from fcl_bench.stream import make_stream
from fcl_bench.temporal import SiBlurry
from fcl_bench.transport import Answer, Call
from fcl_bench.transport.in_process import InProcess
from fcl_bench.transport.site import LocalSite

TOLERANCE = 1e-8
FORMS = ("integer", "statistics", "recursive")


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
    parser.add_argument("--forms", type=words, default=FORMS, metavar=",".join(FORMS))
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
    streams = f"{'form':<12}{'tasks':>6}{'alpha':>8}{'clients':>9}{'idle':>7}"
    print(f"{streams}  {'answers':<24}{'error/hash':>10}{'accuracy':>10}")
    worst = 0.0
    found = set()
    for case in cases(options):
        line = compare(scenario, joint, expected, case)
        worst = max(worst, line.error or 0.0)
        found |= {line.hash} if line.hash else set()
        print(line, flush=True)
    if worst:
        print(f"largest difference {worst:.1e}, allowed {TOLERANCE:.0e}")
    if found:
        print(f"hashes of weights from whole numbers: {', '.join(sorted(found))}")
    return int(not worst <= TOLERANCE or len(found) > 1)


def words(text: str) -> tuple[str, ...]:
    """The words between commas."""
    return tuple(text.split(","))


def numbers(text: str) -> tuple[float, ...]:
    """The numbers between commas."""
    return tuple(float(word) if "." in word else int(word) for word in words(text))


@dataclass(frozen=True)
class Case:
    """A stream, and how AFCL computes on it."""

    form: str
    tasks: int
    alpha: float
    clients: int

    @property
    def answers(self) -> Answers:
        return WAYS.get(self.alpha, Answers("ordered"))

    @property
    def settings(self) -> dict[str, str]:
        if self.form == "integer":
            return {"form": "statistics", "arithmetic": "integer"}
        return {"form": self.form, "arithmetic": "float64"}


@dataclass(frozen=True)
class Line:
    """What was found: the relative error of weights in float64 (infinite where a prediction differs), or a hash."""

    case: Case
    idle: int
    error: float | None
    hash: str | None
    accuracy: float

    def __str__(self) -> str:
        case = self.case
        where = f"{case.form:<12}{case.tasks:>6}{case.alpha:>8g}{case.clients:>9}{self.idle:>7}  {case.answers!s:<24}"
        found = self.hash[:8] if self.hash else f"{self.error:.1e}"
        return f"{where}{found:>10}{self.accuracy:>8.2f} %"


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Every form on every stream."""
    for clients, tasks, alpha in product(options.clients, options.tasks, options.alphas):
        for form in options.forms:
            if form != "recursive" or clients * tasks <= options.recursive:
                yield Case(form, tasks, alpha, clients)


def compare(scenario: Scenario, joint: np.ndarray, expected: np.ndarray, case: Case) -> Line:
    """Learn the stream of a case."""
    labels = scenario.dataset.train.labels
    test_labels = scenario.dataset.test.labels
    answers = case.answers
    spatial = Dirichlet(case.clients, alpha=case.alpha, balance=answers.balance)
    stream = make_stream(labels, test_labels, SiBlurry(case.tasks), spatial, scenario.config.seed)
    changes = {"method": case.settings, "federation": {"arrival": answers.arrival}}
    if answers.without_idle:
        changes["transport"] = {"_target_": "benchmarks.exactness.WithoutIdle"}
    own = replace(scenario, stream=stream, config=OmegaConf.merge(scenario.config, changes))
    method = own.method()
    state, _ = learn_all(own, method)
    classifier = method.classifier(state)
    weights = classifier.get_buffer("weights").numpy()
    predicted = stream.order[(scenario.test.tensor.numpy().astype(np.float64) @ weights).argmax(axis=1)]
    accuracy = 100 * float(np.mean(predicted == test_labels))
    idle = int((stream.sizes == 0).sum())
    if case.form == "integer":
        found = hashes(method.evidence(state), classifier, stream.order)
        return Line(case, idle, None, found["weights"], accuracy)
    error = float(np.linalg.norm(weights - joint[:, stream.order]) / np.linalg.norm(joint))
    return Line(case, idle, error if np.array_equal(predicted, expected) else np.inf, None, accuracy)


if __name__ == "__main__":
    sys.exit(main())
