"""FedNCM: the nearest class mean on frozen features, federated by sums; no training at all.

Paper: Legate et al., "Guiding The Last Layer in Federated Learning with Pre-Trained Models", NeurIPS 2023.

Followed: every client sends, per class, the sum of its features and their number; the server adds them up over clients
and tasks, divides, and normalises the means; an image gets the class whose mean has the largest cosine with its
features. Exact: the result does not depend on how samples are spread over clients or tasks.
Deviates: the head is not fine-tuned afterwards (the paper's second stage); it is the control that shows what class
means alone can do beside AFCL's second-order statistics. Sums in float64.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from fcl_bench import Backbone, Client, Clients, CosineToMeans, Task


@dataclass(frozen=True)
class Sums:
    """The state, and what a client replies."""

    totals: Tensor  # (classes, features)
    counts: Tensor  # (classes,)

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.totals + other.totals, self.counts + other.counts)


class FedNCM:
    """No settings: what there is to know are the class means."""

    exact = True
    exemplar_free = True
    needs_frozen_backbone = True

    def __init__(self, backbone: Backbone):
        self.features = backbone.features

    def init(self) -> Sums:
        """No classes."""
        return Sums(
            totals=torch.zeros(0, self.features, dtype=torch.float64),
            counts=torch.zeros(0, dtype=torch.int64),
        )

    def learn(self, state: Sums, task: Task, clients: Clients) -> Iterator[Sums]:
        """One exchange, whatever the order in which clients answer."""
        missing = task.seen - len(state.counts)
        sums = Sums(
            totals=pad(state.totals, (0, 0, 0, missing)),
            counts=pad(state.counts, (0, missing)),
        )
        for reply in clients.map(self.summarise, task.seen):
            sums = sums + reply
        yield sums

    def summarise(self, client: Client, classes: int) -> Sums:
        """At the client: the sum of features and the number of samples of every class."""
        totals = torch.zeros(classes, self.features, dtype=torch.float64)
        for inputs, labels in client.data.batches(2048):
            totals.index_add_(0, labels, inputs.double())
        return Sums(totals, counts=client.data.labels.bincount(minlength=classes))

    def classifier(self, state: Sums) -> nn.Module:
        """Cosine with the mean of each class."""
        return CosineToMeans(state.totals, state.counts).eval()
