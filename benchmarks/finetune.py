"""Finetune's client call, through ``clients.map`` and Fabric, against the same steps in plain PyTorch.

The reference holds all samples in memory, puts them in random order once per epoch, and takes slices of that.
"""

from collections.abc import Iterator
from tempfile import TemporaryDirectory
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.harness import learn, make_world
from benchmarks.measure import Row, best
from benchmarks.plain import ready_batches
from fcl_bench.run.scenario import World

ONE_CALL = (
    "method=finetune",
    "method.rounds=1",
    "stream=iid",
    "stream.tasks=1",
    "partition=iid",
    "partition.clients=1",
)
FEATURES = ("dataset=gaussian", "dataset.train_size=10000", "dataset.features=1280", "dataset.test_size=100")
IMAGES = ("dataset=digits", "limit_train=1024", "limit_test=10")
RESNET = ("backbone=resnet18", "backbone.weights=none", "backbone.input_size=32", "backbone.trainable=true")


def finetune_frozen() -> Iterator[Row]:
    seconds, reference = compare(7, 1, *FEATURES, "method.epochs=5", "method.batch_size=128")
    how = (
        "5 epochs of a head over 10,000 x 1280 features, batch 128, one thread; reference: slices of one copy per epoch"
    )
    yield Row("Finetune on features / contiguous batches", f"{how}; best of 7", seconds, "s", reference, limit=1.1)


def finetune_end_to_end() -> Iterator[Row]:
    threads = torch.get_num_threads()
    settings = ("backbone.augment=none", "method.epochs=1", "method.batch_size=64")
    seconds, reference = compare(7, threads, *IMAGES, *RESNET, *settings)
    how = f"ResNet-18 on 1,024 images of 32 px, batch 64, {threads} threads; reference: slices of one copy"
    yield Row("Finetune end to end / contiguous batches", f"{how}; best of 7", seconds, "s", reference, limit=1.05)


def compare(repeats: int, threads: int, *overrides: str) -> list[float]:
    """Seconds of a client call as the harness counts them, and of the plain loop."""
    with TemporaryDirectory() as folder:
        world = make_world(*ONE_CALL, *overrides, f"cache_dir={folder}")
        method, inputs = world.method(), world.train.clone()

        def client_seconds() -> float:
            _, meter = learn(world, method)
            return meter.client_seconds

        return best(repeats, client_seconds, lambda: plain_seconds(world, inputs, threads))


def plain_seconds(world: World, inputs: Tensor, threads: int) -> float:
    """What anyone would write, with as many threads as the harness uses."""
    method, labels = world.config.method, torch.from_numpy(world.dataset.train.labels)
    network = nn.Sequential(world.backbone.build(), nn.Linear(world.backbone.features, int(labels.max()) + 1))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    start = perf_counter()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    for _ in range(method.epochs):
        for some, their_labels in ready_batches(inputs, labels, method.batch_size):
            optimizer.zero_grad()
            cross_entropy(network(some), their_labels).backward()
            optimizer.step()
    seconds = perf_counter() - start
    torch.set_num_threads(before)
    return seconds
