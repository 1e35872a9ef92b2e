"""FedProx: federated averaging with a proximal term that holds every client near the model of the round.

Paper: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020.

Followed: the local loss is cross-entropy + (mu / 2) ||w - w_global||^2, w_global the model received in this round.
Deviates: no inexact local solver; the local work is that of Finetune. ``mu: 0`` is Finetune to the bit. The term is
against clients drifting apart, not against forgetting: a control for what the continual methods add.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Unpack

from pydantic import Field
from torch import Tensor, nn

from fcl_bench import Backbone, Client, Clients, StateDict, Task, Update, snapshot
from fcl_bench.averaging import FederatedAveraging, Round, Training
from fcl_bench.losses import CrossEntropy, Network, squared_distance


@dataclass(frozen=True)
class Global:
    """The state: one model."""

    weights: StateDict


class Proximal(CrossEntropy):
    """Cross-entropy and half of ``mu`` times the squared distance from ``anchor``."""

    mu = 0.0
    anchor: StateDict

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """The loss of one batch."""
        loss = super().training_step(batch, batch_idx)
        return loss + self.mu / 2 * squared_distance(self.network, self.anchor) if self.mu else loss


class FedProx:
    """``mu`` weighs the proximal term."""

    exemplar_free = True

    def __init__(
        self,
        backbone: Backbone,
        mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01,
        **training: Unpack[Training],
    ):
        self.averaging = FederatedAveraging(**training)
        self.loss = Proximal(Network(backbone), self.averaging.optimizer)
        self.loss.mu = mu
        self.start = snapshot(self.loss.network)

    def init(self) -> Global:
        """The backbone's own weights and a head without rows."""
        return Global(self.start)

    def learn(self, state: Global, task: Task, clients: Clients) -> Iterator[Global]:
        """Average round after round."""
        for weights in self.averaging.learn(state.weights, task, clients, self.train):
            yield Global(weights)

    def train(self, client: Client, received: Round) -> Update:
        """At the client: a few epochs, not far from what was received."""
        self.loss.anchor = received.weights
        weights = self.averaging.train(self.loss, client.data, client.data.labels, received)
        return Update(weights, len(client.data))

    def classifier(self, state: Global) -> nn.Module:
        """The global model."""
        return self.loss.network.loaded(state.weights).eval()
