"""SCAFFOLD: federated averaging whose local steps are corrected by control variates.

Paper: Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020.

Followed: a client's step is w -= lr (g - c_k + c); after its S steps c_k becomes c_k - c + (w_global - w_k) / (S lr)
(the paper's option II); the server moves by ``server_lr`` towards the plain mean of the clients' models and adds to c
the sum of the changes of c_k over the number of all clients. Plain SGD: momentum would make (w_global - w_k) / (S lr)
something else than a mean gradient, and is refused.
Deviates: buffers (BatchNorm's statistics) have no control variate and are averaged. When a task brings new classes,
their rows of c and c_k begin at zero; the others stay. A client without data takes no part in the mean. With another
``aggregation`` than the mean, which the paper does not have, the same rule makes one model of the clients' models and,
by itself, one change of their changes, which then stands for each of them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Unpack

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from fcl_bench import (
    Backbone,
    Client,
    Clients,
    ConfigError,
    CrossEntropy,
    FederatedAveraging,
    Like,
    Pull,
    Round,
    StateDict,
    Task,
    Training,
    Update,
    grown,
)


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
    change: Annotated[StateDict, Like("control", or_empty=True)]


class Corrected(CrossEntropy):
    """Cross-entropy with ``correction`` added to its gradient."""

    correction: StateDict

    def pull(self) -> Pull:
        """The same at every step, wherever the weights are."""
        return Pull(slope=self.correction)


class Scaffold:
    """``server_lr`` is the server's step towards the mean of the clients."""

    exemplar_free = True
    resumes_within_tasks = True

    def __init__(self, backbone: Backbone, server_lr: PositiveFloat, **training: Unpack[Training]):
        self.server_lr = server_lr
        self.averaging = FederatedAveraging(backbone, training, Corrected)
        loss = self.averaging.loss
        if loss.configure_optimizers().defaults.get("momentum", 1):
            raise ConfigError("SCAFFOLD needs plain SGD, but method.optimizer has momentum: set it to 0.")
        self.trained = [name for name, _ in loss.network.named_parameters()]

    def init(self) -> Global:
        """The backbone's own weights, a head without rows, no correction."""
        start = self.averaging.start
        return Global(start, self.fitted({}, start))

    def learn(self, state: Global, task: Task, clients: Clients) -> Iterator[Global]:
        """Corrected rounds; model and control variate move together."""
        weights = grown(state.weights, task.seen)
        control = self.fitted(state.control, weights)
        for number in self.averaging.rounds_left(task):
            sent = Controlled(self.averaging.round(number, weights, task), control)
            mean, changes = self.averaged(clients.map(self.train, sent), default=weights)
            weights = {name: self.moved(name, value, mean[name]) for name, value in weights.items()}
            control = {name: value + changes.get(name, 0) / len(clients) for name, value in control.items()}
            yield Global(weights, control)

    def averaged(self, replies: Iterable[Reply], default: StateDict) -> tuple[StateDict, StateDict]:
        """The clients' models as one, and the sum of the changes of their control variates."""
        if self.averaging.training["aggregation"] == "mean":
            totals: StateDict = {}
            return self.averaging.aggregate(summed(replies, totals), default), totals
        trained = [reply for reply in replies if reply.change]
        model = self.averaging.aggregate([reply.update for reply in trained], default)
        change = self.averaging.aggregate([Update(reply.change, samples=1) for reply in trained], default={})
        return model, {name: len(trained) * value for name, value in change.items()}

    def moved(self, name: str, old: Tensor, mean: Tensor) -> Tensor:
        """A parameter after the server's step; a buffer is the mean itself."""
        if self.server_lr == 1 or name not in self.trained:
            return mean
        return old + self.server_lr * (mean - old)

    def train(self, client: Client, received: Controlled) -> Reply:
        """At the client: corrected steps, then its own control variate after them."""
        start = received.round.weights
        control = received.control
        own = self.fitted(client.memory.get("control", {}), start)
        correction = {name: control[name] - own[name] for name in control}
        update = self.averaging.train(client.data, received.round, correction=correction)
        if len(client.data) == 0:
            return Reply(update, change={})
        path = received.round.lr * self.averaging.steps(len(client.data))
        change = {}
        for name in control:
            gradient = (start[name] - update.weights[name]) / path  # the mean of those along the way
            change[name] = gradient - control[name]
        client.memory["control"] = {name: own[name] + change[name] for name in control}
        return Reply(update.counted_once(), change)

    def fitted(self, control: StateDict, weights: StateDict) -> StateDict:
        """A control variate for these weights: zero where there was none, as in head rows added since."""
        fitted = {name: torch.zeros_like(weights[name]) for name in self.trained}
        for name, value in control.items():
            known = tuple(map(slice, value.shape))
            fitted[name][known] = value
        return fitted

    def classifier(self, state: Global) -> nn.Module:
        """The global model."""
        return self.averaging.classifier(state.weights)


def summed(replies: Iterable[Reply], totals: StateDict) -> Iterator[Update]:
    """The updates one by one, while the changes of control variates add up in ``totals``."""
    for reply in replies:
        for name, change in reply.change.items():
            totals[name] = totals[name] + change if name in totals else change
        yield reply.update
