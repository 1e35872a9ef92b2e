"""FedLwF: learning without forgetting, federated. The global model of the task before teaches the present one.

Paper: Li and Hoiem, "Learning without Forgetting", TPAMI 2018; federated as the baseline of Zhang et al., "TARGET",
ICCV 2023.

Followed: local loss = cross-entropy + 3 x distillation at temperature 2. Distillation is the soft cross-entropy between
teacher and student over the classes the teacher knows, on the client's current samples, without a factor T^2. The
teacher goes to the clients once per task, as an exchange of its own, and is kept there; it predicts in eval mode.
Deviates: ``variant: corrected`` (default) weighs clients by samples; ``variant: target_repo`` takes TARGET's plain
mean, and is otherwise the same. Old classes that return in a blurry stream are in both terms. A client that was absent
when a teacher was sent goes on with the one it has, or without.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, Unpack

from pydantic import Field, PositiveFloat
from torch import nn

from fcl_bench import Backbone, Client, Clients, StateDict, Task, Update, snapshot
from fcl_bench.averaging import FederatedAveraging, Round, Training
from fcl_bench.losses import Distillation, Network


@dataclass(frozen=True)
class Global:
    """The state: one model, which is also the next task's teacher."""

    weights: StateDict


class FedLwF:
    """``distillation`` weighs what the teacher says at ``temperature``."""

    exemplar_free = True

    def __init__(
        self,
        backbone: Backbone,
        variant: Literal["corrected", "target_repo"] = "corrected",
        distillation: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 3.0,
        temperature: PositiveFloat = 2.0,
        **training: Unpack[Training],
    ):
        self.averaging, self.variant = FederatedAveraging(**training), variant
        self.loss = Distillation(Network(backbone), self.averaging.optimizer, distillation, temperature)
        self.start = snapshot(self.loss.network)

    def init(self) -> Global:
        """The backbone's own weights and a head without rows."""
        return Global(self.start)

    def learn(self, state: Global, task: Task, clients: Clients) -> Iterator[Global]:
        """Hand out the teacher, then average round after round."""
        if len(state.weights["head.bias"]):
            clients.map(self.keep_teacher, state.weights)
        for weights in self.averaging.learn(state.weights, task, clients, self.train):
            yield Global(weights)

    def keep_teacher(self, client: Client, teacher: StateDict) -> None:
        """At the client: remember the model of the task before."""
        client.memory["teacher"] = teacher

    def train(self, client: Client, received: Round) -> Update:
        """At the client: learn the new, imitate the teacher on the old."""
        self.loss.load_teacher(client.memory.get("teacher"))
        weights = self.averaging.train(self.loss, client.data, client.data.labels, received)
        samples = len(client.data)
        return Update(weights, min(samples, 1) if self.variant == "target_repo" else samples)

    def classifier(self, state: Global) -> nn.Module:
        """The global model."""
        return self.loss.network.loaded(state.weights).eval()
