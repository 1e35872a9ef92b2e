"""DER++: federated averaging with dark experience replay: old samples with their labels and their old logits.

Paper: Buzzega et al., "Dark Experience for General Continual Learning", NeurIPS 2020, at each client of FedAvg.

Followed: loss = cross-entropy of current samples + alpha x mean squared error between the logits of buffered samples
and the logits stored with them + beta x cross-entropy of other buffered samples; two independent draws from the buffer,
each as large as the batch; reservoir sampling.
Deviates: a sample enters the buffer when its task is over, with the logits of the global model at that time (not while
it is trained on, with those of the moment). Stored logits cover the classes registered by then, and only those are
compared. The cross-entropy of buffered samples goes over all classes seen, that of current ones over ``ce_scope``.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Unpack

import torch
from pydantic import Field, PositiveInt
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
    outputs,
)

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class DarkReplay(CrossEntropy):
    """The loss of the paper; plain cross-entropy while ``buffer`` is empty.

    A buffered sample has ``inputs``, ``labels``, the ``logits`` of the global model when its task was over, and how
    many classes were ``known`` then; beyond those its logits are zero.
    """

    alpha: float
    beta: float
    buffer: Reservoir

    def loss_of_logits(
        self, logits: Tensor, labels: Tensor, advice: Tensor | None, replayed: Sequence[Replayed]
    ) -> Tensor:
        """Of current samples, of the logits of some old ones and of the labels of others."""
        loss = self.cross_entropy(logits, labels)
        if not replayed:
            return loss
        (dark, first), (labelled, second) = replayed
        loss = loss + self.beta * cross_entropy(labelled, second["labels"])
        return loss + self.alpha * known_error(dark, first["logits"], first["known"])

    def rows(self) -> Tensor | None:
        """All of them where there is replay."""
        return None if len(self.buffer) else self.columns

    def replays(self) -> tuple[Reservoir, ...]:
        """Two draws from the buffer."""
        return (self.buffer, self.buffer) if len(self.buffer) else ()


def known_error(logits: Tensor, stored: Tensor, known: Tensor) -> Tensor:
    """The mean squared error over the first ``known`` logits of every row.

    >>> known_error(torch.tensor([[1.0, 9.0]]), torch.tensor([[3.0, 0.0]]), torch.tensor([1]))
    tensor(4.)
    """
    width = stored.shape[1]
    errors = (logits[:, :width] - stored).square()  # (n, width)
    compared = torch.arange(width, device=logits.device) < known[:, None]  # (n, width)
    return (errors * compared).sum() / compared.sum()


class DERpp:
    """``memory_size`` samples are kept at each client; ``alpha`` and ``beta`` weigh their logits and their labels.

    The state is the global model.
    """

    resumes_within_tasks = True
    message_classes = (Reservoir,)

    def __init__(
        self,
        backbone: Backbone,
        memory_size: PositiveInt,
        alpha: Weight,
        beta: Weight,
        **training: Unpack[Training],
    ):
        self.memory_size = memory_size
        self.averaging = FederatedAveraging(backbone, training, DarkReplay, alpha=alpha, beta=beta)

    def init(self) -> StateDict:
        """The backbone's own weights and a head without rows."""
        return self.averaging.start

    def learn(self, state: StateDict, task: Task, clients: Clients) -> Iterator[StateDict]:
        """Average round after round, then let the clients choose what to keep."""
        for state in self.averaging.learn(state, task, clients, self.train):
            yield state
        clients.everyone.tell(self.remember, state)

    def train(self, client: Client, received: Round) -> Update:
        """At the client: current samples, old ones with their logits, old ones with their labels."""
        buffer = client.memory.get("buffer", Reservoir())
        return self.averaging.train(client.data, received, buffer=buffer)

    def remember(self, client: Client, weights: StateDict) -> None:
        """At the client: pass the samples of the task, with their logits now, through the reservoir."""
        if len(client.data) == 0:
            return
        inputs, labels = client.data.tensors
        logits = outputs(self.averaging.classifier(weights), inputs)  # (n, classes)
        buffer = client.memory.get("buffer", Reservoir())
        client.memory["buffer"] = buffer.add(
            self.memory_size,
            inputs=inputs,
            labels=labels,
            logits=logits,
            known=torch.full_like(labels, logits.shape[1]),
        )

    def classifier(self, state: StateDict) -> nn.Module:
        """The global model."""
        return self.averaging.classifier(state)
