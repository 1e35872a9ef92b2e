"""Joint: the oracles. All clients hand over their data, and one model is fitted to everything so far.

Not a federated method: every sample is uploaded once and kept. ``head: ridge`` (``method=joint``) is centralised ridge
regression, which AFCL must equal; ``arithmetic: integer`` rounds the features as AFCL does. ``head: sgd``
(``method=joint_sgd``) is a softmax head (or, with a trainable backbone, the whole network) trained from scratch on the
pooled data after every task. A task is one exchange and one fit, so a run goes on at the beginning of a task.
Neither is a ceiling by definition: a table shows both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import one_hot

from fcl_bench import (
    Backbone,
    ClassSums,
    Client,
    Clients,
    ConfigError,
    CrossEntropy,
    Equal,
    Fit,
    Grid,
    Network,
    Numbers,
    OptimizerFactory,
    Samples,
    Scores,
    StateDict,
    Task,
    grid_for,
    grown,
    linalg,
    log_frequencies,
    snapshot,
)


@dataclass(frozen=True)
class Pooled:
    """The state: everything seen so far, and the model fitted to it."""

    samples: tuple[Samples, ...]
    weights: StateDict


class Joint:
    """``gamma`` regularises the ridge head; the other settings are those of the SGD head."""

    oracle = True

    def __init__(
        self,
        backbone: Backbone,
        fit: Fit,
        optimizer: OptimizerFactory,
        head: Literal["ridge", "sgd"],
        gamma: Annotated[float, Field(ge=0, allow_inf_nan=False)],
        arithmetic: Numbers,
        bits: Annotated[int, Field(ge=2, le=17)] | None,
        epochs: PositiveInt,
        batch_size: PositiveInt,
        lr: PositiveFloat,
        logit_adjustment: NonNegativeFloat,
    ):
        if head == "ridge" and backbone.trainable:
            raise ConfigError(
                "Expected a frozen backbone for method.head=ridge, but got backbone.trainable=true: "
                "set backbone.trainable=false or method.head=sgd."
            )
        if head == "ridge" and len(backbone.inputs.shape) > 1:
            raise ConfigError(
                "Expected clients to hold features for method.head=ridge, but got backbone.clients_hold=images: "
                "set backbone.clients_hold=features or method.head=sgd."
            )
        self.exact = head == "ridge"
        self.needs_frozen_backbone = head == "ridge"
        self.head = head
        self.gamma = gamma
        self.grid = grid_for(backbone, bits) if arithmetic == "integer" else None
        self.fit = fit
        self.epochs = epochs if head == "sgd" else 1
        self.batch_size = batch_size
        self.loss = CrossEntropy(Network(backbone), optimizer)
        self.loss.assign(lr=lr)
        self.logit_adjustment = logit_adjustment
        self.start = snapshot(self.loss.network)

    def init(self) -> Pooled:
        """No samples, no classes."""
        return Pooled((), self.start)

    def learn(self, state: Pooled, task: Task, clients: Clients) -> Iterator[Pooled]:
        """Collect, then fit to everything."""
        replies = sorted(clients.everyone.map(self.hand_over), key=itemgetter(0))  # SGD must not see who was faster
        samples = state.samples + tuple(held for _, held in replies if len(held))
        yield Pooled(samples, self.fitted(samples, task.seen))

    def hand_over(self, client: Client) -> tuple[Annotated[int, Equal("client")], Samples]:
        """At the client: everything, and whose it is."""
        return client.id, Samples(*client.data.tensors)

    def class_sums(self, reply: tuple[int, Samples]) -> ClassSums:
        """No sums: the samples themselves."""
        return ClassSums(torch.zeros(0, 0), resolution=0.0, samples=len(reply[1]))

    def fitted(self, samples: tuple[Samples, ...], classes: int) -> StateDict:
        """The model of all these samples."""
        start = grown(self.start, classes)
        if not samples:
            return start
        pool = Samples(
            inputs=torch.cat([part.inputs for part in samples]),
            labels=torch.cat([part.labels for part in samples]),
        )
        if self.head == "ridge":
            return self.ridge(pool, classes)
        return self.sgd(pool, start)

    def ridge(self, pool: Samples, classes: int) -> StateDict:
        """The normal equations as the textbook writes them, in float64 and without bias; least squares for gamma 0."""
        if self.grid is not None:
            return {"ridge": self.exact_ridge(pool, classes, self.grid)}
        rows = pool.inputs.double()
        targets = one_hot(pool.labels, classes).double()
        if self.gamma == 0:
            return {"ridge": torch.linalg.lstsq(rows, targets, driver="gelsd").solution}
        gram = rows.T @ rows + self.gamma * torch.eye(rows.shape[1], dtype=torch.float64)
        return {"ridge": torch.linalg.solve(gram, rows.T @ targets)}

    def exact_ridge(self, pool: Samples, classes: int, grid: Grid) -> Tensor:
        """The same for features that are rounded to a grid: sums of products are whole numbers, which are exact."""
        grid.check(len(pool))
        rows = grid.rounded(pool.inputs)[0].double()
        targets = one_hot(pool.labels, classes).double()
        gram = (rows.T @ rows) * grid.step**2
        cross = (rows.T @ targets) * grid.step
        return linalg.ridge(gram, cross, self.gamma)

    def sgd(self, pool: Samples, weights: StateDict) -> StateDict:
        """From these weights, through Lightning."""
        columns = torch.arange(len(weights["head.bias"]))
        self.loss.assign(prior=log_frequencies(pool.labels, columns, self.logit_adjustment))
        self.loss.network.load_state_dict(weights)
        self.fit(self.loss, pool, self.epochs, self.batch_size)
        return snapshot(self.loss.network)

    def classifier(self, state: Pooled) -> nn.Module:
        """The model fitted last."""
        if "ridge" in state.weights:
            return Scores(state.weights["ridge"]).eval()
        return self.loss.network.loaded(state.weights).eval()
