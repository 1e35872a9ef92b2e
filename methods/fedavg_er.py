"""FedAvg-ER: federated averaging with experience replay from a reservoir at every client.

Paper: Chaudhry et al., "On Tiny Episodic Memories in Continual Learning", 2019, at each client of FedAvg.

Followed: every step takes a batch of current samples and as many from the client's own buffer, and descends one
cross-entropy over all classes seen so far. The buffer is a uniform sample of everything the client has held in earlier
tasks (reservoir sampling), at most ``memory_size`` samples; no sample ever leaves its client.
Deviates: a sample enters the buffer when its task is over, not while it is trained on for several rounds, so replay is
of earlier tasks only. With another ``ce_scope`` than seen, that scope holds for the current half of the batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Unpack

import torch
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fcl_bench import Backbone, Client, Clients, StateDict, Task, Update, snapshot
from fcl_bench.averaging import FederatedAveraging, Round, Training
from fcl_bench.losses import CrossEntropy, Network
from fcl_bench.replay import Samples, kept, reservoir


@dataclass(frozen=True)
class Global:
    """The state: one model."""

    weights: StateDict


class Replay(CrossEntropy):
    """The mean of the cross-entropies of current samples and of as many from ``buffer``, if there is one."""

    buffer: Samples | None = None

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """The loss of one batch."""
        if self.buffer is None:
            return super().training_step(batch, batch_idx)
        inputs, labels = batch
        old_inputs, old_labels = self.buffer.drawn(len(labels), inputs.device)
        now, old = self.network(torch.cat([inputs, old_inputs])).split(len(labels))
        return (self.cross_entropy(now, labels) + cross_entropy(old, old_labels)) / 2


class FedAvgER:
    """``memory_size`` samples are kept at each client."""

    def __init__(self, backbone: Backbone, memory_size: PositiveInt = 300, **training: Unpack[Training]):
        self.averaging, self.memory_size = FederatedAveraging(**training), memory_size
        self.loss = Replay(Network(backbone), self.averaging.optimizer)
        self.start = snapshot(self.loss.network)

    def init(self) -> Global:
        """The backbone's own weights and a head without rows."""
        return Global(self.start)

    def learn(self, state: Global, task: Task, clients: Clients) -> Iterator[Global]:
        """Average round after round, then let the clients choose what to keep."""
        for weights in self.averaging.learn(state.weights, task, clients, self.train):
            yield Global(weights)
        clients.map(self.remember)

    def train(self, client: Client, received: Round) -> Update:
        """At the client: current samples and old ones, half and half."""
        self.loss.buffer = client.memory.get("buffer")
        weights = self.averaging.train(self.loss, client.data, client.data.labels, received)
        return Update(weights, len(client.data))

    def remember(self, client: Client) -> None:
        """At the client: pass the samples of the task through the reservoir."""
        (inputs, labels), seen, old = client.data.tensors, client.memory.get("seen", 0), client.memory.get("buffer")
        if len(labels) == 0:
            return
        slots = reservoir(self.memory_size, seen, len(labels))
        client.memory["seen"] = seen + len(labels)
        client.memory["buffer"] = Samples(
            kept(old.inputs if old else None, inputs, slots), kept(old.labels if old else None, labels, slots)
        )

    def classifier(self, state: Global) -> nn.Module:
        """The global model."""
        return self.loss.network.loaded(state.weights).eval()
