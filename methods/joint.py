"""Joint: the oracle. All clients hand over their data, and one model is fitted to everything so far.

Not a federated method: every sample is uploaded once and kept. ``head: ridge`` is centralised ridge regression, which
AFCL must equal; ``head: sgd`` is a head (or, with a trainable backbone, the whole network) trained from scratch on the
pooled data after every task.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import nn
from torch.nn.functional import one_hot

from fcl_bench import Backbone, Client, Clients, ConfigError, Fit, Scores, StateDict, Task, grown, snapshot
from fcl_bench.losses import CrossEntropy, Network, OptimizerFactory
from fcl_bench.replay import Samples


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
        head: Literal["ridge", "sgd"] = "ridge",
        gamma: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0,
        epochs: PositiveInt = 20,
        batch_size: PositiveInt = 128,
        lr: PositiveFloat = 0.01,
    ):
        if head == "ridge" and backbone.trainable:
            raise ConfigError(
                "Expected a frozen backbone for method.head=ridge, but got backbone.trainable=true: "
                "set backbone.trainable=false or method.head=sgd."
            )
        self.exact = self.needs_frozen_backbone = head == "ridge"
        self.fit, self.head, self.gamma, self.batch_size = fit, head, gamma, batch_size
        self.epochs = epochs if head == "sgd" else 1
        self.loss = CrossEntropy(Network(backbone), optimizer)
        self.loss.lr = lr
        self.start = snapshot(self.loss.network)

    def init(self) -> Pooled:
        """No samples, no classes."""
        return Pooled((), self.start)

    def learn(self, state: Pooled, task: Task, clients: Clients) -> Iterator[Pooled]:
        """Collect, then fit to everything."""
        replies = sorted(clients.map(self.hand_over), key=itemgetter(0))  # so that SGD does not see who was faster
        samples = state.samples + tuple(held for _, held in replies if len(held))
        weights = grown(self.start, task.seen)
        if samples:
            pool = Samples(torch.cat([part.inputs for part in samples]), torch.cat([part.labels for part in samples]))
            weights = self.ridge(pool, task.seen) if self.head == "ridge" else self.sgd(pool, weights)
        yield Pooled(samples, weights)

    def hand_over(self, client: Client) -> tuple[int, Samples]:
        """At the client: everything, and whose it is."""
        return client.id, Samples(*client.data.tensors)

    def ridge(self, pool: Samples, classes: int) -> StateDict:
        """The normal equations as the textbook writes them, in float64 and without bias; least squares for gamma 0."""
        rows, targets = pool.inputs.double(), one_hot(pool.labels, classes).double()
        if self.gamma == 0:
            return {"ridge": torch.linalg.lstsq(rows, targets, driver="gelsd").solution}
        gram = rows.T @ rows + self.gamma * torch.eye(rows.shape[1], dtype=torch.float64)
        return {"ridge": torch.linalg.solve(gram, rows.T @ targets)}

    def sgd(self, pool: Samples, weights: StateDict) -> StateDict:
        """From scratch, through Lightning."""
        self.loss.network.load_state_dict(weights)
        self.fit(self.loss, pool, self.epochs, self.batch_size)
        return snapshot(self.loss.network)

    def classifier(self, state: Pooled) -> nn.Module:
        """The model fitted last."""
        if "ridge" in state.weights:
            return Scores(state.weights["ridge"]).eval()
        return self.loss.network.loaded(state.weights).eval()
