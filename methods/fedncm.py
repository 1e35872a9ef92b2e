"""FedNCM: the nearest class mean on frozen features, federated by sums; no training at all.

Paper: Legate et al., "Guiding The Last Layer in Federated Learning with Pre-Trained Models", NeurIPS 2023.

Followed: every client sends, per class, the sum of its features and their number; the server adds them up over clients
and tasks, divides, and normalises the means; an image gets the class whose mean has the largest cosine with its
features. Exact: the result does not depend on how samples are spread over clients or tasks.
Deviates: the head is not fine-tuned afterwards (the paper's second stage); it is the control that shows what class
means alone can do beside AFCL's second-order statistics. ``arithmetic: integer`` (default) rounds features to whole
numbers as AFCL does, so that sums are exact; ``float64`` sums are rounded.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import pad

from fcl_bench import (
    Backbone,
    Client,
    ClientData,
    Clients,
    CosineToMeans,
    Evidence,
    Numbers,
    Task,
    arithmetic_of,
)


@dataclass(frozen=True)
class Sums:
    """The state, and what a client replies."""

    totals: Tensor  # (classes, features)
    counts: Tensor  # (classes,)
    clipped: Tensor  # (), features beyond the range of the backbone; (0,) in float64

    def __add__(self, other: "Sums") -> "Sums":
        totals = self.totals + other.totals  # the first is of a type with room for all
        return Sums(totals, self.counts + other.counts, self.clipped + other.clipped)


class FedNCM:
    """What there is to know are the class means."""

    exact = True
    exemplar_free = True
    needs_frozen_backbone = True

    def __init__(self, backbone: Backbone, arithmetic: Numbers, bits: Annotated[int, Field(ge=2, le=17)] | None):
        self.features = backbone.features
        self.arithmetic = arithmetic_of(arithmetic, bits, backbone)
        self.adds_whole_numbers = arithmetic == "integer"

    def init(self) -> Sums:
        """No classes."""
        return Sums(
            totals=torch.zeros(0, self.features, dtype=self.arithmetic.kind),
            counts=torch.zeros(0, dtype=torch.int64),
            clipped=self.arithmetic.none_clipped,
        )

    def learn(self, state: Sums, task: Task, clients: Clients) -> Iterator[Sums]:
        """One exchange, whatever the order in which clients answer."""
        missing = task.seen - len(state.counts)
        sums = replace(
            state,
            totals=pad(state.totals, (0, 0, 0, missing)),
            counts=pad(state.counts, (0, missing)),
        )
        yield reduce(add, clients.map(self.summarise, task.seen), sums)

    def summarise(self, client: Client, classes: int) -> Sums:
        """At the client: the sum of features and the number of samples of every class."""
        return self.joint(client.data, classes)

    def joint(self, data: ClientData, classes: int) -> Sums:
        """The sums over these samples; the same for one client and for all data in one place."""
        totals, clipped = self.arithmetic.class_sums(data, self.features, classes)
        return Sums(totals, data.labels.bincount(minlength=classes), clipped)

    def unlearn(self, state: Sums, forgotten: ClientData, classes: Tensor) -> Sums:
        """The sums without these samples, for the classes that are left."""
        gone = self.joint(forgotten, len(state.counts))
        totals = state.totals - gone.totals
        counts = state.counts - gone.counts
        return Sums(totals[classes], counts[classes], state.clipped - gone.clipped)

    def classifier(self, state: Sums) -> nn.Module:
        """Cosine with the mean of each class."""
        return CosineToMeans(state.totals, state.counts).eval()

    def evidence(self, state: Sums) -> Evidence:
        """The sums that the means follow from."""
        return Evidence({}, {"totals": state.totals, "counts": state.counts}, int(state.clipped.sum()))
