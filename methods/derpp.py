"""DER++: federated averaging with dark experience replay: old samples with their labels and their old logits.

Paper: Buzzega et al., "Dark Experience for General Continual Learning", NeurIPS 2020, at each client of FedAvg.

Followed: loss = cross-entropy of current samples + alpha x mean squared error between the logits of buffered samples
and the logits stored with them + beta x cross-entropy of other buffered samples; two independent draws from the buffer,
each as large as the batch; reservoir sampling.
Deviates: a sample enters the buffer when its task is over, with the logits of the global model at that time (not while
it is trained on, with those of the moment). Stored logits cover the classes registered by then, and only those are
compared. The cross-entropy of buffered samples goes over all classes seen, that of current ones over ``ce_scope``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Unpack

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from fcl_bench import Backbone, Client, Clients, StateDict, Task, Update, snapshot
from fcl_bench.averaging import FederatedAveraging, Round, Training
from fcl_bench.losses import CrossEntropy, Network, outputs
from fcl_bench.replay import kept, reservoir

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Global:
    """The state: one model."""

    weights: StateDict


@dataclass(frozen=True)
class Buffer:
    """Samples as they were last seen."""

    inputs: Tensor
    labels: Tensor
    logits: Tensor  # (n, classes known to the newest sample); zero beyond those known to each
    known: Tensor  # (n,) classes that were registered when a sample was stored

    def __len__(self) -> int:
        return len(self.labels)


class DarkReplay(CrossEntropy):
    """The loss of the paper; plain cross-entropy while ``buffer`` is empty."""

    buffer: Buffer | None = None
    alpha = beta = 0.5

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """The loss of one batch."""
        if self.buffer is None:
            return super().training_step(batch, batch_idx)
        inputs, labels = batch
        first, second = torch.randint(len(self.buffer), (2, len(labels)))
        old = self.buffer.inputs[torch.cat([first, second])].to(inputs.device)
        now, dark, labelled = self.network(torch.cat([inputs, old])).split(len(labels))
        stored, known = self.buffer.logits[first].to(inputs.device), self.buffer.known[first].to(inputs.device)
        old_labels = self.buffer.labels[second].to(inputs.device)
        loss = self.cross_entropy(now, labels) + self.beta * cross_entropy(labelled, old_labels)
        return loss + self.alpha * known_error(dark, stored, known)


def known_error(logits: Tensor, stored: Tensor, known: Tensor) -> Tensor:
    """The mean squared error over the first ``known`` logits of every row.

    >>> known_error(torch.tensor([[1.0, 9.0]]), torch.tensor([[3.0, 0.0]]), torch.tensor([1]))
    tensor(4.)
    """
    width = stored.shape[1]
    compared = torch.arange(width, device=logits.device) < known[:, None]
    return ((logits[:, :width] - stored).square() * compared).sum() / compared.sum()


class DERpp:
    """``memory_size`` samples are kept at each client; ``alpha`` and ``beta`` weigh their logits and their labels."""

    def __init__(
        self,
        backbone: Backbone,
        memory_size: PositiveInt = 300,
        alpha: Weight = 0.3,
        beta: Weight = 0.5,
        **training: Unpack[Training],
    ):
        self.averaging, self.memory_size = FederatedAveraging(**training), memory_size
        self.loss = DarkReplay(Network(backbone), self.averaging.optimizer)
        self.loss.alpha, self.loss.beta = alpha, beta
        self.start = snapshot(self.loss.network)

    def init(self) -> Global:
        """The backbone's own weights and a head without rows."""
        return Global(self.start)

    def learn(self, state: Global, task: Task, clients: Clients) -> Iterator[Global]:
        """Average round after round, then let the clients choose what to keep."""
        weights = state.weights
        for weights in self.averaging.learn(weights, task, clients, self.train):
            yield Global(weights)
        clients.map(self.remember, weights)

    def train(self, client: Client, received: Round) -> Update:
        """At the client: current samples, old ones with their logits, old ones with their labels."""
        self.loss.buffer = client.memory.get("buffer")
        weights = self.averaging.train(self.loss, client.data, client.data.labels, received)
        return Update(weights, len(client.data))

    def remember(self, client: Client, weights: StateDict) -> None:
        """At the client: pass the samples of the task, with their logits now, through the reservoir."""
        (inputs, labels), seen, old = client.data.tensors, client.memory.get("seen", 0), client.memory.get("buffer")
        if len(labels) == 0:
            return
        slots = reservoir(self.memory_size, seen, len(labels))
        client.memory["seen"] = seen + len(labels)
        logits = outputs(self.loss.network.loaded(weights).eval(), inputs)
        classes = logits.shape[1]
        known = torch.full((len(labels),), classes)
        client.memory["buffer"] = Buffer(
            kept(old.inputs if old else None, inputs, slots),
            kept(old.labels if old else None, labels, slots),
            kept(pad(old.logits, (0, classes - old.logits.shape[1])) if old else None, logits, slots),
            kept(old.known if old else None, known, slots),
        )

    def classifier(self, state: Global) -> nn.Module:
        """The global model."""
        return self.loss.network.loaded(state.weights).eval()
