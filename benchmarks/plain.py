"""A second task of each method as anyone would write it by hand: one client, a linear head, tensors in memory.

No messages, no averaging, no traffic; samples are put in order once per epoch, and batches are slices of that. Random
numbers are drawn in the order of the harness and from its seeds, so that both end with the same weights. Methods that
keep samples are in :mod:`benchmarks.plain_replay`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from fcl_bench import StateDict
from fcl_bench.seeds import derive

HEAD = ("head.weight", "head.bias")
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Second:
    """What there is when the second task begins."""

    settings: SimpleNamespace  # of the method: no OmegaConf, which takes its time at every look
    seed: int
    inputs: Tensor
    labels: Tensor
    classes: int  # with those of this task
    state: Any  # of the method, after the first task
    memory: dict[str, Any]  # of its only client

    @cached_property
    def weights(self) -> StateDict:
        """The model after the first task."""
        return weights_of(self.state)

    @cached_property
    def known(self) -> int:
        """Classes of the first task."""
        return len(self.weights["head.bias"])

    @cached_property
    def first(self) -> int:
        """The softmax goes over classes from this one on: over all, or over those of the task."""
        return 0 if self.settings.ce_scope == "seen" else self.known

    def head(self) -> nn.Linear:
        """That of the first task, with new rows for new classes."""
        old = self.weights["head.weight"]
        bound = math.sqrt(3 / old.shape[1])
        head = nn.Linear(old.shape[1], self.classes)
        torch.manual_seed(derive(self.seed, "server", 1))
        with torch.no_grad():
            rows = old.new_empty(self.classes - self.known, old.shape[1]).uniform_(-bound, bound)
            head.weight.copy_(torch.cat([old, rows]))
            head.bias.zero_()[: self.known] = self.weights["head.bias"]
        return head

    def teacher(self) -> nn.Linear:
        """The head of the first task, frozen."""
        teacher = nn.Linear(self.inputs.shape[1], self.known).requires_grad_(False)
        teacher.weight.copy_(self.weights["head.weight"])
        teacher.bias.copy_(self.weights["head.bias"])
        return teacher

    def cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Over the classes in the softmax."""
        return cross_entropy(logits[:, self.first :], labels - self.first)

    def distilled(self, logits: Tensor, teacher: nn.Linear, inputs: Tensor) -> Tensor:
        """What the teacher adds to the loss."""
        with torch.no_grad():
            soft = (teacher(inputs) / self.settings.temperature).softmax(dim=1)
        student = logits[:, : self.known] / self.settings.temperature
        return self.settings.distillation * cross_entropy(student, soft)

    def draw(self, exchange: int) -> None:
        """From now on, random numbers are those of the client in this exchange."""
        torch.manual_seed(derive(self.seed, 1, exchange, 0))


def weights_of(state: Any) -> StateDict:
    """The model in the state of a method, which may be all of it."""
    return state if isinstance(state, dict) else state.weights


def ready_batches(inputs: Tensor, labels: Tensor, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of an epoch in random order, as slices of one copy."""
    order = torch.randperm(len(labels))
    return zip(inputs[order].split(batch_size), labels[order].split(batch_size), strict=True)


def fit(second: Second, head: nn.Linear, loss: Loss, inputs: Tensor, labels: Tensor, exchange: int) -> None:
    """The loop of every method that has momentum."""
    settings = second.settings
    optimizer = torch.optim.SGD(head.parameters(), lr=settings.lr, momentum=0.9, weight_decay=5e-4)
    second.draw(exchange)
    for _ in range(settings.epochs):
        for some, their_labels in ready_batches(inputs, labels, settings.batch_size):
            optimizer.zero_grad()
            loss(some, their_labels).backward()
            optimizer.step()


def fedprox(second: Second) -> tuple[Tensor, ...]:
    head = second.head()
    anchor = [value.detach().clone() for value in head.parameters()]

    def loss(inputs: Tensor, labels: Tensor) -> Tensor:
        now = second.cross_entropy(head(inputs), labels)
        distance = sum(((value - old) ** 2).sum() for value, old in zip(head.parameters(), anchor, strict=True))
        return now + second.settings.mu / 2 * distance

    fit(second, head, loss, second.inputs, second.labels, exchange=0)
    return head.weight, head.bias


def scaffold(second: Second) -> tuple[Tensor, ...]:
    """Ends with the client's control variate. The server's is the same: a correction of zero, which costs no less."""
    head, settings = second.head(), second.settings
    start = [value.detach().clone() for value in head.parameters()]
    ours = [widened(second.memory["control"][name], second.classes) for name in HEAD]
    theirs = [widened(second.state.control[name], second.classes) for name in HEAD]
    corrections = [all_ - own for all_, own in zip(theirs, ours, strict=True)]
    optimizer = torch.optim.SGD(head.parameters(), lr=settings.lr, weight_decay=5e-4)
    second.draw(0)
    steps = 0
    for _ in range(settings.epochs):
        for inputs, labels in ready_batches(second.inputs, second.labels, settings.batch_size):
            optimizer.zero_grad()
            second.cross_entropy(head(inputs), labels).backward()
            for value, correction in zip(head.parameters(), corrections, strict=True):
                value.grad += correction
            optimizer.step()
            steps += 1
    ends = [value.detach() for value in head.parameters()]
    control = [
        own - all_ + (old - new) / (steps * settings.lr)
        for own, all_, old, new in zip(ours, theirs, start, ends, strict=True)
    ]
    return head.weight, head.bias, *control


def widened(values: Tensor, rows: int) -> Tensor:
    """With zeros for new classes."""
    return torch.cat([values, values.new_zeros(rows - len(values), *values.shape[1:])])


def fedlwf(second: Second) -> tuple[Tensor, ...]:
    head, teacher = second.head(), second.teacher()

    def loss(inputs: Tensor, labels: Tensor) -> Tensor:
        logits = head(inputs)
        return second.cross_entropy(logits, labels) + second.distilled(logits, teacher, inputs)

    fit(second, head, loss, second.inputs, second.labels, exchange=1)
    return head.weight, head.bias


def fedewc(second: Second) -> tuple[Tensor, ...]:
    """Ends with the Fisher information of both tasks."""
    head, known, settings, labels = second.head(), second.known, second.settings, second.labels
    anchor = [second.weights[name] for name in HEAD]
    importance = [second.state.importance[name] for name in HEAD]
    stiffness = [(settings.penalty * value).clamp(max=1 / settings.lr) for value in importance]

    def loss(inputs: Tensor, labels: Tensor) -> Tensor:
        now = second.cross_entropy(head(inputs), labels)
        held = zip(head.parameters(), anchor, stiffness, strict=True)
        return now + sum((weight * (value[:known] - old) ** 2).sum() for value, old, weight in held) / 2

    fit(second, head, loss, second.inputs, labels, exchange=1)
    fisher = [widened(value, second.classes) for value in importance]
    with torch.no_grad():
        logits = head(second.inputs)[:, second.first :]
        errors = (logits.softmax(dim=1) - one_hot(labels - second.first, logits.shape[1])) ** 2
        fisher[0][second.first :] += errors.T @ second.inputs**2 / len(labels)
        fisher[1][second.first :] += errors.mean(dim=0)
    return head.weight, head.bias, *fisher
