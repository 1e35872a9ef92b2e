"""FedAvg-ER: federated averaging with experience replay from a reservoir at every client.

Paper: Chaudhry et al., "On Tiny Episodic Memories in Continual Learning", 2019, at each client of FedAvg.

Followed: every step takes a batch of current samples and as many from the client's own buffer, and descends one
cross-entropy over all classes seen so far. The buffer is a uniform sample of everything the client has held in earlier
tasks (reservoir sampling), at most ``memory_size`` samples; no sample ever leaves its client.
Deviates: a sample enters the buffer when its task is over, not while it is trained on for several rounds, so replay is
of earlier tasks only. With another ``ce_scope`` than seen, that scope holds for the current half of the batch.
"""

from collections.abc import Iterator, Sequence
from typing import Unpack

from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fcl_bench import (
    Backbone,
    Client,
    Clients,
    CrossEntropy,
    FederatedAveraging,
    Replayed,
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

    def loss_of_logits(
        self, logits: Tensor, labels: Tensor, advice: Tensor | None, replayed: Sequence[Replayed]
    ) -> Tensor:
        """The mean of both halves."""
        loss = self.cross_entropy(logits, labels)
        for old_logits, old in replayed:
            loss = (loss + cross_entropy(old_logits, old["labels"])) / 2
        return loss

    def rows(self) -> Tensor | None:
        """All of them where there is replay."""
        return None if len(self.buffer) else self.columns

    def replays(self) -> tuple[Reservoir, ...]:
        """One draw from the buffer."""
        return (self.buffer,) if len(self.buffer) else ()


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
