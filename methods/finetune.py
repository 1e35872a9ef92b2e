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
from typing import Unpack

from torch import nn

from fcl_bench import (
    Backbone,
    Client,
    Clients,
    CrossEntropy,
    FederatedAveraging,
    Round,
    StateDict,
    Task,
    Training,
    Update,
)


class Finetune:
    """FedAvg, task after task; the state is the global model."""

    exemplar_free = True
    resumes_within_tasks = True

    def __init__(self, backbone: Backbone, **training: Unpack[Training]):
        self.averaging = FederatedAveraging(backbone, training, CrossEntropy)

    def init(self) -> StateDict:
        """The backbone's own weights and a head without rows."""
        return self.averaging.start

    def learn(self, state: StateDict, task: Task, clients: Clients) -> Iterator[StateDict]:
        """Grow the head by the new classes, then average round after round."""
        yield from self.averaging.learn(state, task, clients, self.train)

    def train(self, client: Client, received: Round) -> Update:
        """At the client: a few epochs on its own data."""
        return self.averaging.train(client.data, received)

    def classifier(self, state: StateDict) -> nn.Module:
        """The global model."""
        return self.averaging.classifier(state)
