"""AFCL: analytic federated continual learning. Ridge regression on frozen features, one exchange per task.

Paper: Tang et al., "AFCL: Analytic Federated Continual Learning for Spatio-Temporal Invariance of Non-IID Data",
arXiv 2505.12245.

Followed: frozen backbone, one-hot targets, no bias, known-unknown class splitting by registration, one upload per
client and task and no download. The global model is that of centralised ridge regression on all data so far.
Deviates: ``form: statistics`` (default) sends F^T F (its lower triangle) and F^T Y, which carry the same information as
the paper's R_k and R_k^-1 F^T Y and simply add up. ``form: recursive`` is the paper's message by message, with its A_k
and B_k in the simpler form they are equal to: (P + Q)^-1 P and (P + Q)^-1 Q, P the sum of the earlier R and Q = R_k.
All in float64. The "Tanh" of the paper's Algorithm 1 appears nowhere else in the paper and is left out.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from fcl_bench import Backbone, Client, Clients, Scores, Task, UserError, threads_for

BATCH = 2048  # rows turned into float64 at a time
EPS = torch.finfo(torch.float64).eps
PANEL = 128  # columns of the lower triangle that are computed and sent together


@dataclass(frozen=True)
class Statistics:
    """All that ridge regression needs to know about any number of samples."""

    gram: Tensor  # lower triangle of F^T F, as laid out by panels()
    cross: Tensor  # F^T Y, (features, classes)

    def __add__(self, other: "Statistics") -> "Statistics":
        width = max(self.cross.shape[1], other.cross.shape[1])
        return Statistics(self.gram + other.gram, widened(self.cross, width) + widened(other.cross, width))


@dataclass(frozen=True)
class Solved:
    """State of ``form: statistics``."""

    statistics: Statistics
    weights: Tensor  # (features, classes)


@dataclass(frozen=True)
class Solution:
    """The paper's upload: a client's own ridge regression, its columns split by registration."""

    gram: Tensor  # R_k = F^T F + gamma I
    known: Tensor  # (features, classes registered before this client)
    new: Tensor  # (features, classes this client was the first to declare)


@dataclass(frozen=True)
class Knowledge:
    """State of ``form: recursive``."""

    gram: Tensor  # sum of all R_k
    matrix: Tensor  # the paper's G_k, (features, classes)
    clients: int  # virtual clients so far: each is one client's share of one task
    weights: Tensor  # (features, classes)


class AFCL:
    """``gamma`` is the ridge regulariser; both forms give the same weights."""

    exact = True
    exemplar_free = True
    needs_frozen_backbone = True

    def __init__(
        self,
        backbone: Backbone,
        gamma: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0,
        form: Literal["statistics", "recursive"] = "statistics",
    ):
        self.features, self.gamma, self.form = backbone.features, gamma, form

    def init(self) -> Solved | Knowledge:
        """No classes, no knowledge."""
        empty = torch.zeros(self.features, 0, dtype=torch.float64)
        if self.form == "recursive":
            return Knowledge(empty.new_zeros(self.features, self.features), empty, 0, empty)
        return Solved(Statistics(empty.new_zeros(triangle_size(self.features)), empty), empty)

    def learn(self, state: Solved | Knowledge, task: Task, clients: Clients) -> Iterator[Solved | Knowledge]:
        """One exchange, whatever the order in which clients answer."""
        if isinstance(state, Solved):
            unheard = Statistics(state.statistics.gram, widened(state.statistics.cross, task.seen))
            total = sum(clients.map(self.summarise), start=unheard)
            yield Solved(total, ridge(square(total.gram, self.features), total.cross, self.gamma))
        else:
            gram, matrix, count = state.gram, widened(state.matrix, task.seen), state.clients
            for reply in clients.map(self.solve):
                gram, matrix = absorb(gram, matrix, reply)
                count += 1
            eye = torch.eye(self.features, dtype=torch.float64)
            weights = ridge(gram - count * self.gamma * eye, gram @ matrix, self.gamma)
            yield Knowledge(gram, matrix, count, weights)

    def summarise(self, client: Client) -> Statistics:
        """At the client: sums over its samples. Labels are numbers below the classes registered up to this client."""
        classes = client.registration.registered + len(client.registration.new)
        cross = torch.zeros(classes, self.features, dtype=torch.float64)
        gram = cross.new_zeros(triangle_size(self.features))
        with threads_for(len(client.data) * self.features):
            for inputs, labels in client.data.batches(BATCH):
                rows = inputs.double()
                cross.index_add_(0, labels, rows)
                for start, panel in panels(gram, self.features):
                    panel.addmm_(rows[:, start:].T, rows[:, start : start + PANEL])
        return Statistics(gram, cross.T)

    def solve(self, client: Client) -> Solution:
        """At the client: the paper's equations 3.4-6 to 3.4-8."""
        statistics = self.summarise(client)
        with threads_for(self.features**2):
            gram = square(statistics.gram, self.features)
            gram.diagonal().add_(self.gamma)
            if self.gamma > 0 and len(client.data) < self.features:
                weights = few_sample_ridge(*client.data.tensors, statistics.cross.shape[1], self.gamma)
            else:
                factor = torch.linalg.cholesky_ex(gram).L
                weights = torch.cholesky_solve(statistics.cross, factor) if well_posed(factor) else None
        if weights is None:
            raise UserError(
                "AFCL's recursive form needs an invertible Gram matrix at every client, but with "
                f"gamma={self.gamma:g} that of client {client.id} ({len(client.data)} samples, {self.features} "
                "features) is singular: raise method.gamma, or set method.form=statistics."
            )
        known = client.registration.registered
        return Solution(gram, weights[:, :known], weights[:, known:])

    def classifier(self, state: Solved | Knowledge) -> nn.Module:
        """The linear map itself."""
        return Scores(state.weights).eval()


def absorb(gram: Tensor, matrix: Tensor, reply: Solution) -> tuple[Tensor, Tensor]:
    """The paper's recursion (equations 3.5-2 and 3.5-3): the next sum of R, and the next G = A G + B W."""
    local = widened(torch.cat([reply.known, reply.new], dim=1), matrix.shape[1])
    with threads_for(gram.numel()):
        total = gram + reply.gram
        step = torch.cholesky_solve(reply.gram @ (local - matrix), torch.linalg.cholesky(total))
        return total, matrix + step  # A G + B W, as A = I - B


def ridge(gram: Tensor, cross: Tensor, gamma: float) -> Tensor:
    """Solve (gram + gamma I) W = cross; minimum norm where that is singular."""
    regularised = gram + gamma * torch.eye(len(gram), dtype=gram.dtype)
    factor = torch.linalg.cholesky_ex(regularised).L
    if well_posed(factor):
        return torch.cholesky_solve(cross, factor)
    warnings.warn(
        f"With gamma={gamma:g} the Gram matrix of all data so far is singular: taking the minimum-norm solution.",
        stacklevel=2,
    )
    return torch.linalg.pinv(regularised, rtol=EPS * len(gram), hermitian=True) @ cross


def few_sample_ridge(inputs: Tensor, labels: Tensor, classes: int, gamma: float) -> Tensor | None:
    """The same weights from the smaller system F^T (F F^T + gamma I)^-1 Y; None where that is singular."""
    rows = inputs.double()
    if len(rows) == 0:
        return rows.new_zeros(rows.shape[1], classes)
    kernel = rows @ rows.T
    kernel.diagonal().add_(gamma)
    factor = torch.linalg.cholesky_ex(kernel).L
    if not well_posed(factor):
        return None
    return rows.T @ torch.cholesky_solve(one_hot(labels, classes).double(), factor)


def well_posed(factor: Tensor) -> bool:
    """Whether a Cholesky factor came from a matrix that is regular in float64."""
    pivots = factor.diagonal()
    return bool(torch.isfinite(pivots).all() and pivots.min() > pivots.max() * (EPS * len(factor)) ** 0.5)


def triangle_size(features: int) -> int:
    """Numbers in the panels of the lower triangle of a (features, features) matrix."""
    return sum((features - start) * min(PANEL, features - start) for start in range(0, features, PANEL))


def panels(triangle: Tensor, features: int) -> Iterator[tuple[int, Tensor]]:
    """Views on the triangle: for each first column, the block of columns from there, from the diagonal block down.

    Column after column in memory: tall products are a quarter faster into such a block.
    """
    offset = 0
    for start in range(0, features, PANEL):
        rows, columns = features - start, min(PANEL, features - start)
        yield start, triangle[offset : offset + rows * columns].view(columns, rows).T
        offset += rows * columns


def square(triangle: Tensor, features: int) -> Tensor:
    """The whole symmetric matrix behind the panels."""
    matrix = triangle.new_empty(features, features)
    for start, panel in panels(triangle, features):
        matrix[start:, start : start + PANEL] = panel
        matrix[start : start + PANEL, start:] = panel.T
    return matrix


def widened(matrix: Tensor, classes: int) -> Tensor:
    """Zero columns for classes registered since."""
    return pad(matrix, (0, classes - matrix.shape[1]))
