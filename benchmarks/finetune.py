"""Finetune's client call through ``clients.map`` and Fabric against the same steps in plain PyTorch."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.harness import learn, make_world
from benchmarks.measure import Row, best

ONE_CALL = (
    "method=finetune",
    "method.rounds=1",
    "stream=iid",
    "stream.tasks=1",
    "partition=iid",
    "partition.clients=1",
)
HEAD = ("dataset=gaussian", "dataset.train_size=10000", "dataset.features=1280", "dataset.test_size=100")
RESNET = ("dataset=digits", "limit_train=1024", "limit_test=10", "backbone=resnet18", "backbone.weights=none")
END_TO_END = (*RESNET, "backbone.input_size=32", "backbone.trainable=true", "backbone.augment=none")


def finetune_frozen() -> Row:
    how = "a head of 1280 x 100, 5 epochs over 10,000 cached features, batch 128, one thread, best of 7; reference: in memory"
    seconds, reference = times(7, 1, *HEAD, "method.epochs=5", "method.batch_size=128")
    return Row("Finetune on features / plain PyTorch", how, seconds, "s", reference, limit=1.15)


def finetune_end_to_end() -> Row:
    threads = torch.get_num_threads()
    how = f"ResNet-18, 1,024 images of 32 x 32, batch 64, {threads} threads, best of 5; reference: in memory"
    seconds, reference = times(5, threads, *END_TO_END, "method.epochs=1", "method.batch_size=64")
    return Row("Finetune end to end / plain PyTorch", how, seconds, "s", reference, limit=1.05)


def times(repeats: int, threads: int, *overrides: str) -> list[float]:
    """Seconds of a client call as the harness counts them, and of the plain loop."""
    with TemporaryDirectory() as folder:
        world = make_world(*ONE_CALL, *overrides, f"cache_dir={folder}")
        inputs, labels = world.train.clone(), torch.from_numpy(world.dataset.train.labels)

        def harness() -> float:
            return learn(world)[1].client_seconds

        def plain() -> float:
            network = nn.Sequential(world.backbone.build(), nn.Linear(world.backbone.features, int(labels.max()) + 1))
            with using(threads):
                start = perf_counter()
                train(network, inputs, labels, world.config.method.epochs, world.config.method.batch_size)
                return perf_counter() - start

        return best(repeats, harness, plain)


def train(network: nn.Module, inputs: Tensor, labels: Tensor, epochs: int, batch_size: int) -> None:
    """What anyone would write."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    for _ in range(epochs):
        for positions in torch.randperm(len(inputs)).split(batch_size):
            optimizer.zero_grad()
            cross_entropy(network(inputs[positions]), labels[positions]).backward()
            optimizer.step()


@contextmanager
def using(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    yield
    torch.set_num_threads(before)
