"""FediCaRL: iCaRL, federated. Clients keep a few herded exemplars; images are classified by the nearest exemplar mean.

Paper: Rebuffi et al., "iCaRL: Incremental Classifier and Representation Learning", CVPR 2017; federated as the baseline
of Zhang et al., "TARGET", ICCV 2023.

Followed (``variant: corrected``, the default): each client has a hard budget of ``memory_size`` exemplars, the same
number for each class it has seen. Classes with fewer samples leave the rest of their share to the others, and what
cannot be divided goes to the first classes by number. When a task is over it herds them with the final global features
(normalised): greedily, each time the sample that brings the mean of the chosen nearest to the mean of the class,
without repetition, so that the order is a ranking and shorter lists are prefixes. Local training is on current samples
and exemplars together, with distillation from the global model of the task before, which goes to the clients once per
task. The nearest-mean classifier uses the sums of normalised exemplar features that clients send after every task; the
record has its accuracy and, under ``other_classifiers``, that of the linear head (or the other way round: ``predict``).
Deviates: ``loss: ce_kd`` (default) is TARGET's cross-entropy over all classes seen + distillation at temperature 2;
``loss: bce`` is the paper's, sigmoids with the teacher's as targets for old classes (summed over classes). A blurry
class that returns is herded anew from its exemplars and the new samples. No exemplar ever leaves its client.
Where clients do not answer, a class whose mean nobody tells keeps that of the task before.
``share: equal`` gives every class the whole part of ``memory_size`` / classes and leaves the rest unused.
``variant: target_repo`` is what the published code does: no herding and no means; a client keeps *all* its old samples
and trains with a random ``memory_size`` of them, drawn anew for every task, uniform mean over clients.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Unpack

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, normalize, one_hot, pad

from fcl_bench import (
    Backbone,
    ByClass,
    ClassSums,
    Client,
    Clients,
    CosineToMeans,
    Distillation,
    FederatedAveraging,
    Kind,
    Range,
    Replayed,
    Round,
    Samples,
    Shape,
    StateDict,
    Task,
    Total,
    Training,
    Update,
    Within,
    outputs,
)

ROUNDING = 1e-12  # of a sum of one feature of length 1


@dataclass(frozen=True)
class Means:
    """Sums of normalised exemplar features, and how many there are, by class."""

    totals: Annotated[Tensor, Shape("classes", "features"), Kind(torch.float64), Within("held"), ByClass()]
    counts: Annotated[Tensor, Shape("classes"), Kind(torch.int64), Range(0), Total("held"), ByClass()]

    def with_classes(self, classes: int) -> "Means":
        """With room for the classes registered since."""
        missing = classes - len(self.counts)
        return Means(pad(self.totals, (0, 0, 0, missing)), pad(self.counts, (0, missing)))

    def or_else(self, earlier: "Means") -> "Means":
        """With the earlier mean of each class of which there is none now."""
        known = self.counts > 0
        totals = torch.where(known[:, None], self.totals, earlier.totals)
        return Means(totals, torch.where(known, self.counts, earlier.counts))

    def __add__(self, other: "Means") -> "Means":
        return Means(self.totals + other.totals, self.counts + other.counts)


@dataclass(frozen=True)
class Global:
    """The state: one model, and the class means of its features."""

    weights: StateDict
    means: Means


class Rehearsal(Distillation):
    """``loss: bce`` of the paper or, if ``sigmoid`` is false, cross-entropy and distillation."""

    sigmoid: bool

    def loss_of_logits(
        self, logits: Tensor, labels: Tensor, advice: Tensor | None, replayed: Sequence[Replayed]
    ) -> Tensor:
        """Of one batch, by the loss that is chosen."""
        if not self.sigmoid:
            return super().loss_of_logits(logits, labels, advice, replayed)
        targets = one_hot(labels, logits.shape[1]).to(logits.dtype)
        if advice is not None:
            targets[:, : self.taught] = advice.sigmoid()
        return binary_cross_entropy_with_logits(logits, targets, reduction="sum") / len(labels)

    def rows(self) -> Tensor | None:
        """All of them for sigmoids."""
        return None if self.sigmoid else super().rows()

    def advice(self, shown: Tensor) -> Tensor | None:
        """For sigmoids, all logits of the teacher."""
        if not self.sigmoid:
            return super().advice(shown)
        with torch.no_grad():
            return self.teacher(shown) if self.taught else None


class FediCaRL:
    """``memory_size`` exemplars at each client; ``predict`` says which classifier gives the headline.

    Without a ``memory_size`` it is 300, or 2000 as published for ``variant: target_repo``.
    """

    resumes_within_tasks = True
    message_classes = (Samples,)  # exemplars

    def __init__(
        self,
        backbone: Backbone,
        variant: Literal["corrected", "target_repo"],
        memory_size: PositiveInt | None,
        share: Literal["whole", "equal"],
        loss: Literal["ce_kd", "bce"],
        predict: Literal["nearest_mean", "linear"],
        distillation: Annotated[float, Field(ge=0, allow_inf_nan=False)],
        temperature: PositiveFloat,
        **training: Unpack[Training],
    ):
        published = variant == "target_repo"
        self.variant = variant
        self.memory_size = memory_size or (2000 if published else 300)
        self.share = share
        self.predict = "linear" if published else predict
        self.features = backbone.features
        self.holds_features = not backbone.trainable and len(backbone.inputs.shape) == 1
        self.averaging = FederatedAveraging(
            backbone,
            training,
            Rehearsal,
            sigmoid=loss == "bce",
            weight=distillation,
            temperature=temperature,
        )

    def init(self) -> Global:
        """The backbone's own weights, a head without rows, no means."""
        return Global(self.averaging.start, self.no_means(0))

    def learn(self, state: Global, task: Task, clients: Clients) -> Iterator[Global]:
        """Hand out the teacher, average round after round, then let the clients choose what to keep."""
        known = len(state.weights["head.bias"])
        if known and not task.yielded:
            clients.everyone.tell(self.keep_teacher, state.weights)
        means = state.means.with_classes(task.seen)
        for weights in self.averaging.learn(state.weights, task, clients, self.train):
            state = Global(weights, means)
            yield state
        if task.yielded > self.averaging.rounds:
            return
        keep = self.herd if self.variant == "corrected" else self.keep_all
        now = self.no_means(task.seen)
        answers = 0
        for reply in clients.everyone.map(keep, state.weights):
            now = now + reply
            answers += 1
        yield replace(state, means=now if answers == len(clients) else now.or_else(means))

    def no_means(self, classes: int) -> Means:
        """Nothing known of any class."""
        totals = torch.zeros(classes, self.features, dtype=torch.float64)
        return Means(totals, torch.zeros(classes, dtype=torch.int64))

    def keep_teacher(self, client: Client, teacher: StateDict) -> None:
        """At the client, when a task opens: remember the model before it; the published code draws its samples now."""
        client.memory["teacher"] = teacher
        if self.variant == "target_repo" and "past" in client.memory:
            past = client.memory["past"]
            chosen = torch.randperm(len(past))[: self.memory_size]
            client.memory["exemplars"] = Samples(*past[chosen])

    def train(self, client: Client, received: Round) -> Update:
        """At the client: current samples and exemplars together, with the teacher's help."""
        data = Samples(*client.data.tensors)
        if "exemplars" in client.memory and len(data):
            data = data + client.memory["exemplars"]
        if received.columns is not None:  # exemplars may be of classes outside the scope
            columns = torch.cat([received.columns, data.labels]).unique()
            received = replace(received, columns=columns)
        self.averaging.loss.load_teacher(client.memory.get("teacher"))
        update = self.averaging.train(data, received)
        update = replace(update, samples=len(client.data))
        if self.variant == "target_repo":
            return update.counted_once()
        return update

    def herd(self, client: Client, weights: StateDict) -> Means:
        """At the client: choose exemplars within the budget, and tell the means of their features."""
        means = self.no_means(len(weights["head.bias"]))
        new = Samples(*client.data.tensors)
        pool = client.memory["exemplars"] + new if "exemplars" in client.memory else new
        if len(pool) == 0:
            return means
        backbone = self.averaging.classifier(weights).backbone
        features = outputs(backbone, pool.inputs).to(torch.float64, copy=True)
        normalize(features, out=features)
        chosen = self.chosen(features, pool.labels, again=new.labels)
        exemplars = Samples(*pool[chosen])
        client.memory["exemplars"] = exemplars
        means.totals.index_add_(0, exemplars.labels, features[chosen])
        return Means(means.totals, exemplars.labels.bincount(minlength=len(means.counts)))

    def chosen(self, features: Tensor, labels: Tensor, again: Tensor) -> Tensor:
        """Positions of the exemplars: classes ``again`` are herded, the lists of the others cut to their new share."""
        classes, counts = labels.unique(return_counts=True)
        chosen = []
        for label, share in zip(classes, self.shares(counts), strict=True):
            positions = (labels == label).nonzero().flatten()
            if label in again:
                positions = herded(features, positions, share)
            chosen.append(positions[:share])
        return torch.cat(chosen)

    def shares(self, counts: Tensor) -> list[int]:
        """How many exemplars a class may have at most, for the classes of which there are ``counts`` samples."""
        if self.share == "equal":
            return [self.memory_size // len(counts)] * len(counts)
        return whole_shares(counts, self.memory_size).tolist()

    def keep_all(self, client: Client, weights: StateDict) -> Means:
        """At the client, as published: every sample ever held stays at hand."""
        new = Samples(*client.data.tensors)
        if len(new):
            past = client.memory.get("past")
            client.memory["past"] = past + new if past else new
        return self.no_means(len(weights["head.bias"]))

    def class_sums(self, reply: Update | Means) -> ClassSums | None:
        """Where clients hold features: the sums of those of exemplars, which are the direction of one that is alone."""
        if not self.holds_features or not isinstance(reply, Means):
            return None
        return ClassSums(reply.totals, ROUNDING, normalised=True)

    def classifier(self, state: Global) -> nn.Module:
        """The one that ``predict`` names."""
        if self.predict == "nearest_mean":
            return self.nearest_mean(state)
        return self.linear(state)

    def other_classifiers(self, state: Global) -> dict[str, nn.Module]:
        """The one that ``predict`` does not name, to be scored as well."""
        if self.variant == "target_repo":
            return {}
        if self.predict == "nearest_mean":
            return {"linear": self.linear(state)}
        return {"nearest_mean": self.nearest_mean(state)}

    def linear(self, state: Global) -> nn.Module:
        """The trained network with its head."""
        return self.averaging.classifier(state.weights)

    def nearest_mean(self, state: Global) -> nn.Module:
        """The trained network's features, and the nearest class mean."""
        backbone = self.averaging.classifier(state.weights).backbone
        means = CosineToMeans(state.means.totals, state.means.counts)
        return nn.Sequential(backbone, means).eval()


def whole_shares(counts: Tensor, budget: int) -> Tensor:
    """How many of its ``counts`` samples each class keeps: equally many where there are enough, ``budget`` in all.

    What is left over goes to the first classes that have more samples, one each.

    >>> whole_shares(torch.tensor([9, 2, 9, 9]), 18)
    tensor([6, 2, 5, 5])
    """
    level = budget // len(counts)  # what a class keeps if it has enough
    while level < counts.max() and counts.clamp(max=level + 1).sum() <= budget:
        level += 1
    shares = counts.clamp(max=level)
    larger = (counts > level).nonzero().flatten()
    shares[larger[: budget - shares.sum()]] += 1
    return shares


def herded(features: Tensor, positions: Tensor, number: int) -> Tensor:
    """Of the samples at ``positions``, the ``number`` whose running mean stays nearest to the mean of all, ranked.

    >>> herded(torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([0, 1, 2]), 2)  # the mean is 2
    tensor([1, 2])
    """
    rows = features[positions]  # (n, features)
    goal = rows.mean(dim=0)
    lengths = rows.square().sum(dim=1)  # (n,)
    total = torch.zeros_like(goal)  # of the chosen rows
    chosen: list[int] = []
    for count in range(1, min(number, len(rows)) + 1):
        # The larger the gain of a row, the nearer (total + row) / count is to the goal.
        gain = 2 * rows @ (count * goal - total) - lengths
        gain[chosen] = -torch.inf
        best = int(gain.argmax())
        chosen.append(best)
        total += rows[best]
    return positions[torch.tensor(chosen, dtype=torch.int64)]
