"""Finetune: federated averaging with nothing against forgetting, the lower reference of every table.

Paper: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017; in
federated class-incremental form as the baseline of Zhang et al., "TARGET", ICCV 2023.

Followed: per round the global model goes down, every client trains it on its current data and sends the whole state
dict back; SGD 0.01, momentum 0.9, weight decay 5e-4, batches of 128, momentum forgotten between rounds.
Deviates: the mean is weighted by samples (equal to TARGET's plain mean for clients of equal size); BatchNorm buffers
are averaged and its integer counter rounded. ``ce_scope: task`` is TARGET's softmax over new classes, generalised to
streams where old classes return: over all classes of the task.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Unpack

from torch import nn

from fcl_bench import Backbone, Client, Clients, StateDict, Task, Update, snapshot
from fcl_bench.averaging import FederatedAveraging, Round, Training
from fcl_bench.losses import CrossEntropy, Network


@dataclass(frozen=True)
class Global:
    """The state: one model."""

    weights: StateDict


class Finetune:
    """FedAvg, task after task."""

    exemplar_free = True

    def __init__(self, backbone: Backbone, **training: Unpack[Training]):
        self.averaging = FederatedAveraging(**training)
        self.loss = CrossEntropy(Network(backbone), self.averaging.optimizer)
        self.start = snapshot(self.loss.network)

    def init(self) -> Global:
        """The backbone's own weights and a head without rows."""
        return Global(self.start)

    def learn(self, state: Global, task: Task, clients: Clients) -> Iterator[Global]:
        """Grow the head by the new classes, then average round after round."""
        for weights in self.averaging.learn(state.weights, task, clients, self.train):
            yield Global(weights)

    def train(self, client: Client, received: Round) -> Update:
        """At the client: a few epochs on its own data."""
        weights = self.averaging.train(self.loss, client.data, client.data.labels, received)
        return Update(weights, len(client.data))

    def classifier(self, state: Global) -> nn.Module:
        """The global model."""
        return self.loss.network.loaded(state.weights).eval()
