"""FedCBC: one small VAE for each class on frozen features; an image gets the class whose VAE explains it best.

Paper: "FedCBC", ACM Multimedia 2024, and its published code.

Followed: features go through 256 tanh units to a Gaussian code of 128 numbers and back through 256 tanh units. Loss of
a sample = squared error of its features + 0.5 x KL divergence of its code from N(0, 1); prediction is the class with
the smallest loss. Adam 1e-3, weight decay 1e-3, batches of 32. A client that returns to a class goes on with its own
VAE, adds ``pseudo_samples`` decoded from uniform(-1, 1) codes (by the global VAE if there is one, else by its own), and
is pulled to the global VAE by ``alpha`` x KL(q_local(z|x) || q_global(z|x)) (continual personalisation). The server
adopts a VAE that only one client has; else it distils: the global VAE, or the one of the first client, learns from the
pseudo-samples of all clients' VAEs and the global one, and is pulled to the mean of their codes (selective fusion).
``fusion: average`` and ``personalisation: replace`` are the alternatives of the code. These sizes, and ``rounds`` 5 x
``epochs`` 300, are ``budget=published``. ``look_ahead: true`` with ``stream.reserved=30`` is its look at future
classes: before the first task the server fits the features to 30 samples of every class of the data, under a softmax
head that it throws away, by Adam 1e-4, weight decay 1e-3, batches of 32, ``look_ahead_epochs`` 100. The record names
it: ``sees_future_classes``.
Deviates: all classes of a client, or of the server, train at once as batched matrices, each as if it were alone.
Features are divided by ``scale``, a fixed public number, for the sigmoid of the decoder to reach them: 6 is the largest
feature that a mean of ReLU6 can have. Negative features are out of its reach: ``decoder: linear`` is for them. The code
of a sample is its mean wherever the published one draws it anew: in predictions and in the teachers' target. All
clients begin a new class with the same random weights, drawn from a number that the server sends. A client does not
train a class of which it has fewer than ``least`` samples: a class that returns in a few samples is learned mostly from
pseudo-samples, which wear its VAE out. With ``least`` 10 held-out training samples of digits were 80.8 % right, with 2
they were 44.6 %, and 71.1 % by Finetune; ``python -m fcl_bench tune method=fedcbc --trials 3 "method.search={least:
{choices: [2, 10]}}"`` tries both again. A class that nobody has a VAE of scores below all others. Only the VAEs of
classes in the task go down. With ``replace`` a client drops its own VAE for the global one, and is not pulled.
No look at future classes by default: features are what the backbone makes of images. With ``look_ahead`` the backbone
stays as it is, where the published one is fine-tuned: what learns is an adapter, a linear layer that is added to the
features and starts at zero. For the sigmoid decoder, adapted features are cut off at 0 and ``scale``. No client has the
samples that it learns from. It goes down once. A client that is absent then trains no VAE before it has it, and it is
sent again before each round until every client has it, also where one has lost its memory. To fine-tune the whole
network instead, do so elsewhere and give ``backbone.weights=FILE``; the record names that file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import attrgetter, or_
from typing import Annotated, Any, Literal

import lightning as L
import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear
from torch.nn.utils.rnn import pad_sequence
from torch.optim import Optimizer

from fcl_bench import (
    Backbone,
    Client,
    Clients,
    Equal,
    Fit,
    Kind,
    Labels,
    Like,
    OptimizerFactory,
    Samples,
    Shape,
    StateDict,
    Task,
    snapshot,
    threads_for,
)

Decoder = Literal["sigmoid", "linear"]
LOOK_AHEAD_LR = 1e-4


@dataclass(frozen=True)
class Models:
    """The VAEs of some classes: every parameter stacked, in the order of ``classes``."""

    classes: Annotated[Tensor, Shape("n"), Kind(torch.int64), Labels(distinct=True)]
    weights: Annotated[StateDict, Like("weights", rows="n")]  # by name: (n, inputs, outputs) or (n, 1, outputs)

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def numbers(self) -> int:
        """How many parameters all of them have."""
        return sum(value.numel() for value in self.weights.values())

    def only(self, classes: Tensor) -> "Models":
        """Those of these classes that are there."""
        there = torch.isin(self.classes, classes)
        return Models(self.classes[there], {name: value[there] for name, value in self.weights.items()})

    def __or__(self, other: "Models") -> "Models":
        """All of both; of a class that both have, the other's."""
        mine = self.only(self.classes[~torch.isin(self.classes, other.classes)])
        classes, order = torch.cat([mine.classes, other.classes]).sort()
        weights = {name: torch.cat([value, other.weights[name]])[order] for name, value in mine.weights.items()}
        return Models(classes, weights)


@dataclass(frozen=True)
class Knowledge:
    """The state."""

    models: Models
    seen: int  # classes registered so far, with a VAE or without
    adapter: StateDict = field(default_factory=dict)  # empty without ``look_ahead``
    waiting: int = 0  # clients that do not have the adapter yet


@dataclass(frozen=True)
class Round:
    """What every client receives in a round."""

    models: Models  # the global ones of the task's classes
    seed: int  # of the weights that new VAEs begin with


@dataclass(frozen=True)
class Trained:
    """What a client replies."""

    client: Annotated[int, Equal("client")]
    models: Models  # of the classes that it has trained
    waits: bool | None = None  # whether it lacks the adapter; None takes no bytes


@dataclass(frozen=True)
class Lesson:
    """What VAEs learn from: rows of features, class by class, and the code that teachers give to each row."""

    labels: Tensor  # (n,) ascending
    features: Tensor  # (n, features), scaled
    codes: Tensor  # (n, 2 code): mean and log-variance
    pulls: Tensor  # (n,) how much the teachers' code counts, 0 without teachers


class Stacked(nn.Module):
    """One linear layer for each class."""

    def __init__(self, weight: Tensor, bias: Tensor):
        super().__init__()
        self.weight = nn.Parameter(weight)  # (classes, inputs, outputs)
        self.bias = nn.Parameter(bias)  # (classes, 1, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """(classes, n, inputs) to (classes, n, outputs)."""
        return torch.baddbmm(self.bias, inputs, self.weight)


class VAEs(nn.Module):
    """One VAE for each class, with the weights that it is given, for rows of scaled features (classes, n, features)."""

    def __init__(self, weights: StateDict, decoder: Decoder):
        super().__init__()
        self.encoder = Stacked(weights["encoder.weight"], weights["encoder.bias"])
        self.code = Stacked(weights["code.weight"], weights["code.bias"])
        self.decoder = Stacked(weights["decoder.weight"], weights["decoder.bias"])
        self.output = Stacked(weights["output.weight"], weights["output.bias"])
        self.bounded = decoder == "sigmoid"

    def __len__(self) -> int:
        return len(self.output.bias)

    def encode(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """The mean of each row's code and the logarithm of its variance."""
        mean, logvar = self.code(self.encoder(features).tanh()).chunk(2, dim=2)
        return mean, logvar

    def decode(self, codes: Tensor) -> Tensor:
        """Rows of features."""
        rows = self.output(self.decoder(codes).tanh())
        return rows.sigmoid() if self.bounded else rows

    def forward(self, features: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Features rebuilt, and mean and log-variance of their code; without noise they are rebuilt from its mean."""
        mean, logvar = self.encode(features)
        codes = mean if noise is None else mean + noise * (logvar / 2).exp()
        return self.decode(codes), mean, logvar


def divergence(mean: Tensor, logvar: Tensor, other_mean: Tensor, other_logvar: Tensor) -> Tensor:
    """KL(N(mean, exp(logvar)) || N(other_mean, exp(other_logvar))), summed over the last dimension.

    >>> zeros = torch.zeros(1, 2)
    >>> divergence(torch.tensor([[3.0, 1.0]]), zeros, zeros, zeros)  # (9 + 1) / 2
    tensor([5.])
    """
    distance = (mean - other_mean).square()
    ratio = (logvar.exp() + distance) / other_logvar.exp()
    return 0.5 * (other_logvar - logvar + ratio - 1).sum(dim=-1)


def vae_loss(features: Tensor, rebuilt: Tensor, mean: Tensor, logvar: Tensor) -> Tensor:
    """Of each row: its squared error, and half the divergence of its code from N(0, 1)."""
    error = (features - rebuilt).square().sum(dim=-1)
    zeros = torch.zeros_like(mean)
    return error + 0.5 * divergence(mean, logvar, zeros, zeros)


class ClassLosses(L.LightningModule):
    """The sum of the losses of all VAEs: none of them depends on the parameters of another.

    Classes come sorted by the length of their training. Those that are through leave the batch, and the optimizer.
    """

    def __init__(self, vaes: VAEs, optimizer: OptimizerFactory, lr: float):
        super().__init__()
        self.vaes = vaes
        self.optimizer = optimizer
        self.lr = lr

    def configure_optimizers(self) -> Optimizer:
        """A fresh one. ``weights`` remain those of all classes, also when some have left."""
        self.weights = {name: value.detach() for name, value in self.vaes.named_parameters()}
        self.stepping = self.optimizer(self.vaes.parameters(), lr=self.lr)
        return self.stepping

    def training_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> Tensor:
        """The loss of one batch of each class; ``shares`` are 0 where a batch is shorter than others."""
        shares, noise, features, codes, pulls = batch
        if len(features) < len(self.vaes):
            self.go_on_with(len(features))
        rebuilt, mean, logvar = self.vaes(features, noise)
        losses = vae_loss(features, rebuilt, mean, logvar)
        losses = losses + pulls * divergence(mean, logvar, *codes.chunk(2, dim=2))
        return (shares * losses).sum()

    def go_on_with(self, classes: int) -> None:
        """The first so many classes, whose parameters and moments stay where they are in memory."""
        state = self.stepping.state
        for layer in self.vaes.children():
            for name, old in list(layer.named_parameters()):
                new = nn.Parameter(old.detach()[:classes])
                state[new] = {key: first_of(classes, value, old) for key, value in state.pop(old, {}).items()}
                setattr(layer, name, new)
        self.stepping.param_groups[0]["params"] = list(self.vaes.parameters())


def first_of(classes: int, value: Any, parameter: Tensor) -> Any:
    """The part for so many classes of what an optimizer keeps of a parameter: all of it, if it is no such tensor."""
    if torch.is_tensor(value) and value.shape == parameter.shape:
        return value[:classes]
    return value


class Adapter(nn.Module):
    """A linear layer that is added to features and starts at zero; the sum is cut off at 0 and ``highest``, if any."""

    def __init__(self, features: int, highest: float | None):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features, features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.highest = highest

    def forward(self, features: Tensor) -> Tensor:
        """(n, features) to the same."""
        adapted = features + linear(features, self.weight, self.bias)
        return adapted if self.highest is None else adapted.clamp(0, self.highest)


class LookAhead(L.LightningModule):
    """The cross-entropy of a head on adapted features; both learn."""

    def __init__(self, adapter: Adapter, head: nn.Linear, optimizer: OptimizerFactory):
        super().__init__()
        self.adapter = adapter
        self.head = head
        self.optimizer = optimizer

    def configure_optimizers(self) -> Optimizer:
        """A fresh one."""
        return self.optimizer(self.parameters(), lr=LOOK_AHEAD_LR)

    def training_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> Tensor:
        """The loss of one batch."""
        features, labels = batch
        return cross_entropy(self.head(self.adapter(features)), labels)


class SmallestLoss(nn.Module):
    """Scores are negative losses. Classes without a VAE score one less than the lowest of the others."""

    def __init__(self, models: Models, seen: int, adapter: nn.Module, scale: float, decoder: Decoder):
        super().__init__()
        self.adapter = adapter
        self.vaes = nn.ModuleList(VAEs(weights, decoder) for weights in one_by_one(models))
        self.register_buffer("classes", models.classes)
        self.requires_grad_(False)
        self.seen = seen
        self.scale = scale

    def forward(self, inputs: Tensor) -> Tensor:
        """(n, features) to (n, seen)."""
        features = self.adapter(inputs)[None] / self.scale
        losses = [vae_loss(features, *vae(features)) for vae in self.vaes]
        known = -torch.cat([inputs.new_zeros(0, len(inputs)), *losses]).T  # (n, classes)
        lowest = known.min(dim=1, keepdim=True).values if losses else inputs.new_zeros(len(inputs), 1)
        scores = (lowest - 1).repeat(1, self.seen)
        scores[:, self.get_buffer("classes")] = known
        return scores


def one_by_one(models: Models) -> Iterator[StateDict]:
    """The weights of each VAE, as a stack of one."""
    for place in range(len(models)):
        yield {name: value[place : place + 1] for name, value in models.weights.items()}


class FedCBC:
    """The state are the global VAEs: ``hidden`` units and ``code`` numbers, of features divided by ``scale``."""

    exemplar_free = True
    needs_frozen_backbone = True
    resumes_within_tasks = True
    quick_settings = {"hidden": 16, "code": 4, "pseudo_samples": 8, "least": 2, "look_ahead_epochs": 2}

    def __init__(
        self,
        backbone: Backbone,
        fit: Fit,
        optimizer: OptimizerFactory,
        rounds: PositiveInt,
        epochs: PositiveInt,
        batch_size: PositiveInt,
        lr: PositiveFloat,
        hidden: PositiveInt,
        code: PositiveInt,
        scale: PositiveFloat,
        decoder: Decoder,
        pseudo_samples: PositiveInt,
        least: Annotated[int, Field(ge=2)],
        alpha: Annotated[float, Field(ge=0, allow_inf_nan=False)],
        fusion: Literal["distill", "average"],
        personalisation: Literal["continual", "replace"],
        look_ahead: bool,
        look_ahead_epochs: PositiveInt,
    ):
        self.fit = fit
        self.optimizer = optimizer
        self.rounds = rounds
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.code = code
        self.scale = scale
        self.decoder: Decoder = decoder
        self.pseudo_samples = pseudo_samples
        self.least = least
        self.alpha = alpha
        self.fusion = fusion
        self.personalisation = personalisation
        self.look_ahead_epochs = look_ahead_epochs
        self.needs_public_samples = self.sees_future_classes = look_ahead
        self.layers = {
            "encoder": (backbone.features, hidden),
            "code": (hidden, 2 * code),
            "decoder": (code, hidden),
            "output": (hidden, backbone.features),
        }

    def init(self) -> Knowledge:
        """No classes."""
        return Knowledge(self.no_models(), seen=0)

    def no_models(self) -> Models:
        """VAEs of no class."""
        return self.fresh(torch.zeros(0, dtype=torch.int64), seed=0)

    def fresh(self, classes: Tensor, seed: int) -> Models:
        """The same untrained VAE for each of these classes, drawn as torch draws linear layers."""
        random = torch.Generator().manual_seed(seed)
        weights = {}
        for name, (inputs, outputs) in self.layers.items():
            bound = inputs**-0.5
            weight = torch.empty(1, inputs, outputs).uniform_(-bound, bound, generator=random)
            bias = torch.empty(1, 1, outputs).uniform_(-bound, bound, generator=random)
            weights[f"{name}.weight"] = weight.repeat(len(classes), 1, 1)
            weights[f"{name}.bias"] = bias.repeat(len(classes), 1, 1)
        return Models(classes, weights)

    def learn(self, state: Knowledge, task: Task, clients: Clients) -> Iterator[Knowledge]:
        """Per round: the global VAEs of the task's classes go down, those that clients trained come back, and fuse.

        The adapter goes down before, as long as some client does not have it.
        """
        models = state.models
        adapter = state.adapter
        waiting = state.waiting
        if self.sees_future_classes and not adapter:
            adapter = self.looked_ahead(task)
            waiting = len(clients)
        present = torch.tensor(task.classes, dtype=torch.int64)
        for _ in range(task.yielded, self.rounds):
            if waiting:
                waiting -= sum(clients.everyone.map(self.keep, adapter))
            old = models.only(present)
            seed = int(torch.randint(2**31, ()))
            replies = sorted(clients.map(self.train, Round(old, seed)), key=attrgetter("client"))
            waiting = max(waiting, sum(reply.waits is not None for reply in replies))
            models = models | self.fused(old, [reply.models for reply in replies])
            yield Knowledge(models, task.seen, adapter, waiting)

    def looked_ahead(self, task: Task) -> StateDict:
        """At the server, before the first task: an adapter that has learned to tell all classes of the data apart."""
        assert task.public is not None  # as the harness knows from needs_public_samples
        inputs, labels = task.public.tensors
        classes, places = labels.unique(return_inverse=True)
        adapter = self.untrained_adapter()
        losses = LookAhead(adapter, nn.Linear(len(adapter.bias), len(classes)), self.optimizer)
        self.fit(losses, Samples(inputs, places), self.look_ahead_epochs, self.batch_size)
        return snapshot(adapter)

    def untrained_adapter(self) -> Adapter:
        """One that changes nothing, but for what the decoder cannot reach."""
        features, _ = self.layers["encoder"]
        return Adapter(features, self.scale if self.decoder == "sigmoid" else None)

    def adapter(self, weights: StateDict) -> nn.Module:
        """What features go through before they are scaled: nothing, if there are no weights."""
        if not weights:
            return nn.Identity()
        adapter = self.untrained_adapter()
        adapter.load_state_dict(weights)
        return adapter.requires_grad_(False)

    def keep(self, client: Client, adapter: StateDict) -> bool:
        """At the client: remember the adapter; whether it is new to the client."""
        new = "adapter" not in client.memory
        client.memory["adapter"] = adapter
        return new

    def train(self, client: Client, received: Round) -> Trained:
        """At the client: all classes of which it has enough samples, at once."""
        classes = (client.data.labels.bincount() >= self.least).nonzero().flatten()
        waits = self.sees_future_classes and "adapter" not in client.memory
        if waits or len(classes) == 0:
            return Trained(client.id, self.no_models(), waits=True if waits else None)
        kept = client.memory.get("models", self.no_models())
        own = kept.only(classes)
        known = received.models.only(classes)
        fresh = self.fresh(classes, received.seed)
        with threads_for(fresh.numbers):
            labels, features = self.samples(client, classes)
            if self.personalisation == "continual":
                lesson = self.lesson(labels, features, dreaming=[own | known], teaching=[known])
                trained = self.trained(fresh | known | own, lesson, seeds_for(classes))
                client.memory["models"] = kept | trained
            else:
                lesson = self.lesson(labels, features, dreaming=[known], teaching=[])
                trained = self.trained(fresh | known, lesson, seeds_for(classes))
        return Trained(client.id, trained)

    def samples(self, client: Client, classes: Tensor) -> tuple[Tensor, Tensor]:
        """Labels, and adapted and scaled features, of the client's samples of these classes."""
        inputs, labels = client.data.tensors
        chosen = torch.isin(labels, classes)
        adapter = self.adapter(client.memory.get("adapter", {}))
        return labels[chosen], adapter(inputs[chosen]) / self.scale

    def fused(self, old: Models, found: Sequence[Models]) -> Models:
        """At the server: one VAE of each class that was ``found`` at some clients."""
        classes = torch.cat([old.classes[:0], *(models.classes for models in found)]).unique()
        if self.fusion == "average":
            return mean_of(found, self.no_models(), classes)
        teachers = [old.only(classes), *found]
        first = reduce(or_, reversed(teachers))  # of each class: the global VAE, else that of the first client
        _, counts = torch.cat([models.classes for models in teachers]).unique(return_counts=True)
        several = classes[counts > 1]
        if len(several) == 0:
            return first
        chosen = [models.only(several) for models in teachers]
        lesson = self.lesson(several[:0], self.no_rows(), dreaming=chosen, teaching=chosen)
        return first | self.trained(first.only(several), lesson, seeds_for(several))

    def no_rows(self) -> Tensor:
        """Features of no sample."""
        features, _ = self.layers["encoder"]
        return torch.zeros(0, features)

    @torch.no_grad()
    def lesson(
        self, labels: Tensor, features: Tensor, dreaming: Sequence[Models], teaching: Sequence[Models]
    ) -> Lesson:
        """Samples, then pseudo-samples of all VAEs ``dreaming``; each with its mean code over the VAEs ``teaching``."""
        noise = 2 * torch.rand(self.pseudo_samples, self.code) - 1
        for models in dreaming:
            dreams = VAEs(models.weights, self.decoder).decode(noise.expand(len(models), -1, -1))
            labels = torch.cat([labels, models.classes.repeat_interleave(self.pseudo_samples)])
            features = torch.cat([features, dreams.flatten(0, 1)])
        labels, order = labels.sort(stable=True)
        features = features[order]
        codes = torch.zeros(len(labels), 2 * self.code)
        teachers = torch.zeros(len(labels))
        for models in filter(len, teaching):
            taught = torch.isin(labels, models.classes)
            codes[taught] += self.codes(models, labels[taught], features[taught])
            teachers[taught] += 1
        codes = codes / teachers.clamp(min=1)[:, None]
        return Lesson(labels, features, codes, pulls=self.alpha * (teachers > 0))

    def codes(self, models: Models, labels: Tensor, features: Tensor) -> Tensor:
        """(n, 2 code): mean and log-variance of rows that are sorted by class, some of each class of ``models``."""
        _, counts = labels.unique_consecutive(return_counts=True)
        rows = pad_sequence(features.split(counts.tolist()), batch_first=True)  # (classes, most, features)
        there = torch.arange(rows.shape[1]) < counts[:, None]
        codes = torch.cat(VAEs(models.weights, self.decoder).encode(rows), dim=2)
        return codes[there]

    def trained(self, start: Models, lesson: Lesson, seeds: Sequence[int]) -> Models:
        """These VAEs after their training, each with batches and noise from a seed of its own."""
        _, counts = lesson.labels.unique_consecutive(return_counts=True)
        order = counts.argsort(descending=True, stable=True)  # by the length of the training
        positions = torch.arange(len(lesson.labels)).split(counts.tolist())
        courses = [self.course(positions[place], seeds[place]) for place in order.tolist()]
        vaes = VAEs({name: value[order] for name, value in start.weights.items()}, self.decoder)
        losses = ClassLosses(vaes, self.optimizer, self.lr)
        self.fit.over(losses, batches(side_by_side(courses), lesson, self.fit.device))
        back = order.argsort()
        return Models(start.classes, {name: value.cpu()[back] for name, value in losses.weights.items()})

    def course(self, positions: Tensor, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Of one class: positions of rows and noise for their codes, batch by batch, in a new order every epoch."""
        random = torch.Generator().manual_seed(seed)
        for _ in range(self.epochs):
            shuffled = positions[torch.randperm(len(positions), generator=random)]
            for batch in shuffled.split(self.batch_size):
                yield batch, torch.randn(len(batch), self.code, generator=random)

    def classifier(self, state: Knowledge) -> nn.Module:
        """The smallest loss of all global VAEs."""
        adapter = self.adapter(state.adapter)
        classifier = SmallestLoss(state.models, state.seen, adapter, self.scale, self.decoder)
        return classifier.to(self.fit.device).eval()


def seeds_for(classes: Tensor) -> list[int]:
    """A random number for each class."""
    return torch.randint(2**62, (len(classes),)).tolist()


def side_by_side(courses: Sequence[Iterator[tuple[Tensor, Tensor]]]) -> Iterator[tuple[Tensor, Tensor]]:
    """The next batch of every course that goes on: positions (courses, most), -1 beyond the end of a batch; noise."""
    while batches := [batch for course in courses if (batch := next(course, None))]:
        positions, noise = map(list, zip(*batches, strict=True))
        yield pad_sequence(positions, batch_first=True, padding_value=-1), pad_sequence(noise, batch_first=True)


def batches(
    plan: Iterator[tuple[Tensor, Tensor]], lesson: Lesson, device: torch.device
) -> Iterator[tuple[Tensor, ...]]:
    """For :class:`ClassLosses`: the share of each row in the loss of its class, noise, and the rows themselves."""
    features = lesson.features.to(device)
    codes = lesson.codes.to(device)
    pulls = lesson.pulls.to(device)
    for positions, noise in plan:
        there = positions >= 0
        shares = there / there.sum(dim=1, keepdim=True)
        rows = positions.clamp(min=0).to(device)
        yield shares.to(device), noise.to(device), features[rows], codes[rows], pulls[rows]


def mean_of(found: Sequence[Models], nothing: Models, classes: Tensor) -> Models:
    """Of each class, the mean of the VAEs that were found."""
    holders = torch.zeros(len(classes), 1, 1)
    totals = {name: value.new_zeros(len(classes), *value.shape[1:]) for name, value in nothing.weights.items()}
    for models in found:
        places = torch.searchsorted(classes, models.classes)
        holders[places] += 1
        for name, value in models.weights.items():
            totals[name][places] += value
    return Models(classes, {name: total / holders for name, total in totals.items()})
