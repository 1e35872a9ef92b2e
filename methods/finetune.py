"""Finetune: federated averaging with nothing against forgetting, the lower reference of every table.

Paper: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017; in
federated class-incremental form as the baseline of Zhang et al., "TARGET", ICCV 2023.

Followed: per round the global model goes down, every client trains it on its current data and sends the whole state
dict back; SGD 0.01, momentum 0.9, weight decay 5e-4, batches of 128, momentum forgotten between rounds.
Deviates: the mean is weighted by samples (equal to TARGET's plain mean for clients of equal size); BatchNorm buffers
are averaged and its integer counter rounded. ``ce_scope: task`` is TARGET's softmax over new classes, generalised to
streams where old classes return: over all classes of the task.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from fcl_bench import Backbone, Client, Clients, Fit, StateDict, Task, Update, grown, snapshot, weighted_mean
from fcl_bench.losses import CrossEntropy, Network, OptimizerFactory


@dataclass(frozen=True)
class Global:
    """The state: one model."""

    weights: StateDict


@dataclass(frozen=True)
class Round:
    """What every client receives in a round."""

    weights: StateDict
    columns: Tensor | None  # classes in the softmax; None for the client's own
    lr: float


class Finetune:
    """FedAvg for ``rounds`` rounds of ``epochs`` local epochs per task."""

    exemplar_free = True

    def __init__(
        self,
        backbone: Backbone,
        fit: Fit,
        optimizer: OptimizerFactory,
        rounds: PositiveInt = 20,
        epochs: PositiveInt = 5,
        batch_size: PositiveInt = 128,
        lr: PositiveFloat = 0.01,
        schedule: Literal["constant", "cosine"] = "constant",
        ce_scope: Literal["task", "seen", "local"] = "task",
    ):
        self.fit, self.rounds, self.epochs, self.batch_size = fit, rounds, epochs, batch_size
        self.lr, self.schedule, self.ce_scope = lr, schedule, ce_scope
        self.loss = CrossEntropy(Network(backbone), optimizer, lr)
        self.start = snapshot(self.loss.network)

    def init(self) -> Global:
        """The backbone's own weights and a head without rows."""
        return Global(self.start)

    def learn(self, state: Global, task: Task, clients: Clients) -> Iterator[Global]:
        """Grow the head by the new classes, then average round after round."""
        weights = grown(state.weights, task.seen)
        columns = {"task": torch.tensor(task.classes), "seen": torch.arange(task.seen), "local": None}[self.ce_scope]
        for number in range(self.rounds):
            updates = clients.map(self.train, Round(weights, columns, self.lr_of(number)))
            weights = weighted_mean(updates, default=weights)
            yield Global(weights)

    def lr_of(self, number: int) -> float:
        """The learning rate of a round: constant, or half a cosine from ``lr`` to 0 over the rounds of a task."""
        if self.schedule == "constant":
            return self.lr
        return self.lr * (1 + math.cos(math.pi * number / self.rounds)) / 2

    def train(self, client: Client, received: Round) -> Update:
        """At the client: a few epochs on its own data."""
        self.loss.network.load_state_dict(received.weights)
        self.loss.lr = received.lr
        self.loss.columns = client.data.labels.unique() if received.columns is None else received.columns
        self.fit(self.loss, client.data, self.epochs, self.batch_size)
        return Update(snapshot(self.loss.network), len(client.data))

    def classifier(self, state: Global) -> nn.Module:
        """The global model."""
        self.loss.network.load_state_dict(state.weights)
        return self.loss.network.eval()
