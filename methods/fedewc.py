"""FedEWC: elastic weight consolidation, federated. What mattered for earlier tasks is held in place.

Paper: Kirkpatrick et al., "Overcoming catastrophic forgetting in neural networks", PNAS 2017, with the running sum of
Schwarz et al., "Progress & Compress", ICML 2018; federated as the baseline of Zhang et al., "TARGET", ICCV 2023.

Followed (``variant: corrected``, the default): when a task is over, every client computes the empirical Fisher
information of its samples at the final global weights, from per-sample gradients of log p(label) over the classes of
``ce_scope``, in eval mode; the server divides the sums by the number of samples and keeps F = decay F + F_task. In
later tasks the local loss is cross-entropy + (penalty / 2) sum F (w - w*)^2 over the weights w* of the task before,
backbone and old head rows; rows of new classes are free. F and w* go to the clients once per task, in an exchange of
their own. For a linear head on frozen features the sum of squared gradients is computed in closed form. The default
penalty was the best of 1, 10, 100 and 1000 on held-out training samples of CIFAR-100; ``python -m fcl_bench tune
method=fedewc --trials 5 "method.search={penalty: {choices: [1, 10, 100, 1000]}}" dataset=cifar100 data_dir=DATA
stream.tasks=10`` tries them again.
Deviates: penalty x F is capped at 1 / lr for each parameter, where a step of gradient descent already returns it to w*;
beyond, training would diverge. A client that was absent when F was sent goes on with what it has.
``variant: target_repo`` is what the published code does: its penalty is evaluated on another copy of the network than
the one that is trained, so it has no gradient; what is left is plain averaging without weight decay, uniform over
clients, with one more pass in training mode after each round, which moves BatchNorm's statistics.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal, Unpack

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy, one_hot, pad

from fcl_bench import (
    Backbone,
    Client,
    Clients,
    CrossEntropy,
    Equal,
    FederatedAveraging,
    Like,
    Network,
    Pull,
    Range,
    Round,
    StateDict,
    Task,
    Training,
    Update,
    columns_at_client,
    masked_targets,
    numbers_per_sample,
    outputs,
    snapshot,
    threads_for,
)

AT_ONCE = 1 << 26  # per-sample gradients held at a time, in numbers
SAMPLES_AT_ONCE = 64


@dataclass(frozen=True)
class Global:
    """The state: the model, and how much each of its parameters matters to the tasks so far."""

    weights: StateDict
    importance: StateDict  # F; empty before the end of the first task


@dataclass(frozen=True)
class Curvature:
    """A client's reply: sums over its samples of squared gradients."""

    sums: Annotated[StateDict, Like("weights", only="trained", or_empty=True), Range(0)]
    samples: Annotated[int, Equal("samples")]


class Elastic(CrossEntropy):
    """Cross-entropy and half of the squared distance from ``anchor``, each parameter weighed by its ``stiffness``."""

    anchor: StateDict | None = None
    stiffness: StateDict

    def pull(self) -> Pull | None:
        """Towards the anchor, if there is one."""
        return None if self.anchor is None else Pull(self.anchor, self.stiffness)


class FedEWC:
    """``penalty`` weighs the memory of earlier tasks, which fades by ``decay`` per task."""

    exemplar_free = True
    resumes_within_tasks = True

    def __init__(
        self,
        backbone: Backbone,
        variant: Literal["corrected", "target_repo"],
        penalty: Annotated[float, Field(ge=0, allow_inf_nan=False)],
        decay: Annotated[float, Field(ge=0, le=1)],
        **training: Unpack[Training],
    ):
        self.variant = variant
        self.penalty = penalty
        self.decay = decay
        if variant == "target_repo":
            training["optimizer"] = partial(training["optimizer"], weight_decay=0)
        self.averaging = FederatedAveraging(backbone, training, Elastic)
        self.trained = [name for name, _ in self.averaging.loss.network.named_parameters()]

    def init(self) -> Global:
        """The backbone's own weights, a head without rows, nothing that matters yet."""
        return Global(self.averaging.start, importance={})

    def learn(self, state: Global, task: Task, clients: Clients) -> Iterator[Global]:
        """Hand out what matters, average round after round, then ask what matters now."""
        if state.importance and not task.yielded:
            clients.everyone.tell(self.keep, state)
        for weights in self.averaging.learn(state.weights, task, clients, self.train):
            state = replace(state, weights=weights)
            yield state
        asked = task.yielded > self.averaging.rounds
        if self.variant == "corrected" and not asked:
            final = Round(state.weights, self.averaging.columns(task), lr=0.0)
            replies = clients.everyone.map(self.fisher, final)
            yield replace(state, importance=self.consolidated(state, replies))

    def keep(self, client: Client, remembered: Global) -> None:
        """At the client: remember the model of the task before, and what matters in it."""
        client.memory["remembered"] = remembered

    def train(self, client: Client, received: Round) -> Update:
        """At the client: a few epochs, held back where it matters."""
        self.remind(client.memory.get("remembered"), received.lr)
        update = self.averaging.train(client.data, received)
        if self.variant == "corrected" or len(client.data) == 0:
            return update
        network = self.averaging.loss.network.train()
        inputs, _ = client.data.tensors
        outputs(network, inputs, self.averaging.training["batch_size"])  # moves BatchNorm's statistics
        return replace(update, weights=snapshot(network)).counted_once()

    def remind(self, remembered: Global | None, lr: float) -> None:
        """Hold the loss to what is remembered, no stiffer than the learning rate can follow."""
        if remembered is None:
            self.averaging.loss.anchor = None
            return
        stiffness = {}
        for name, value in remembered.importance.items():
            stiffness[name] = (self.penalty * value).clamp(max=1 / lr)
        self.averaging.loss.assign(anchor=remembered.weights, stiffness=stiffness)

    def fisher(self, client: Client, final: Round) -> Curvature:
        """At the client: the squared gradients of its samples, summed."""
        if len(client.data) == 0:
            return Curvature({}, 0)
        inputs, labels = client.data.tensors
        columns = columns_at_client(final.columns, labels)
        network = self.averaging.classifier(final.weights)
        squares = linear_fisher if isinstance(network.backbone, nn.Identity) else sampled_fisher
        device = network.head.bias.device
        with threads_for(numbers_per_sample(network)):
            sums = squares(network, inputs.to(device), labels.to(device), columns.to(device))
        return Curvature({name: value.cpu() for name, value in sums.items()}, len(labels))

    def consolidated(self, state: Global, replies: Iterator[Curvature]) -> StateDict:
        """F = decay F + F_task, and F where nobody answers; head rows of new classes had no importance before."""
        importance = {name: widened(value, len(state.weights[name])) for name, value in state.importance.items()}
        samples = 0
        totals: StateDict = {}
        for reply in replies:
            samples += reply.samples
            for name, value in reply.sums.items():
                totals[name] = totals[name] + value if name in totals else value
        if not totals:
            return importance
        now = {name: value / samples for name, value in totals.items()}
        if not importance:
            return now
        for name, value in now.items():
            now[name] = value + self.decay * importance[name]
        return now

    def classifier(self, state: Global) -> nn.Module:
        """The global model."""
        return self.averaging.classifier(state.weights)


@torch.no_grad()
def linear_fisher(network: Network, inputs: Tensor, labels: Tensor, columns: Tensor) -> StateDict:
    """In closed form for a linear head on its inputs: the gradient of a sample is (p - y) x^T, so squares factor."""
    logits, positions = masked_targets(network(inputs), labels, columns)  # (n, columns), (n,)
    errors = logits.softmax(dim=1) - one_hot(positions, logits.shape[1])  # p - y
    squares = errors.square()
    weight = torch.zeros_like(network.head.weight)  # (classes, features)
    weight[columns] = squares.T @ inputs.square()
    bias = torch.zeros_like(network.head.bias)  # (classes,)
    bias[columns] = squares.sum(dim=0)
    return {"head.weight": weight, "head.bias": bias}


def sampled_fisher(network: Network, inputs: Tensor, labels: Tensor, columns: Tensor) -> StateDict:
    """For any network: per-sample gradients by ``torch.func``, as many at a time as memory allows."""
    parameters = {name: value.detach() for name, value in network.named_parameters()}
    buffers = dict(network.named_buffers())

    def negative_log_likelihood(weights: StateDict, sample: Tensor, position: Tensor) -> Tensor:
        logits = functional_call(network, (weights, buffers), (sample[None],))
        return cross_entropy(logits[:, columns], position[None])

    per_sample = vmap(grad(negative_log_likelihood), in_dims=(None, 0, 0))
    at_once = AT_ONCE // sum(value.numel() for value in parameters.values())
    at_once = min(max(1, at_once), SAMPLES_AT_ONCE)
    positions = torch.searchsorted(columns, labels)
    sums = {name: torch.zeros_like(value) for name, value in parameters.items()}
    for part in torch.arange(len(labels), device=labels.device).split(at_once):
        gradients = per_sample(parameters, inputs[part], positions[part])
        for name, value in gradients.items():  # (samples, *shape of the parameter)
            sums[name] += value.square().sum(dim=0)
    return sums


def widened(values: Tensor, rows: int) -> Tensor:
    """With zeros for head rows added since."""
    unchanged = (0, 0) * (values.dim() - 1)  # of all dimensions but the first
    return pad(values, (*unchanged, 0, rows - len(values)))
