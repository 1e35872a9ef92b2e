"""Federated averaging, the piece shared by methods that train: its settings, its rounds, a client's local training.

A method takes the settings as ``**training: Unpack[Training]``, makes a :class:`FederatedAveraging` of them, and says
what a client does in a round; the growing head, the columns of the softmax and the learning rate are seen to here.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from fcl_bench.aggregate import Update, weighted_mean
from fcl_bench.federation import Client, Clients
from fcl_bench.head import grown
from fcl_bench.local import Batches, Fit
from fcl_bench.losses import CrossEntropy, OptimizerFactory
from fcl_bench.message import StateDict, snapshot
from fcl_bench.stream import Task
from fcl_bench.threads import threads_for, work

Schedule = Literal["constant", "cosine", "step"]
Scope = Literal["task", "seen", "local"]


class Training(TypedDict, total=False):
    """The settings of every method that averages; ``configs/training.yaml`` holds their values."""

    fit: Fit
    optimizer: OptimizerFactory
    rounds: PositiveInt
    epochs: PositiveInt
    batch_size: PositiveInt
    lr: PositiveFloat
    lr_end: Annotated[float, Field(ge=0)]
    schedule: Schedule
    ce_scope: Scope


@dataclass(frozen=True)
class Round:
    """What every client receives in a round."""

    weights: StateDict
    columns: Tensor | None  # classes in the softmax; None for the client's own
    lr: float


@dataclass(frozen=True)
class FederatedAveraging:
    """``rounds`` rounds per task of ``epochs`` local epochs.

    ``schedule`` sets the learning rate of each round of a task: constant; half a cosine from ``lr`` to ``lr_end``; or
    ``step``, a tenth after half of the rounds and a hundredth after three quarters. ``ce_scope`` says over which
    classes the softmax of the cross-entropy goes: those of the task, all seen so far, or the client's own.
    """

    fit: Fit
    optimizer: OptimizerFactory
    rounds: int = 20
    epochs: int = 5
    batch_size: int = 128
    lr: float = 0.01
    lr_end: float = 0.0
    schedule: Schedule = "constant"
    ce_scope: Scope = "task"

    def learn(
        self, weights: StateDict, task: Task, clients: Clients, train: Callable[[Client, Round], Update]
    ) -> Iterator[StateDict]:
        """The global weights after each round, in which every client does ``train``, a function of the method."""
        weights = grown(weights, task.seen)
        for number in range(self.rounds):
            received = Round(weights, self.columns(task), self.rate(number))
            weights = weighted_mean(clients.map(train, received), default=weights)
            yield weights

    def columns(self, task: Task) -> Tensor | None:
        """The classes in the softmax, ascending; None where each client takes its own."""
        scopes = {"task": torch.tensor(sorted(task.classes)), "seen": torch.arange(task.seen), "local": None}
        return scopes[self.ce_scope]

    def rate(self, number: int) -> float:
        """The learning rate of round ``number`` of a task."""
        if self.schedule == "cosine":
            return self.lr_end + (self.lr - self.lr_end) * (1 + math.cos(math.pi * number / self.rounds)) / 2
        if self.schedule == "step":
            return self.lr * 0.1 ** ((2 * number >= self.rounds) + (4 * number >= 3 * self.rounds))
        return self.lr

    def train(self, loss: CrossEntropy, data: Batches, labels: Tensor, received: Round) -> StateDict:
        """At a client: what ``loss`` makes of the received weights on ``data``, whose labels these are."""
        loss.lr = received.lr
        loss.columns = labels.unique() if received.columns is None else received.columns
        with threads_for(work(loss)):
            loss.network.load_state_dict(received.weights)
            self.fit(loss, data, self.epochs, self.batch_size)
            return snapshot(loss.network)

    def steps(self, samples: int) -> int:
        """How many optimizer steps :meth:`train` takes on so many samples."""
        batches = -(-samples // self.batch_size)
        return self.epochs * (batches - (batches > 1 and samples % self.batch_size == 1))
