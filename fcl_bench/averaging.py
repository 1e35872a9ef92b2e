"""Federated averaging, the piece shared by methods that train: its settings, its rounds, a client's local training.

A method takes the settings as ``**training: Unpack[Training]``, makes a :class:`FederatedAveraging` of them and of its
loss, and says what a client does in a round. The network with its growing head, the learning rate and the classifier
are the business of this module; which classes are in the softmax is chosen in :mod:`fcl_bench.softmax`.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, Protocol, TypedDict, TypeVar

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from fcl_bench.aggregate import Update
from fcl_bench.backbone import Backbone
from fcl_bench.errors import ConfigError
from fcl_bench.federation import Client, Clients
from fcl_bench.head import grown
from fcl_bench.local import Fit, Indexable, batch_sizes
from fcl_bench.losses import CrossEntropy, Network, OptimizerFactory
from fcl_bench.message import StateDict, snapshot
from fcl_bench.robust import Aggregation, aggregated, fewest
from fcl_bench.softmax import Scope, columns_at_client, columns_for_all, log_frequencies
from fcl_bench.stream import Task
from fcl_bench.threads import numbers_per_sample, threads_for

Loss = TypeVar("Loss", bound=CrossEntropy)


class Training(TypedDict):
    """The settings of every method that averages; ``configs/training.yaml`` holds their values.

    Each task has ``rounds`` rounds of ``epochs`` local epochs. ``schedule`` sets the learning rate of each round of a
    task: constant; half a cosine from ``lr`` to ``lr_end``; or ``step``, a tenth after half of the rounds and a
    hundredth after three quarters. ``ce_scope`` says over which classes the softmax of the cross-entropy goes: those of
    the task, all seen so far, or the client's own. ``aggregation`` says how the models of clients become one; all
    rules but the mean are for clients that may lie, and some of them assume how many do: ``liars``.
    """

    fit: Fit
    optimizer: OptimizerFactory
    rounds: PositiveInt
    epochs: PositiveInt
    batch_size: PositiveInt
    lr: PositiveFloat
    lr_end: Annotated[float, Field(ge=0)]
    schedule: Literal["constant", "cosine", "step"]
    ce_scope: Scope
    logit_adjustment: NonNegativeFloat
    aggregation: Aggregation
    liars: NonNegativeInt


@dataclass(frozen=True)
class Round:
    """What every client receives in a round."""

    weights: StateDict
    columns: Tensor | None  # classes in the softmax; None for the client's own
    lr: float


class Labelled(Indexable, Protocol):
    """Samples whose labels are known: a client's data, kept samples, ..."""

    @property
    def labels(self) -> Tensor:
        """(n,) registered class numbers."""
        ...


class FederatedAveraging(Generic[Loss]):
    """Rounds of local training with a ``loss``, whose ``attributes`` are its own settings."""

    def __init__(self, backbone: Backbone, training: Training, loss: type[Loss], **attributes: Any):
        self.training = training
        self.rounds = training["rounds"]
        self.loss = loss(Network(backbone), training["optimizer"], **attributes)
        self.start = snapshot(self.loss.network)  # the backbone's own weights and a head without rows

    def learn(
        self, weights: StateDict, task: Task, clients: Clients, train: Callable[[Client, Round], Update]
    ) -> Iterator[StateDict]:
        """The global weights after each round, in which every client does ``train``, a function of the method."""
        weights = grown(weights, task.seen)
        for number in self.rounds_left(task):
            updates = clients.map(train, self.round(number, weights, task))
            weights = self.aggregate(updates, default=weights)
            yield weights

    def aggregate(self, updates: Iterable[Update], default: StateDict) -> StateDict:
        """The clients' models as one, as ``aggregation`` says; ``default`` where too few have samples."""
        return aggregated(updates, default, self.training["aggregation"], self.training["liars"])

    def rounds_left(self, task: Task) -> range:
        """The numbers of the rounds that are left of a task: all of them, unless the task is resumed."""
        self.refuse_few(len(task.registrations))
        return range(task.yielded, self.rounds)

    def refuse_few(self, clients: int) -> None:
        """Raise a :class:`ConfigError` if there are fewer clients than ``aggregation`` needs in every round."""
        aggregation = self.training["aggregation"]
        liars = self.training["liars"]
        least = fewest(aggregation, liars)
        if clients < least:
            raise ConfigError(
                f"Expected at least {least} clients for method.aggregation={aggregation} with method.liars={liars}, "
                f"but got {clients}: set partition.clients={least}, fewer method.liars, or method.aggregation=median."
            )

    def round(self, number: int, weights: StateDict, task: Task) -> Round:
        """What to send to every client in round ``number`` of a task."""
        return Round(weights, self.columns(task), self.rate(number))

    def columns(self, task: Task) -> Tensor | None:
        """The classes in the softmax of every client; None where each takes its own."""
        return columns_for_all(self.training["ce_scope"], task)

    def rate(self, number: int) -> float:
        """The learning rate of round ``number`` of a task."""
        lr = self.training["lr"]
        lr_end = self.training["lr_end"]
        match self.training["schedule"]:
            case "cosine":
                return lr_end + (lr - lr_end) * (1 + math.cos(math.pi * number / self.rounds)) / 2
            case "step":
                steps = (2 * number >= self.rounds) + (4 * number >= 3 * self.rounds)
                return lr * 0.1**steps
        return lr

    def train(self, data: Labelled, received: Round, **attributes: Any) -> Update:
        """At a client: the received weights after local training on ``data``, with these attributes of the loss."""
        fit = self.training["fit"]
        columns = columns_at_client(received.columns, data.labels)
        prior = log_frequencies(data.labels, columns, self.training["logit_adjustment"])
        self.loss.assign(lr=received.lr, columns=columns, prior=prior, **attributes)
        with threads_for(numbers_per_sample(self.loss)):
            self.loss.network.load_state_dict(received.weights)
            fit(self.loss, data, self.training["epochs"], self.training["batch_size"])
            return Update(snapshot(self.loss.network), len(data))

    def steps(self, samples: int) -> int:
        """How many optimizer steps :meth:`train` takes on so many samples."""
        return self.training["epochs"] * len(batch_sizes(samples, self.training["batch_size"]))

    def classifier(self, weights: StateDict) -> Network:
        """The network with these weights, in eval mode: a copy, which later training does not reach."""
        return self.loss.network.loaded(weights).eval()
