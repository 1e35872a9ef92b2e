"""FedProx: federated averaging with a proximal term that holds every client near the model of the round.

Paper: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020.

Followed: the local loss is cross-entropy + (mu / 2) ||w - w_global||^2, w_global the model received in this round.
Deviates: no inexact local solver; the local work is that of Finetune. ``mu: 0`` is Finetune to the bit. The term is
against clients drifting apart, not against forgetting: a control for what the continual methods add.
"""

from collections.abc import Iterator
from typing import Annotated, Unpack

from pydantic import Field
from torch import nn

from fcl_bench import (
    Backbone,
    Client,
    Clients,
    CrossEntropy,
    FederatedAveraging,
    Pull,
    Round,
    StateDict,
    Task,
    Training,
    Update,
)


class Proximal(CrossEntropy):
    """Cross-entropy and half of ``mu`` times the squared distance from ``anchor``."""

    mu: float
    anchor: StateDict

    def pull(self) -> Pull | None:
        """Towards the anchor."""
        return Pull(self.anchor, self.mu) if self.mu else None


class FedProx:
    """``mu`` weighs the proximal term; the state is the global model."""

    exemplar_free = True
    resumes_within_tasks = True

    def __init__(
        self,
        backbone: Backbone,
        mu: Annotated[float, Field(ge=0, allow_inf_nan=False)],
        **training: Unpack[Training],
    ):
        self.averaging = FederatedAveraging(backbone, training, Proximal, mu=mu)

    def init(self) -> StateDict:
        """The backbone's own weights and a head without rows."""
        return self.averaging.start

    def learn(self, state: StateDict, task: Task, clients: Clients) -> Iterator[StateDict]:
        """Average round after round."""
        yield from self.averaging.learn(state, task, clients, self.train)

    def train(self, client: Client, received: Round) -> Update:
        """At the client: a few epochs, not far from what was received."""
        return self.averaging.train(client.data, received, anchor=received.weights)

    def classifier(self, state: StateDict) -> nn.Module:
        """The global model."""
        return self.averaging.classifier(state)
