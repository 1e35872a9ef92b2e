"""FedAvg-ER: federated averaging with experience replay from a reservoir at every client.

Paper: Chaudhry et al., "On Tiny Episodic Memories in Continual Learning", 2019, at each client of FedAvg.

Followed: every step takes a batch of current samples and as many from the client's own buffer, and descends one
cross-entropy over all classes seen so far. The buffer is a uniform sample of everything the client has held in earlier
tasks (reservoir sampling), at most ``memory_size`` samples; no sample ever leaves its client.
Deviates: a sample enters the buffer when its task is over, not while it is trained on for several rounds, so replay is
of earlier tasks only. With another ``ce_scope`` than seen, that scope holds for the current half of the batch.
"""

from collections.abc import Iterator
from typing import Unpack

import torch
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fcl_bench import (
    Backbone,
    Client,
    Clients,
    CrossEntropy,
    FederatedAveraging,
    Reservoir,
    Round,
    StateDict,
    Task,
    Training,
    Update,
)


class Replay(CrossEntropy):
    """The mean of the cross-entropies of current samples and of as many from ``buffer``, if there are any."""

    buffer: Reservoir

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """The loss of one batch."""
        if len(self.buffer) == 0:
            return super().training_step(batch, batch_idx)
        inputs, labels = batch
        old = self.buffer.draw(len(labels), inputs.device)
        logits = self.network(torch.cat([inputs, old["inputs"]]))
        current, replayed = logits.split(len(labels))
        current_loss = self.cross_entropy(current, labels)
        replayed_loss = cross_entropy(replayed, old["labels"])
        return (current_loss + replayed_loss) / 2


class FedAvgER:
    """``memory_size`` samples are kept at each client; the state is the global model."""

    resumes_within_tasks = True
    message_classes = (Reservoir,)

    def __init__(self, backbone: Backbone, memory_size: PositiveInt, **training: Unpack[Training]):
        self.memory_size = memory_size
        self.averaging = FederatedAveraging(backbone, training, Replay)

    def init(self) -> StateDict:
        """The backbone's own weights and a head without rows."""
        return self.averaging.start

    def learn(self, state: StateDict, task: Task, clients: Clients) -> Iterator[StateDict]:
        """Average round after round, then let the clients choose what to keep."""
        yield from self.averaging.learn(state, task, clients, self.train)
        clients.everyone.tell(self.remember)

    def train(self, client: Client, received: Round) -> Update:
        """At the client: current samples and old ones, half and half."""
        buffer = client.memory.get("buffer", Reservoir())
        return self.averaging.train(client.data, received, buffer=buffer)

    def remember(self, client: Client) -> None:
        """At the client: pass the samples of the task through the reservoir."""
        if len(client.data) == 0:
            return
        inputs, labels = client.data.tensors
        buffer = client.memory.get("buffer", Reservoir())
        client.memory["buffer"] = buffer.add(self.memory_size, inputs=inputs, labels=labels)

    def classifier(self, state: StateDict) -> nn.Module:
        """The global model."""
        return self.averaging.classifier(state)
