"""FedNCM: the nearest class mean on frozen features, federated by sums; no training at all.

Paper: Legate et al., "Guiding The Last Layer in Federated Learning with Pre-Trained Models", NeurIPS 2023.

Followed: every client sends, per class, the sum of its features and their number; the server adds them up over clients
and tasks, divides, and normalises the means; an image gets the class whose mean has the largest cosine with its
features. Exact: the result does not depend on how samples are spread over clients or tasks.
Deviates: the head is not fine-tuned afterwards (the paper's second stage); it is the control that shows what class
means alone can do beside AFCL's second-order statistics. ``arithmetic: integer`` (default) rounds features to whole
numbers as AFCL does, so that sums are exact; ``float64`` sums are rounded. ``min_count`` above 1 holds samples back at
the client until it has so many of their class: a sum over one sample is that sample. Then the result is no longer
exact, and clients store samples. A task is one exchange, so a run goes on at the beginning of a task.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from math import hypot
from operator import add
from typing import Annotated

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import pad

from fcl_bench import (
    Backbone,
    ByClass,
    ClassSums,
    Client,
    ClientData,
    Clients,
    CosineToMeans,
    Evidence,
    Kind,
    LikeOwn,
    Numbers,
    Prepared,
    Range,
    Samples,
    Shape,
    Task,
    Total,
    Within,
    arithmetic_of,
    released,
)


@dataclass(frozen=True)
class Sums:
    """The state, and what a client replies."""

    totals: Annotated[
        Tensor,
        Shape("classes", "features"),
        Kind("arithmetic.kind"),
        Within("held * arithmetic.largest"),
        ByClass(),
    ]
    counts: Annotated[Tensor, Shape("classes"), Kind(torch.int64), Range(0), Total("held"), ByClass()]
    clipped: Annotated[  # features beyond the range of the backbone; none in float64
        Tensor,
        LikeOwn("arithmetic.none_clipped"),
        Range(0, "held * features"),
    ]

    def with_classes(self, classes: int) -> "Sums":
        """With room for the classes registered since."""
        missing = classes - len(self.counts)
        return replace(self, totals=pad(self.totals, (0, 0, 0, missing)), counts=pad(self.counts, (0, missing)))

    def __add__(self, other: "Sums") -> "Sums":
        """Of the samples of both; the other one may know fewer classes."""
        other = other.with_classes(len(self.counts))
        totals = self.totals + other.totals  # the first is of a type with room for all
        return Sums(totals, self.counts + other.counts, self.clipped + other.clipped)


class FedNCM:
    """What there is to know are the class means."""

    needs_frozen_backbone = True
    message_classes = (Samples,)  # held back
    takes_late_replies = True

    def __init__(
        self,
        backbone: Backbone,
        arithmetic: Numbers,
        bits: Annotated[int, Field(ge=2, le=17)] | None,
        min_count: PositiveInt,
    ):
        self.exact = min_count == 1
        self.exemplar_free = min_count == 1
        self.min_count = min_count
        self.features = backbone.features
        self.arithmetic = arithmetic_of(arithmetic, bits, backbone)
        self.adds_whole_numbers = arithmetic == "integer"
        self.sum_bits = self.arithmetic.sum_bits
        self.has_bounded_sums = arithmetic == "float64" and min_count == 1

    def init(self) -> Sums:
        """No classes."""
        return Sums(
            totals=torch.zeros(0, self.features, dtype=self.arithmetic.kind),
            counts=torch.zeros(0, dtype=torch.int64),
            clipped=self.arithmetic.none_clipped,
        )

    def learn(self, state: Sums, task: Task, clients: Clients) -> Iterator[Sums]:
        """One exchange, whatever the order in which clients answer."""
        start = state.with_classes(task.seen)
        yield reduce(add, clients.everyone.map(self.summarise, task.seen), start)

    def summarise(self, client: Client, classes: int) -> Sums:
        """At the client: the sum of features and the number of samples of every class."""
        return self.joint(released(client, self.min_count), classes, client.clip)

    def joint(self, data: ClientData, classes: int, clip: float | None = None) -> Sums:
        """The sums over these samples; the same for one client and for all data in one place."""
        samples = Prepared(data, projection=None, clip=clip)
        totals, clipped = self.arithmetic.class_sums(samples, self.features, classes)
        return Sums(totals, data.labels.bincount(minlength=classes), clipped)

    def sensitivity(self, clip: float) -> float:
        """How far an upload moves at most when a sample whose features have the norm ``clip`` comes or goes."""
        return hypot(clip, 1.0)

    def with_noise(self, upload: Sums, deviation: float) -> Sums:
        """The upload plus noise of this deviation on each number; counts stay whole and are not negative."""
        totals = upload.totals + deviation * torch.randn_like(upload.totals)
        counts = upload.counts + deviation * torch.randn(len(upload.counts))
        return Sums(totals, counts.round().clamp(min=0).long(), upload.clipped)

    def unlearn(self, state: Sums, forgotten: ClientData, classes: Tensor) -> Sums:
        """The sums without these samples, for the classes that are left."""
        gone = self.joint(forgotten, len(state.counts))
        totals = state.totals - gone.totals
        counts = state.counts - gone.counts
        return Sums(totals[classes], counts[classes], state.clipped - gone.clipped)

    def classifier(self, state: Sums) -> nn.Module:
        """Cosine with the mean of each class."""
        return CosineToMeans(state.totals, state.counts).eval()

    def class_sums(self, reply: Sums) -> ClassSums:
        """All of the reply but the numbers of samples."""
        return self.arithmetic.in_unit_of_features(reply.totals)

    def evidence(self, state: Sums) -> Evidence:
        """The sums that the means follow from."""
        return Evidence({}, {"totals": state.totals, "counts": state.counts}, int(state.clipped.sum()))
