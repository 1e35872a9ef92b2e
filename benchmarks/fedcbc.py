"""FedCBC's VAEs, all classes at once as batched matrices, against the same VAEs one after another in plain PyTorch.

A step of all classes updates 8.6 million parameters by Adam, which reads and writes a quarter of a gigabyte, and
multiplies 0.8 GFlop. That, and not the number of calls, is what is left: the limit of a tenth is for devices that do
this in the time of some calls.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.optim import Adam

from benchmarks.measure import Row
from fcl_bench import Backbone
from fcl_bench.config.compose import build, composed
from fcl_bench.methods.fedcbc import FedCBC, Lesson, Models
from fcl_bench.run.allocator import keep_freed_memory

CLASSES, SAMPLES, EPOCHS, FEATURES = 50, 20, 300, 1280


def fedcbc() -> Iterator[Row]:
    keep_freed_memory()  # as a run does
    check_equal(make(epochs=10), start_of(3), lesson_of(3))
    method = make(EPOCHS)
    start = start_of(CLASSES)
    lesson = lesson_of(CLASSES)
    together = seconds_of(lambda: method.trained(start, lesson, seeds=range(CLASSES)))
    reference = seconds_of(lambda: one_after_another(method, start, lesson))
    how = f"{CLASSES} classes x {SAMPLES} samples x {EPOCHS} epochs, {FEATURES} features, batch {method.batch_size}"
    how = f"{how}, {torch.get_num_threads()} threads; once"
    yield Row("FedCBC, all VAEs / one after another", how, together, "s", reference, limit=0.1)


def make(epochs: int) -> FedCBC:
    """The method as its YAML has it, for so many epochs."""
    return build(composed("method=fedcbc", f"method.epochs={epochs}").method, Backbone(FEATURES))


def start_of(classes: int) -> Models:
    """Untrained VAEs."""
    return make(epochs=1).fresh(torch.arange(classes), seed=0)


def lesson_of(classes: int) -> Lesson:
    """Samples, and no teachers."""
    rows = classes * SAMPLES
    codes = torch.zeros(rows, 2 * make(epochs=1).code)
    labels = torch.arange(classes).repeat_interleave(SAMPLES)
    return Lesson(labels, torch.rand(rows, FEATURES), codes, torch.zeros(rows))


class PlainVAE(nn.Module):
    """For a single class."""

    def __init__(self, weights: dict[str, Tensor], place: int):
        super().__init__()
        self.encoder, self.code, self.decoder, self.output = (
            linear(weights[f"{name}.weight"][place], weights[f"{name}.bias"][place, 0])
            for name in ("encoder", "code", "decoder", "output")
        )

    def loss(self, rows: Tensor, noise: Tensor) -> Tensor:
        mean, logvar = self.code(self.encoder(rows).tanh()).chunk(2, dim=1)
        codes = mean + noise * (0.5 * logvar).exp()
        rebuilt = self.output(self.decoder(codes).tanh()).sigmoid()
        kld = -0.5 * (1 + logvar - mean.square() - logvar.exp()).sum()
        return ((rows - rebuilt).square().sum() + 0.5 * kld) / len(rows)


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    layer = nn.Linear(*weight.shape, dtype=weight.dtype)
    layer.load_state_dict({"weight": weight.T, "bias": bias})
    return layer


def one_after_another(method: FedCBC, start: Models, lesson: Lesson) -> list[PlainVAE]:
    """With the batches and the noise that the method would take."""
    return [alone(method, PlainVAE(start.weights, place), lesson, place) for place in range(len(start))]


def alone(method: FedCBC, vae: PlainVAE, lesson: Lesson, number: int) -> PlainVAE:
    rows = lesson.features[lesson.labels == number]
    optimizer = Adam(vae.parameters(), lr=method.lr, weight_decay=0.001)
    random = torch.Generator().manual_seed(number)
    for _ in range(method.epochs):
        for positions in torch.randperm(len(rows), generator=random).split(method.batch_size):
            noise = torch.randn(len(positions), method.code, generator=random)
            optimizer.zero_grad()
            vae.loss(rows[positions], noise).backward()
            optimizer.step()
    return vae


def check_equal(method: FedCBC, start: Models, lesson: Lesson) -> None:
    """Times may be compared only where results are the same: in float64, as Adam enlarges what is rounded."""
    start = Models(start.classes, {name: value.double() for name, value in start.weights.items()})
    lesson = replace(lesson, features=lesson.features.double(), codes=lesson.codes.double())
    found = method.trained(start, lesson, seeds=range(len(start)))
    for place, vae in enumerate(one_after_another(method, start, lesson)):
        torch.testing.assert_close(found.weights["output.weight"][place], vae.output.weight.T, rtol=0, atol=1e-5)
        torch.testing.assert_close(found.weights["encoder.weight"][place], vae.encoder.weight.T, rtol=0, atol=1e-5)


def seconds_of(action: Callable[[], object]) -> float:
    start = perf_counter()
    action()
    return perf_counter() - start
