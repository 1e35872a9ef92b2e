"""``python -m benchmarks.lying_clients OVERRIDES``: what one lying client does to methods, with each ``aggregation``.

Client 0 lies in every task. The others, the stream and the scores are those of a run with the same overrides. Prints a
table as Markdown: accuracy on the whole test set after the last task, in percent, as mean and standard deviation over
seeds.

The lies: let r be the model that the liar received and w what honest training makes of it. For sums, as AFCL and FedNCM
send them, r is 0 and w the sum; the liar tells the true numbers of samples.

* none: w.
* wrong labels: w, but trained on samples whose labels are those of the next class that the liar has.
* wrong labels x10: r + 10 (w - r), trained on the same.
* sign flip x10: r - 10 (w - r).
* noise: w plus Gaussian noise, each tensor's 10 times as long as w - r.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.harness import make_scenario
from fcl_bench.aggregate import Update
from fcl_bench.errors import UserError
from fcl_bench.learning import beginning, learn
from fcl_bench.run.evaluate import predict
from fcl_bench.run.scenario import Scenario
from fcl_bench.seeds import generator
from fcl_bench.stream import Stream
from fcl_bench.transport import Answer, Call
from fcl_bench.transport.in_process import InProcess
from fcl_bench.transport.site import LocalSites

LIAR = 0
METHODS = ("finetune", "fedlwf", "fedavg_er", "derpp")
RULES = ("mean", "median", "trimmed_mean", "krum", "multi_krum")
IN_CLOSED_FORM = ("afcl", "fedncm")  # which do not average
SUMS = ("gram", "cross", "totals")  # what these reply, but for numbers of samples
STRENGTH = 10

Distortion = Callable[[Tensor, Tensor, np.random.Generator], Tensor]  # of what was received and an honest answer


@dataclass(frozen=True)
class Lie:
    """What a liar learns from, and what it makes of its answers."""

    wrong_labels: bool = False
    distorted: Distortion | None = None


def longer(received: Tensor, honest: Tensor, random: np.random.Generator) -> Tensor:
    """Further along the way of honest training."""
    return received + STRENGTH * (honest - received)


def flipped(received: Tensor, honest: Tensor, random: np.random.Generator) -> Tensor:
    """The way of honest training, back and further."""
    return received - STRENGTH * (honest - received)


def noisy(received: Tensor, honest: Tensor, random: np.random.Generator) -> Tensor:
    """Noise, which is longer than the way of honest training."""
    noise = torch.from_numpy(random.standard_normal(honest.shape))
    length = STRENGTH * (honest - received).norm() / noise.norm().clamp(min=1e-12)
    return honest + length * noise


LIES = {
    "none": Lie(),
    "wrong labels": Lie(wrong_labels=True),
    "wrong labels x10": Lie(wrong_labels=True, distorted=longer),
    "sign flip x10": Lie(distorted=flipped),
    "noise": Lie(distorted=noisy),
}


class LyingClient(InProcess):
    """Plain calls, but one client answers something else."""

    def __init__(self, lie: Lie):
        self.lie = lie

    def open(self, site: LocalSites) -> None:
        """With other labels at the liar, if it is to have wrong ones: no other client has its samples."""
        if self.lie.wrong_labels:
            site = replace(site, numbers=mislabelled(site.numbers, site.stream))
        super().open(site)

    def map(self, call: Call, clients: Sequence[int]) -> Iterator[Answer]:
        for answer in super().map(call, clients):
            if answer.client == LIAR and self.lie.distorted:
                random = generator(call.seed, "lie", call.task, call.exchange)
                answer = replace(answer, reply=distorted(answer.reply, call.message, self.lie.distorted, random))
            yield answer


def mislabelled(numbers: Tensor, stream: Stream) -> Tensor:
    """Class numbers of all samples; each of the liar's has the next class that it holds in the task."""
    wrong = numbers.clone()
    for task in range(len(stream.tasks)):
        indices = torch.from_numpy(stream.indices(task, LIAR))
        classes, positions = numbers[indices].unique(return_inverse=True)
        wrong[indices] = classes.roll(-1)[positions]
    return wrong


def distorted(reply: Any, message: tuple[Any, ...], distort: Distortion, random: np.random.Generator) -> Any:
    """A lie in the form of the reply: of a model, or of sums. Replies without either stay as they are."""
    if isinstance(reply, Update):
        received = getattr(message[0], "round", message[0]).weights
        weights = {name: told(received[name], value, distort, random) for name, value in reply.weights.items()}
        return replace(reply, weights=weights)
    sums = {name: getattr(reply, name) for name in SUMS if hasattr(reply, name)}
    for name, value in sums.items():
        sums[name] = told(torch.zeros_like(value), value, distort, random)
    return replace(reply, **sums) if sums else reply


def told(received: Tensor, honest: Tensor, distort: Distortion, random: np.random.Generator) -> Tensor:
    """A lie of the same type: whole numbers stay whole, and within what the type can hold."""
    lie = distort(received.double(), honest.double(), random)
    if honest.is_floating_point():
        return lie.to(honest.dtype)
    limits = torch.iinfo(honest.dtype)
    return lie.round().clamp(limits.min / 2, limits.max / 2).to(honest.dtype)


def accuracy(scenario: Scenario, lie: Lie) -> float:
    """After the last task, in percent; NaN where training has diverged."""
    method = scenario.method()
    federation = scenario.federation(LyingClient(lie))
    progress = beginning(method)
    for progress in learn(method, federation, progress):
        pass
    stream = scenario.stream
    try:
        predicted = predict(method.classifier(progress.state), scenario.test.tensor, stream.order, stream.tasks[-1])
    except UserError:
        return float("nan")
    return 100 * float(np.mean(predicted == scenario.dataset.test.labels))


def row(settings: Sequence[str], seeds: int) -> list[str]:
    """A cell for every lie."""
    scenarios = [make_scenario(*settings, f"seed={seed}") for seed in range(1, seeds + 1)]
    found = [[accuracy(scenario, lie) for scenario in scenarios] for lie in LIES.values()]
    return [cell(accuracies) for accuracies in found]


def cell(accuracies: Sequence[float]) -> str:
    """Mean and standard deviation.

    >>> cell([50.0, 52.0]), cell([50.0, float("nan")])
    ('51.0 ± 1.4', 'diverged')
    """
    if not np.isfinite(accuracies).all():
        return "diverged"
    deviation = np.std(accuracies, ddof=1) if len(accuracies) > 1 else 0.0
    return f"{np.mean(accuracies):.1f} ± {deviation:.1f}"


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.lying_clients", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="from 1 to N (default: 3)")
    parser.add_argument("--methods", default=",".join((*METHODS, *IN_CLOSED_FORM)), help="names between commas")
    parser.add_argument("--rules", default=",".join(RULES), help="aggregations between commas")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    print(line(["method", "aggregation", *LIES]))
    print(line([":---", ":---", *["---:"] * len(LIES)]))
    for name in options.methods.split(","):
        for rule in ("n/a",) if name in IN_CLOSED_FORM else options.rules.split(","):
            averaging = [] if rule == "n/a" else [f"method.aggregation={rule}"]
            settings = [f"method={name}", *averaging, *options.overrides]
            print(line([f"`{name}`", rule, *row(settings, options.seeds)]), flush=True)


if __name__ == "__main__":
    main()
