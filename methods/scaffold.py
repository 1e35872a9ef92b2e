"""SCAFFOLD: federated averaging whose local steps are corrected by control variates.

Paper: Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020.

Followed: a client's step is w -= lr (g - c_k + c); after its S steps c_k becomes c_k - c + (w_global - w_k) / (S lr)
(the paper's option II); the server moves by ``server_lr`` towards the plain mean of the clients' models and adds to c
the sum of the changes of c_k over the number of all clients. Plain SGD: momentum would make (w_global - w_k) / (S lr)
something else than a mean gradient, and is refused.
Deviates: buffers (BatchNorm's statistics) have no control variate and are averaged. When a task brings new classes,
their rows of c and c_k begin at zero; the others stay. A client without data takes no part in the mean.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Unpack

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from fcl_bench import Backbone, Client, Clients, ConfigError, StateDict, Task, Update, grown, snapshot, weighted_mean
from fcl_bench.averaging import FederatedAveraging, Round, Training
from fcl_bench.losses import CrossEntropy, Network


@dataclass(frozen=True)
class Global:
    """The state: the model and the server's control variate, one number per trained parameter."""

    weights: StateDict
    control: StateDict


@dataclass(frozen=True)
class Controlled:
    """What every client receives in a round."""

    round: Round
    control: StateDict


@dataclass(frozen=True)
class Reply:
    """A client's model, and by how much its own control variate changed."""

    update: Update
    change: StateDict


class Correct(torch.autograd.Function):
    """A loss as it is, whose gradient has a correction added for every parameter."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, corrections: list[Tensor], *parameters: Tensor) -> Tensor:
        """The loss; the parameters are named only for their gradients to pass here."""
        ctx.corrections = corrections
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """What the loss is scaled by, the corrections are scaled by."""
        return gradient, None, *(gradient * correction for correction in ctx.corrections)


class Corrected(CrossEntropy):
    """Cross-entropy with ``correction`` added to its gradient."""

    correction: StateDict

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """The loss of one batch."""
        loss = super().training_step(batch, batch_idx)
        names, parameters = zip(*self.network.named_parameters(), strict=True)
        return Correct.apply(loss, [self.correction[name].to(loss.device) for name in names], *parameters)


class Scaffold:
    """``server_lr`` is the server's step towards the mean of the clients."""

    exemplar_free = True

    def __init__(self, backbone: Backbone, server_lr: PositiveFloat = 1.0, **training: Unpack[Training]):
        self.averaging, self.server_lr = FederatedAveraging(**training), server_lr
        self.loss = Corrected(Network(backbone), self.averaging.optimizer)
        if self.loss.configure_optimizers().defaults.get("momentum", 1):
            raise ConfigError("SCAFFOLD needs plain SGD, but method.optimizer has momentum: set it to 0.")
        self.start = snapshot(self.loss.network)
        self.trained = [name for name, _ in self.loss.network.named_parameters()]

    def init(self) -> Global:
        """The backbone's own weights, a head without rows, no correction."""
        return Global(self.start, fitted({}, self.start, self.trained))

    def learn(self, state: Global, task: Task, clients: Clients) -> Iterator[Global]:
        """Corrected rounds; model and control variate move together."""
        weights = grown(state.weights, task.seen)
        control = fitted(state.control, weights, self.trained)
        for number in range(self.averaging.rounds):
            received = Round(weights, self.averaging.columns(task), self.averaging.rate(number))
            changes: StateDict = {}
            updates = summed(clients.map(self.train, Controlled(received, control)), changes)
            mean = weighted_mean(updates, default=weights)
            weights = {name: self.moved(name, value, mean[name]) for name, value in weights.items()}
            control = {name: value + changes.get(name, 0) / len(clients) for name, value in control.items()}
            yield Global(weights, control)

    def moved(self, name: str, old: Tensor, mean: Tensor) -> Tensor:
        """A parameter after the server's step; a buffer is the mean itself."""
        if self.server_lr == 1 or name not in self.trained:
            return mean
        return old + self.server_lr * (mean - old)

    def train(self, client: Client, received: Controlled) -> Reply:
        """At the client: corrected steps, then its own control variate anew."""
        control, data, round_ = received.control, client.data, received.round
        own = fitted(client.memory.get("control", {}), round_.weights, self.trained)
        self.loss.correction = {name: control[name] - own[name] for name in control}
        weights = self.averaging.train(self.loss, data, data.labels, round_)
        if len(data) == 0:
            return Reply(Update(weights, 0), {})
        path = round_.lr * self.averaging.steps(len(data))
        change = {name: (round_.weights[name] - weights[name]) / path - control[name] for name in control}
        client.memory["control"] = {name: own[name] + change[name] for name in control}
        return Reply(Update(weights, 1), change)

    def classifier(self, state: Global) -> nn.Module:
        """The global model."""
        return self.loss.network.loaded(state.weights).eval()


def fitted(control: StateDict, weights: StateDict, names: Iterable[str]) -> StateDict:
    """A control variate for the parameters called ``names``: zero where there was none, as in head rows added since."""
    found = {name: torch.zeros_like(weights[name]) for name in names}
    for name, value in control.items():
        found[name][tuple(map(slice, value.shape))] = value
    return found


def summed(replies: Iterable[Reply], totals: StateDict) -> Iterator[Update]:
    """The updates one by one, while the changes of control variates add up in ``totals``."""
    for reply in replies:
        for name, change in reply.change.items():
            totals[name] = totals[name] + change if name in totals else change
        yield reply.update
