"""Finetune by ``local=quick``, through ``clients.map``, against plain PyTorch taking the textbook's steps, on one core.

The reference computes all logits, leaves out those that are not in the softmax, and steps by autograd and
``torch.optim.SGD``. Its samples are in memory, in order once per epoch; it loads what a client receives, and copies
what it sends. Both train every client in every round of the last of ten tasks.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.harness import learn_one_task, make_scenario
from benchmarks.measure import Row, best
from benchmarks.plain import HEAD, ready_batches
from fcl_bench.head import grown
from fcl_bench.learning import Progress, beginning
from fcl_bench.message import StateDict
from fcl_bench.quick.pairs import KEPT
from fcl_bench.run.scenario import Scenario
from fcl_bench.seeds import client_call_seed, seeded, server_step_seed
from fcl_bench.transport.in_process import InProcess

REPEATS = 5
TASKS = 10
METHOD = ("method=finetune", "method.epochs=5", "method.batch_size=128", "local=quick")
STREAM = ("stream=si_blurry", f"stream.tasks={TASKS}", "partition=dirichlet", "partition.alpha=0.1")
DATA = ("dataset=gaussian", "dataset.classes=100", "dataset.features=1280", "dataset.test_size=100")


def quick() -> Iterator[Row]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for clients, samples, rounds, limit in ((2, 1000, 20, 0.6), (5, 200, 20, 0.35), (100, 20, 2, 0.2)):
            with TemporaryDirectory() as folder:
                yield row(last_task(clients, samples, rounds, folder), limit)
        yield together()
    finally:
        torch.set_num_threads(threads)


def together(clients: int = 100, samples: int = 20, features: int = 1280, classes: int = 54) -> Row:
    """What could be won if clients of one size were trained in one product: in arithmetic, and nothing else."""
    inputs = torch.randn(clients, samples, features)
    shares = torch.zeros(clients, samples, classes)
    weight = torch.randn(classes, features)
    both = [partial(arithmetic, inputs, shares, weight), partial(one_by_one, inputs, shares, weight)]
    seconds, reference = best(REPEATS, *both)
    how = f"products of a fit of {clients} clients x 5 steps, thread time of a client; best of {REPEATS}"
    scale = 1000 / clients
    return Row(f"products of {samples} samples, together / one by one", how, scale * seconds, "ms", scale * reference)


def one_by_one(inputs: Tensor, shares: Tensor, weight: Tensor) -> float:
    pairs = zip(inputs.split(1), shares.split(1), strict=True)
    return sum(arithmetic(some, theirs, weight) for some, theirs in pairs)


def arithmetic(inputs: Tensor, shares: Tensor, weight: Tensor) -> float:
    """Thread seconds of the products of all pairs, the first logits, five steps, and the weights at the end."""
    begin = thread_time()
    pairs = torch.bmm(inputs, inputs.transpose(1, 2))
    start = (inputs.flatten(0, 1) @ weight.T).view(shares.shape)
    for _ in range(5):
        torch.baddbmm(start, pairs, shares)
    torch.bmm(shares.transpose(1, 2), inputs)
    return thread_time() - begin


@dataclass(frozen=True)
class LastTask:
    """The last task, for the harness and as tensors in memory."""

    scenario: Scenario
    clients: list[tuple[Tensor, Tensor]]  # inputs and labels
    columns: Tensor  # in the softmax
    rounds: int

    @property
    def progress(self) -> Progress:
        """When it begins. The head has no rows of earlier tasks: the growth of this one gives it all of them."""
        return replace(beginning(self.scenario.method()), task=TASKS - 1)

    def start(self) -> StateDict:
        """What clients receive in the first round."""
        with seeded(server_step_seed(self.scenario.config.seed, TASKS - 1, 0)):
            return grown(self.progress.state, self.scenario.stream.tasks[-1].seen)


def last_task(clients: int, samples: int, rounds: int, folder: str) -> LastTask:
    size = f"dataset.train_size={TASKS * clients * samples}"
    many = (f"partition.clients={clients}", f"method.rounds={rounds}")
    scenario = make_scenario(*METHOD, *STREAM, *DATA, size, *many, f"cache_dir={folder}")
    numbers = scenario.stream.number[scenario.dataset.train.labels]
    held = []
    for client in range(clients):
        indices = scenario.stream.indices(TASKS - 1, client)
        held.append((scenario.train[torch.from_numpy(indices)], torch.from_numpy(numbers[indices])))
    columns = torch.tensor(sorted(scenario.stream.tasks[-1].classes))
    return LastTask(scenario, held, columns, rounds)


def row(task: LastTask, limit: float) -> Row:
    check_equal(task)
    calls = task.rounds * len(task.clients)
    seconds, reference = best(REPEATS, partial(harness, task), partial(by_hand, task))
    samples = len(task.clients[0][0])
    how = (
        f"{len(task.clients)} clients x {task.rounds} rounds x 5 epochs, {len(task.columns)} of 100 classes, "
        f"1280 features; a client call; best of {REPEATS}"
    )
    name = f"quick Finetune, {samples:,} samples / plain"
    return Row(name, how, 1000 * seconds / calls, "ms", 1000 * reference / calls, limit=limit)


def harness(task: LastTask) -> float:
    """Client seconds of the task, with nothing kept from an earlier run."""
    KEPT.forget()
    return learned(task).costs.client_seconds


def learned(task: LastTask) -> Progress:
    method = task.scenario.method()
    return learn_one_task(method, task.scenario.federation(InProcess()), task.progress)


def by_hand(task: LastTask) -> float:
    """Seconds of the same number of calls; every round begins at the first model."""
    start = task.start()
    settings: Any = task.scenario.config.method
    lr, batch_size = float(settings.lr), int(settings.batch_size)
    begin = perf_counter()
    for _ in range(task.rounds):
        for inputs, labels in task.clients:
            trained(start, inputs, labels, task.columns, lr, batch_size)
    return perf_counter() - begin


def trained(start: StateDict, inputs: Tensor, labels: Tensor, columns: Tensor, lr: float, batch_size: int) -> StateDict:
    """One client in one round."""
    classes, features = start["head.weight"].shape
    head = nn.utils.skip_init(nn.Linear, features, classes)  # which draws no numbers
    head.load_state_dict({name.removeprefix("head."): value for name, value in start.items()})
    optimizer = torch.optim.SGD(head.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
    for _ in range(5):
        for some, their_labels in ready_batches(inputs, labels, batch_size):
            optimizer.zero_grad()
            logits = head(some).index_select(1, columns)
            cross_entropy(logits, torch.searchsorted(columns, their_labels)).backward()
            optimizer.step()
    return {name: value.detach().clone() for name, value in zip(HEAD, head.parameters(), strict=True)}


def check_equal(task: LastTask) -> None:
    """Times may be compared only where results are the same: the mean of the clients after one round."""
    settings: Any = task.scenario.config.method
    start = task.start()
    total = {name: torch.zeros_like(value) for name, value in start.items()}
    for client, (inputs, labels) in enumerate(task.clients):
        with seeded(client_call_seed(task.scenario.config.seed, TASKS - 1, 0, client)):
            model = trained(start, inputs, labels, task.columns, float(settings.lr), int(settings.batch_size))
        for name, value in model.items():
            total[name] += value * len(labels)
    samples = sum(len(labels) for _, labels in task.clients)
    found = first_round(task)
    for name, value in total.items():
        torch.testing.assert_close(found[name], value / samples, rtol=1e-4, atol=1e-6)


def first_round(task: LastTask) -> StateDict:
    """The model of the harness after one round of the last task."""
    method = task.scenario.method()
    federation = task.scenario.federation(InProcess())
    clients = federation.open(method, federation.stream.tasks[-1], 0, 0)
    with seeded(server_step_seed(task.scenario.config.seed, TASKS - 1, 0)):
        model: StateDict = next(iter(method.learn(task.progress.state, clients.task, clients)))
    return model
