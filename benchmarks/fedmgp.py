"""FedMGP's client call on features, through ``clients.map`` and Fabric, against the same steps in plain PyTorch.

Both stages, with clipped gradients and AdamW. Random numbers are drawn in another order, so losses differ a little; the
arithmetic is the same.
"""

from collections.abc import Callable, Iterable, Iterator
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy

from benchmarks.harness import learn_all, make_scenario
from benchmarks.measure import Row, best
from benchmarks.plain import ready_batches

REPEATS = 5
ONE_CALL = (
    *("method=fedmgp", "method.rounds=1", "stream=iid", "stream.tasks=1", "partition=iid", "partition.clients=1"),
    *("dataset=gaussian", "dataset.train_size=4000", "dataset.features=1280", "dataset.test_size=100"),
)


def fedmgp() -> Iterator[Row]:
    with TemporaryDirectory() as folder:
        scenario = make_scenario(*ONE_CALL, f"cache_dir={folder}")
        inputs = scenario.train.tensor.clone()
        labels = torch.from_numpy(scenario.dataset.train.labels)
        settings: Any = OmegaConf.to_container(scenario.config.method, resolve=True)

        def client_seconds() -> float:
            _, costs = learn_all(scenario)
            return costs.client_seconds

        seconds, reference = best(REPEATS, client_seconds, lambda: plain_seconds(settings, inputs, labels))
    how = (
        f"a round of 5 + 5 epochs over 4,000 x 1280 features, batch {settings['batch_size']}, one thread; reference: "
        f"slices of one copy per epoch; best of {REPEATS}"
    )
    yield Row("FedMGP on features / plain PyTorch", how, seconds, "s", reference, limit=1.2)


def plain_seconds(settings: dict[str, Any], inputs: Tensor, labels: Tensor) -> float:
    """What anyone would write."""
    classes, features = int(labels.max()) + 1, inputs.shape[1]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    start = perf_counter()
    coarse = nn.Parameter(torch.zeros(features))
    its_key = nn.Parameter(torch.rand(features))
    head = mlp(features, classes)

    def first(some: Tensor, their_labels: Tensor) -> Tensor:
        loss = cross_entropy(head(some + coarse), their_labels)
        return loss - settings["pull"] * cosine_similarity(some, its_key[None]).mean()

    fit(settings, [coarse, its_key, *head.parameters()], first, inputs, labels)
    fixed = coarse.detach()
    fine = nn.Parameter(torch.zeros(classes, features))
    keys = nn.Parameter(torch.rand(classes, features))
    local_head = mlp(features, classes)

    def second(some: Tensor, their_labels: Tensor) -> Tensor:
        queries = some + fixed
        loss = cross_entropy(local_head(queries + fine[their_labels]), their_labels)
        return loss - settings["pull"] * cosine_similarity(queries, keys[their_labels]).mean()

    fit(settings, [fine, keys, *local_head.parameters()], second, inputs, labels)
    seconds = perf_counter() - start
    torch.set_num_threads(threads)
    return seconds


def mlp(features: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(features, 512), nn.ReLU(), nn.Linear(512, classes))


def fit(
    settings: dict[str, Any],
    parameters: Iterable[nn.Parameter],
    loss: Callable[[Tensor, Tensor], Tensor],
    inputs: Tensor,
    labels: Tensor,
) -> None:
    """The epochs of one stage."""
    trained = list(parameters)
    decay = settings["optimizer"]["weight_decay"]
    optimizer = torch.optim.AdamW(trained, lr=settings["lr"], weight_decay=decay, fused=True)
    for _ in range(settings["epochs"]):
        for some, their_labels in ready_batches(inputs, labels, settings["batch_size"]):
            optimizer.zero_grad()
            loss(some, their_labels).backward()
            nn.utils.clip_grad_norm_(trained, settings["gradient_clip"])
            optimizer.step()
