"""AFCL: analytic federated continual learning. Ridge regression on frozen features, one exchange per task.

Paper: Tang et al., "AFCL: Analytic Federated Continual Learning for Spatio-Temporal Invariance of Non-IID Data",
arXiv 2505.12245. The numbers of equations are those of the paper; F_k and Y_k are the features and the one-hot labels
of client k, which is one client's share of one task (the paper's virtual client).

Followed: frozen backbone, one-hot targets, no bias, known-unknown class splitting by registration, one upload per
client and task and no download. The global model is that of centralised ridge regression on all data so far.
Deviates: ``form: statistics`` (default) sends F_k^T F_k (its lower triangle) and F_k^T Y_k, which carry the same
information as the paper's R_k and W_k and simply add up. ``form: recursive`` is the paper's message by message, with
the A_k and B_k of (9) in the simpler form they are equal to: A_k = I - B_k and B_k = (R_1 + ... + R_k)^-1 R_k.
All in float64. The "Tanh" of the paper's Algorithm 1 appears nowhere else in the paper and is left out.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from fcl_bench import Backbone, Client, Clients, Scores, Task, UserError, linalg, threads_for

BATCH = 2048  # rows turned into float64 at a time


@dataclass(frozen=True)
class Statistics:
    """The upload of ``form: statistics``: all that ridge regression needs to know about some samples."""

    gram: Tensor  # F_k^T F_k, its lower triangle
    cross: Tensor  # F_k^T Y_k, (features, classes)


@dataclass(frozen=True)
class Sums:
    """The state of ``form: statistics``, sums over all data so far."""

    gram: Tensor  # F^T F, its lower triangle
    cross: Tensor  # F^T Y, (features, classes)
    weights: Tensor  # W, (features, classes)

    def with_classes(self, classes: int) -> "Sums":
        """With room for the classes registered since."""
        return replace(self, cross=widened(self.cross, classes))

    def absorb(self, upload: Statistics) -> "Sums":
        """Sums over one client more."""
        cross = widened(upload.cross, self.cross.shape[1])
        return replace(self, gram=self.gram + upload.gram, cross=self.cross + cross)

    def solved(self, gamma: float) -> "Sums":
        """By (14): W = (F^T F + gamma I)^-1 F^T Y."""
        gram = linalg.whole(self.gram, len(self.cross))
        return replace(self, weights=ridge(gram, self.cross, gamma))


@dataclass(frozen=True)
class Solution:
    """The paper's upload: a client's own ridge regression."""

    gram: Tensor  # R_k, (features, features)
    known: Tensor  # W_k of the classes registered before this client, (features, known classes)
    new: Tensor  # W_k of the classes this client was the first to declare, (features, new classes)


@dataclass(frozen=True)
class Knowledge:
    """The state of ``form: recursive`` after client k."""

    gram: Tensor  # R_1 + ... + R_k, (features, features)
    matrix: Tensor  # the global knowledge matrix G_k, (features, classes)
    clients: int  # k
    weights: Tensor  # W_k, (features, classes)

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
            return replace(self, gram=gram, matrix=self.matrix + step, clients=self.clients + 1)

    def solved(self, gamma: float) -> "Knowledge":
        """By (10): W_k = (R_1 + ... + R_k - (k - 1) gamma I)^-1 (R_1 + ... + R_k) G_k."""
        eye = torch.eye(len(self.gram), dtype=torch.float64)
        gram = self.gram - self.clients * gamma * eye
        return replace(self, weights=ridge(gram, self.gram @ self.matrix, gamma))


class AFCL:
    """``gamma`` is the ridge regulariser; both forms give the same weights."""

    exact = True
    exemplar_free = True
    needs_frozen_backbone = True

    def __init__(
        self,
        backbone: Backbone,
        gamma: Annotated[float, Field(ge=0, allow_inf_nan=False)],
        form: Literal["statistics", "recursive"],
    ):
        self.features = backbone.features
        self.gamma = gamma
        self.form = form

    def init(self) -> Sums | Knowledge:
        """No classes, no knowledge."""
        empty = torch.zeros(self.features, 0, dtype=torch.float64)
        if self.form == "statistics":
            return Sums(linalg.empty_triangle(self.features), cross=empty, weights=empty)
        gram = empty.new_zeros(self.features, self.features)
        return Knowledge(gram, matrix=empty, clients=0, weights=empty)

    def learn(self, state: Sums | Knowledge, task: Task, clients: Clients) -> Iterator[Sums | Knowledge]:
        """One exchange, whatever the order in which clients answer."""
        upload: Callable[[Client], Any] = self.summarise if self.form == "statistics" else self.solve
        state = state.with_classes(task.seen)
        for reply in clients.map(upload):
            state = state.absorb(reply)
        yield state.solved(self.gamma)

    def summarise(self, client: Client) -> Statistics:
        """At the client: sums over its samples. Labels are numbers below the classes registered up to this client."""
        classes = client.registration.registered + len(client.registration.new)
        gram = linalg.empty_triangle(self.features)
        cross = torch.zeros(classes, self.features, dtype=torch.float64)
        with threads_for(len(client.data) * self.features):
            for inputs, labels in client.data.batches(BATCH):
                rows = inputs.double()
                linalg.add_gram(gram, rows)  # F_k^T F_k
                cross.index_add_(0, labels, rows)  # Y_k^T F_k
        return Statistics(gram, cross.T)

    def solve(self, client: Client) -> Solution:
        """At the client, by (5) to (7): R_k = F_k^T F_k + gamma I, and W_k = R_k^-1 F_k^T Y_k in two parts."""
        statistics = self.summarise(client)
        with threads_for(self.features**2):
            gram = linalg.whole(statistics.gram, self.features)
            gram.diagonal().add_(self.gamma)
            if self.gamma > 0 and len(client.data) < self.features:
                weights = self.solve_few(client, classes=statistics.cross.shape[1])
            else:
                weights = linalg.solve_regular(gram, statistics.cross)
        if weights is None:
            raise UserError(
                "AFCL's recursive form needs an invertible Gram matrix at every client, but with "
                f"gamma={self.gamma:g} that of client {client.id} ({len(client.data)} samples, {self.features} "
                "features) is singular: raise method.gamma, or set method.form=statistics."
            )
        known = client.registration.registered
        return Solution(gram, weights[:, :known], weights[:, known:])

    def solve_few(self, client: Client, classes: int) -> Tensor | None:
        """The same W_k from a smaller system: F_k^T (F_k F_k^T + gamma I)^-1 Y_k; None where that is singular."""
        inputs, labels = client.data.tensors
        rows = inputs.double()
        if len(rows) == 0:
            return rows.new_zeros(self.features, classes)
        kernel = rows @ rows.T
        kernel.diagonal().add_(self.gamma)
        dual = linalg.solve_regular(kernel, one_hot(labels, classes).double())
        return None if dual is None else rows.T @ dual

    def classifier(self, state: Sums | Knowledge) -> nn.Module:
        """The linear map itself."""
        return Scores(state.weights).eval()


def ridge(gram: Tensor, cross: Tensor, gamma: float) -> Tensor:
    """The W of (gram + gamma I) W = cross; of minimum norm where that is singular."""
    regularised = gram + gamma * torch.eye(len(gram), dtype=gram.dtype)
    weights = linalg.solve_regular(regularised, cross)
    if weights is None:
        warnings.warn(
            f"With gamma={gamma:g} the Gram matrix of all data so far is singular: taking the minimum-norm solution.",
            stacklevel=2,
        )
        return linalg.solve_singular(regularised, cross)
    return weights


def widened(matrix: Tensor, classes: int) -> Tensor:
    """Zero columns for classes registered since."""
    return pad(matrix, (0, classes - matrix.shape[1]))
