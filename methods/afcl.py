"""AFCL: analytic federated continual learning. Ridge regression on frozen features, one exchange per task.

Paper: Tang et al., "AFCL: Analytic Federated Continual Learning for Spatio-Temporal Invariance of Non-IID Data",
arXiv 2505.12245. The numbers of equations are those of the paper; F_k and Y_k are the features and the one-hot labels
of client k, which is one client's share of one task (the paper's virtual client).

Followed: frozen backbone, one-hot targets, no bias, known-unknown class splitting by registration, one upload per
client and task. The global model is that of centralised ridge regression on all data so far.
Deviates: ``form: statistics`` (default) sends F_k^T F_k (its lower triangle) and F_k^T Y_k, which carry the same
information as the paper's R_k and W_k and simply add up. ``form: recursive`` is the paper's message by message, with
the A_k and B_k of (9) in the simpler form they are equal to: A_k = I - B_k and B_k = (R_1 + ... + R_k)^-1 R_k.
``arithmetic: integer`` (default, of the statistics) rounds features to whole numbers of ``bits`` bits, so that sums are
exact and the model is the same to the bit, however data are spread and in whatever order clients answer; then the
number of classes goes down. ``bits: null`` means 7 where the backbone knows the range of its features, else 16. On
held-out training samples, seed 0, 7 bits have 63.07 % of CIFAR-100 where float64 has 63.02 %, and 86.11 % of digits,
as float64 has (``python -m benchmarks.bits``). With 7 bits products are the quickest and uploads have half of the size;
a backbone of unknown range may have features so small that they need the 16. ``recursive`` is always in float64, as
the paper prints it. The "Tanh" of the paper's Algorithm 1 appears nowhere else in the paper and is left out.
The paper says that uploads cannot be used to infer a client's data; but where a client has one sample of a class, that
column of F_k^T Y_k is the sample. ``min_count`` above 1 holds samples back at the client until it has so many of their
class; then the result is not exact, and clients store samples. With noise on uploads (``privacy=gaussian``), W is
solved for the nearest system that is positive definite, and ``project`` multiplies features by a public random matrix
to fewer dimensions, where noise has smaller eigenvalues. On CIFAR-100 that cost more than it saved (docs/privacy.md).
``balance`` above 0 divides the column of each class in F^T Y by the number of its samples to that power. In a blurry
stream, classes of which there are few samples so far have columns that are too small to win; once classes have equally
many samples, all columns are divided by the same number and the predictions are those of AFCL. Uploads then have the
number of samples of each class too, and the result is as exact as without.
A task is one exchange, so a run goes on at the beginning of a task.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from fcl_bench import (
    Backbone,
    ClassSums,
    Client,
    ClientData,
    Clients,
    ConfigError,
    Evidence,
    Gram,
    Kind,
    Moments,
    Numbers,
    Prepared,
    Samples,
    Scores,
    Shape,
    StateDict,
    Task,
    UserError,
    arithmetic_of,
    linalg,
    random_projection,
    released,
    restored,
    sensitivity,
    threads_for,
    with_noise,
)

ROUNDING = 2**-45  # of products, in units of the norms in them: generous, as no sum comes so near to a sample


@dataclass(frozen=True)
class Solution:
    """The paper's upload: a client's own ridge regression."""

    gram: Annotated[Tensor, Shape("features", "features"), Kind(torch.float64), Gram("features", definite=True)]  # R_k
    known: Annotated[Tensor, Shape("features", "registered_before"), Kind(torch.float64)]  # W_k, of these classes
    new: Annotated[Tensor, Shape("features", "new"), Kind(torch.float64)]  # W_k of those that it is the first to have


@dataclass(frozen=True)
class Knowledge:
    """The state of ``form: recursive`` after client k."""

    gram: Tensor  # R_1 + ... + R_k, (features, features)
    matrix: Tensor  # the global knowledge matrix G_k, (features, classes)
    clients: int  # k

    def with_classes(self, classes: int) -> "Knowledge":
        """With room for the classes registered since."""
        return replace(self, matrix=widened(self.matrix, classes))

    def absorb(self, upload: Solution) -> "Knowledge":
        """By (8) and (9): G_k = A_k G_k-1 + B_k W_k, where the columns of G_k-1 for new classes are zero."""
        own = torch.cat([upload.known, upload.new], dim=1)
        own = widened(own, self.matrix.shape[1])
        with threads_for(self.gram.numel()):
            gram = self.gram + upload.gram
            factor = torch.linalg.cholesky(gram)
            step = torch.cholesky_solve(upload.gram @ (own - self.matrix), factor)  # B_k (W_k - G_k-1)
            return Knowledge(gram, self.matrix + step, self.clients + 1)


class AFCL:
    """``gamma`` is the ridge regulariser; both forms give the same weights. ``balance`` weighs classes."""

    needs_frozen_backbone = True
    message_classes = (Samples,)  # held back
    takes_late_replies = True

    def __init__(
        self,
        backbone: Backbone,
        gamma: Annotated[float, Field(ge=0, allow_inf_nan=False)],
        form: Literal["statistics", "recursive"],
        arithmetic: Numbers,
        bits: Annotated[int, Field(ge=2, le=17)] | None,
        min_count: PositiveInt,
        project: PositiveInt | None,
        balance: Annotated[float, Field(ge=0, le=1)],
    ):
        if balance and form == "recursive":
            raise ConfigError(
                f"Expected method.form=statistics with method.balance={balance:g}, but got recursive: the paper's "
                "uploads do not say how many samples of a class there are."
            )
        if project and form == "statistics" and arithmetic == "integer":
            raise ConfigError(
                f"Expected method.project={project} with method.arithmetic=float64, but got integer: projected "
                "features have no range that is known before."
            )
        self.exact = min_count == 1
        self.exemplar_free = min_count == 1
        self.min_count = min_count
        self.features = project or backbone.features
        self.projection = random_projection(backbone.features, project) if project else None
        self.gamma = gamma
        self.form = form
        self.balance = balance
        numbers = arithmetic if form == "statistics" else "float64"
        self.sums = arithmetic_of(numbers, bits, backbone, counts_classes=balance > 0)
        self.adds_whole_numbers = form == "statistics" and arithmetic == "integer"
        self.sum_bits = self.sums.sum_bits
        plain = form == "statistics" and arithmetic == "float64"
        self.has_bounded_sums = plain and min_count == 1 and balance == 0

    def init(self) -> Moments | Knowledge:
        """No classes, no knowledge."""
        if self.form == "statistics":
            return self.sums.nothing(self.features)
        empty = torch.zeros(self.features, 0, dtype=torch.float64)
        return Knowledge(empty.new_zeros(self.features, self.features), matrix=empty, clients=0)

    def learn(self, state: Any, task: Task, clients: Clients) -> Iterator[Moments | Knowledge]:
        """One exchange, whatever the order in which clients answer."""
        if self.form == "recursive":
            state = state.with_classes(task.seen)
            yield reduce(Knowledge.absorb, clients.everyone.map(self.solve), state)
            return
        state = state.with_classes(task.seen, self.sums.counts_classes)
        if self.adds_whole_numbers:
            state = self.sums.total(state, clients.everyone.map(self.summarise, task.seen))
            warn_of_clipping(state)
            yield state
        else:
            yield self.sums.total(state, clients.everyone.map(self.summarise))

    def summarise(self, client: Client, classes: int | None = None) -> Moments:
        """At the client: F_k^T F_k and F_k^T Y_k, for the classes registered up to this client unless told of more."""
        return self.sums.moments(self.uploaded(client), self.features, classes or registered(client))

    def uploaded(self, client: Client) -> Prepared:
        """At the client: the samples that go into its upload, as they go in."""
        return Prepared(released(client, self.min_count), self.projection, client.clip)

    def solve(self, client: Client) -> Solution:
        """At the client, by (5) to (7): R_k = F_k^T F_k + gamma I, and W_k = R_k^-1 F_k^T Y_k in two parts."""
        data = self.uploaded(client)
        gram, cross = self.sums.system(self.sums.moments(data, self.features, registered(client)))
        with threads_for(self.features**2):
            gram.diagonal().add_(self.gamma)
            if self.gamma > 0 and len(data) < self.features:
                weights = self.solve_few(data, classes=cross.shape[1])
            else:
                weights = linalg.solve_regular(gram, cross)
        if weights is None:
            raise UserError(
                "AFCL's recursive form needs an invertible Gram matrix at every client, but with "
                f"gamma={self.gamma:g} that of client {client.id} ({len(data)} samples, {self.features} "
                "features) is singular: raise method.gamma, or set method.form=statistics."
            )
        known = client.registration.registered
        return Solution(gram, weights[:, :known], weights[:, known:])

    def solve_few(self, data: Prepared, classes: int) -> Tensor | None:
        """The same W_k from a smaller system: F_k^T (F_k F_k^T + gamma I)^-1 Y_k; None where that is singular."""
        rows, labels = data.tensors
        rows = rows.double()
        if len(rows) == 0:
            return rows.new_zeros(self.features, classes)
        kernel = rows @ rows.T
        kernel.diagonal().add_(self.gamma)
        dual = linalg.solve_regular(kernel, one_hot(labels, classes).double())
        return None if dual is None else rows.T @ dual

    def classifier(self, state: Moments | Knowledge) -> nn.Module:
        """The linear map W. By (14): W = (F^T F + gamma I)^-1 F^T Y. By (10): R_k - (k - 1) gamma I is F^T F."""
        gram, cross = self.system(state)
        weights = linalg.ridge(gram, cross, self.gamma)
        if isinstance(state, Moments) and self.balance:
            weights = weights / state.by_class.clamp(min=1).double() ** self.balance
        return Scores(weights if self.projection is None else self.projection @ weights).eval()

    def system(self, state: Moments | Knowledge) -> tuple[Tensor, Tensor]:
        """F^T F and F^T Y of all samples so far."""
        if isinstance(state, Moments):
            gram, cross = self.sums.system(state)
            return (gram if state.noise is None else restored(gram, state.noise)), cross
        gram = state.gram.clone()
        gram.diagonal().sub_(state.clients * self.gamma)
        return gram, state.gram @ state.matrix

    def sensitivity(self, clip: float) -> float:
        """How far an upload moves at most when a sample whose features have the norm ``clip`` comes or goes."""
        return sensitivity(clip)

    def with_noise(self, upload: Moments, deviation: float) -> Moments:
        """The upload plus noise of this deviation on each number."""
        return with_noise(upload, deviation)

    def class_sums(self, reply: Moments | Solution) -> ClassSums:
        """F_k^T Y_k, which the paper's upload has too, by (6): it is R_k W_k."""
        if isinstance(reply, Moments):
            found = self.sums.in_unit_of_features(reply.cross)
            if self.projection is None:
                return found
            return ClassSums(found.sums, ROUNDING * float(found.sums.norm()), projection=self.projection)
        weights = torch.cat([reply.known, reply.new], dim=1)
        rounding = ROUNDING * float(reply.gram.norm() * weights.norm())
        return ClassSums((reply.gram @ weights).T, rounding, projection=self.projection)

    def evidence(self, state: Moments | Knowledge) -> Evidence:
        """The sums that the weights follow from."""
        if isinstance(state, Moments) and self.adds_whole_numbers:
            common = {"gram": state.gram, "counts": state.counts}
            return Evidence(common, {"cross": state.cross} | self.class_counts(state), clipped=int(state.counts[1]))
        gram, cross = self.system(state)
        return Evidence({"gram": linalg.triangle_of(gram)}, {"cross": cross.T} | self.class_counts(state))

    def class_counts(self, state: Moments | Knowledge) -> StateDict:
        """How many samples of each class there are, if the weights depend on it."""
        return {"samples": state.by_class} if isinstance(state, Moments) and self.balance else {}

    def joint(self, data: ClientData, classes: int) -> Moments:
        """What one place with all these samples would know, by plain products in float64."""
        samples = Prepared(data, self.projection, clip=None)
        return self.sums.in_one_place().moments(samples, self.features, classes)

    def unlearn(self, state: Any, forgotten: ClientData, classes: Tensor) -> Moments | Knowledge:
        """The sums without these samples, for the classes that are left; (8) and (9) are taken back where W is kept."""
        registered = state.matrix.shape[1] if isinstance(state, Knowledge) else len(state.cross)
        gone = self.sums.moments(Prepared(forgotten, self.projection, clip=None), self.features, registered)
        if isinstance(state, Moments):
            rest = self.sums.rest(state, gone)
            by_class = rest.by_class[classes] if self.balance else rest.by_class
            return replace(rest, cross=rest.cross[classes], by_class=by_class)
        gone_gram, gone_cross = self.sums.system(gone)
        gram = state.gram - gone_gram
        cross = state.gram @ state.matrix - gone_cross
        return Knowledge(gram, linalg.ridge(gram, cross[:, classes], gamma=0.0), state.clients)


def warn_of_clipping(state: Moments) -> None:
    """Say it if features were beyond the range that the backbone declares."""
    samples, clipped = state.counts.tolist()
    if clipped:
        warnings.warn(
            f"{clipped:,} features of {samples:,} samples are beyond backbone.feature_range and were clipped: "
            "set a larger backbone.feature_range.",
            stacklevel=2,
        )


def registered(client: Client) -> int:
    """How many classes are registered once this client has declared its own."""
    return client.registration.registered + len(client.registration.new)


def widened(matrix: Tensor, classes: int) -> Tensor:
    """Zero columns for classes registered since."""
    return pad(matrix, (0, classes - matrix.shape[1]))
