"""TARGET: a generator at the server makes up samples of old classes, and clients imitate the old model on these.

Paper: Zhang et al., "TARGET: Federated Class-Continual Learning via Exemplar-Free Distillation", ICCV 2023.

Followed: between two tasks the server synthesises samples of all classes seen so far, without data, by the recipe of
Fast-DFKD: in each round a copy of the generator and a batch of latents learn for ``generator_steps`` steps to fit the
statistics that the teacher's BatchNorm remembers, to be classified as asked for and, after a warm-up, to tell teacher
and student apart; the best batch is stored, the generator takes a step along the gradients of its copy (first-order
MAML), and the student is distilled on what is stored. Teacher and samples go to the clients once per task. Local loss =
cross-entropy of real batches + ``distillation`` x soft cross-entropy with the teacher at temperature 2 over the old
classes, on synthetic batches, without a factor T^2. End to end the generator makes images, and the backbone must have
BatchNorm. ``agreement: agree`` is the released mask of the adversarial term, ``disagree`` the paper's.
Deviates: where clients hold features, the generator (latent and class to features) works in feature space. There is no
BatchNorm there, so clients report, after the last round of a task, how many samples of each class they hold, their sum
and the sum of their squares; the server adds up over clients and tasks. The generator moves in units of each class's
own spread about its mean, and the statistics loss is the mean squared gap of both moments per class; the student is a
linear head on standardised features. A client with a single sample of a class tells that sample by its sum. Samples are
made when the next task begins, which is the same as at the end of a task, except that none are made in vain after the
last. Labels are dealt evenly and rounds are added until there are ``synthetic`` samples. The student learns by Adam;
images are not augmented while they are made. Synthetic batches cycle, clients count by samples. ``variant:
target_repo`` has the released constants: 10 rounds of synthesis but a warm-up of 20, so no student and no adversarial
term, 2560 samples, an epoch that ends with the shorter of real and synthetic batches, and a plain mean over clients. In
a blurry stream old classes return: ``distil: known`` (default) sends the samples of all old classes, ``distil: absent``
those of classes that the task does not have; on disjoint streams the two are the same. A client that was absent when
samples were sent goes on with those it has, or without.
Chosen on held-out training samples of frozen features, with one stream: with ``dataset=cifar100 protocol=frozen_v1
stream.tasks=10`` 47.3 % with absent and weight 1, with known 52.0 % at weight 1 and 53.3 % at weight 4 (Finetune 46.2
%). On digits the teacher does not help: Finetune 71.1 %, and TARGET 71.1, 70.0, 64.5 and 66.6 % at weights 0.5, 1, 2
and 4. A guess at why: the first teachers know most classes from two or three samples, and imitation holds later tasks
to that. So the weight is 1 on features. ``python -m fcl_bench tune method=target ~method.search
method.search.distil.choices=[known,absent] method.search.distillation.choices=[0.5,1,2,4]`` tries such values again.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from math import ceil
from typing import Annotated, Literal, Unpack

import torch
from lightning import LightningModule
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Adam, Optimizer

from fcl_bench import (
    Backbone,
    ClassSums,
    Client,
    Clients,
    ConfigError,
    Distillation,
    FederatedAveraging,
    Kind,
    Labels,
    Range,
    Round,
    Samples,
    Shape,
    StateDict,
    Task,
    Total,
    Training,
    Update,
    columns_at_client,
    log_frequencies,
    outputs,
    shuffled,
    snapshot,
)

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
LATENT = 256  # numbers that the generator makes a sample of
BETAS = (0.5, 0.999)  # of Adam, for generators and latents
SMOOTHING = 0.9  # share of earlier rounds in the statistics of a batch of images
PER_CLASS = 16  # features of a class in a batch, at least: enough to have moments


class Settings(Training):
    """``synthetic`` samples at least are made in ``synthesis_rounds`` batches or more.

    ``distillation`` weighs the teacher at ``temperature`` in local training, ``synthetic_batch`` samples at a time.
    Without one it is 25 as published for images, and 1 for features, on whose scale 25 makes steps too large.
    ``one_hot``, ``adversarial`` and ``statistics`` weigh the terms of the generator's loss.
    """

    variant: Literal["corrected", "target_repo"]
    agreement: Literal["agree", "disagree"]
    distil: Literal["absent", "known"]
    distillation: Weight | None
    temperature: PositiveFloat
    synthetic: PositiveInt
    synthetic_batch: PositiveInt
    synthesis_rounds: PositiveInt
    synthesis_batch: Annotated[int, Field(ge=2)]
    generator_steps: PositiveInt
    warm_up: NonNegativeInt
    lr_generator: PositiveFloat
    lr_latent: PositiveFloat
    one_hot: Weight
    adversarial: Weight
    statistics: Weight
    student_steps: PositiveInt
    student_temperature: PositiveFloat
    lr_student: PositiveFloat


RELEASED = {"synthetic": 2560, "synthesis_rounds": 10, "synthesis_batch": 256, "warm_up": 20}


@dataclass(frozen=True)
class Moments:
    """Of the features of some classes: how many there are, their sum and the sum of their squares, a row per class."""

    classes: Annotated[Tensor, Shape("n"), Kind(torch.int64), Labels(distinct=True)]
    counts: Annotated[Tensor, Shape("n"), Kind(torch.int64), Range(1), Total("samples")]
    totals: Annotated[Tensor, Shape("n", "features"), Kind(torch.float64)]
    squares: Annotated[Tensor, Shape("n", "features"), Kind(torch.float64), Range(0)]

    def __add__(self, other: "Moments") -> "Moments":
        return summed(
            torch.cat([self.classes, other.classes]),
            torch.cat([self.counts, other.counts]),
            torch.cat([self.totals, other.totals]),
            torch.cat([self.squares, other.squares]),
        )

    def centre_and_spread(self) -> tuple[Tensor, Tensor]:
        """Means and standard deviations, a row per class."""
        means = self.totals / self.counts[:, None]
        variances = self.squares / self.counts[:, None] - means.square()
        return means, variances.clamp(min=0).sqrt()


def summed(labels: Tensor, counts: Tensor, totals: Tensor, squares: Tensor) -> Moments:
    """Rows of equal labels become one.

    >>> summed(torch.tensor([4, 4]), torch.ones(2), torch.ones(2, 1), torch.ones(2, 1)).totals
    tensor([[2.]])
    """
    classes, places = labels.unique(return_inverse=True)
    rows = len(classes)
    return Moments(
        classes,
        counts.new_zeros(rows).index_add_(0, places, counts),
        totals.new_zeros(rows, totals.shape[1]).index_add_(0, places, totals),
        squares.new_zeros(rows, squares.shape[1]).index_add_(0, places, squares),
    )


def moments_of(features: Tensor, labels: Tensor) -> Moments:
    """The sums of some samples, in float64."""
    precise = features.double()
    return summed(labels, torch.ones_like(labels), precise, precise.square())


@dataclass(frozen=True)
class Global:
    """The state: the global model and, where clients hold features, the moments of all they have reported."""

    weights: StateDict
    moments: Moments


@dataclass(frozen=True)
class Lesson:
    """What clients keep during a task."""

    teacher: StateDict
    synthetic: Tensor  # (samples, ...), as clients hold samples


class ImageGenerator(nn.Module):
    """From latents to images between ``low`` and ``high``; labels are for the loss only."""

    def __init__(self, backbone: Backbone):
        super().__init__()
        images = backbone.inputs
        colours, height, width = images.shape
        self.low = images.low or 0.0
        self.range = (images.high or 1.0) - self.low
        small = (max(1, height // 4), max(1, width // 4))
        middle = (2 * small[0], 2 * small[1])
        self.layers = nn.Sequential(
            nn.Linear(LATENT, 128 * small[0] * small[1]),
            nn.Unflatten(1, (128, *small)),
            nn.BatchNorm2d(128),
            nn.Upsample(middle),
            nn.Conv2d(128, 128, 3, padding=1),
            nn.BatchNorm2d(128),
            nn.LeakyReLU(0.2),
            nn.Upsample((height, width)),
            nn.Conv2d(128, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.LeakyReLU(0.2),
            nn.Conv2d(64, colours, 3, padding=1),
            nn.Sigmoid(),
        )

    def forward(self, latent: Tensor, labels: Tensor) -> Tensor:
        """(n, latent) to (n, colours, height, width), floats."""
        return self.low + self.range * self.layers(latent)


class FeatureGenerator(nn.Module):
    """From latents and classes to features, in units of the ``spread`` of each class about its ``centre``."""

    centre: Tensor  # (classes, features)
    spread: Tensor  # (classes, features)

    def __init__(self, centre: Tensor, spread: Tensor):
        super().__init__()
        classes, features = centre.shape
        self.register_buffer("centre", centre)
        self.register_buffer("spread", spread)
        self.embedding = nn.Embedding(classes, LATENT)
        self.layers = nn.Sequential(
            nn.Linear(LATENT, LATENT),
            nn.BatchNorm1d(LATENT),
            nn.LeakyReLU(0.2),
            nn.Linear(LATENT, features),
            nn.BatchNorm1d(features),
        )

    def forward(self, latent: Tensor, labels: Tensor) -> Tensor:
        """(n, latent) and (n,) to (n, features)."""
        deviations = self.layers(latent + self.embedding(labels))
        return self.centre[labels] + self.spread[labels] * deviations


class BatchNormStatistics(nn.Module):
    """How far a batch is from the data that a network's BatchNorm remembers.

    The sum over its layers of the distances of means and of variances. Those of the batch are smoothed by those of the
    rounds before.
    """

    def __init__(self, network: nn.Module):
        super().__init__()
        self.earlier: dict[int, Tensor] = {}  # by layer: (2, channels), variances and means
        self.latest: dict[int, Tensor] = {}
        self.gaps: dict[int, Tensor] = {}
        for number, layer in enumerate(batch_norms(network)):
            layer.register_forward_pre_hook(partial(self.look, number))

    def look(self, number: int, layer: _BatchNorm, inputs: tuple[Tensor]) -> None:
        """Called by a layer that the batch has reached."""
        channels = inputs[0].transpose(0, 1).flatten(1)  # (channels, values)
        now = torch.stack(torch.var_mean(channels, dim=1, correction=0))
        self.latest[number] = now.detach()
        if number in self.earlier:
            now = SMOOTHING * self.earlier[number] + (1 - SMOOTHING) * now
        remembered = torch.stack([layer.running_var, layer.running_mean])  # type: ignore[list-item]
        self.gaps[number] = (now - remembered).norm(dim=1).sum()

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Of the batch that the network has seen last."""
        return torch.stack(list(self.gaps.values())).sum()

    def end_round(self) -> None:
        """Let the latest batch join the earlier ones."""
        for number, now in self.latest.items():
            before = self.earlier.get(number, now)
            self.earlier[number] = SMOOTHING * before + (1 - SMOOTHING) * now


class ClassStatistics(nn.Module):
    """The mean squared gap between the moments of each class in a batch and those that clients have reported.

    A unit is the ``overall`` spread of a feature.
    """

    centre: Tensor  # (classes, features)
    spread: Tensor  # (classes, features)
    overall: Tensor  # (features,)

    def __init__(self, centre: Tensor, spread: Tensor, overall: Tensor):
        super().__init__()
        self.register_buffer("centre", centre)
        self.register_buffer("spread", spread)
        self.register_buffer("overall", overall.clamp(min=1e-6))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Of one batch."""
        off = (features - self.centre[labels]) / self.overall  # (n, features)
        classes, places = labels.unique(return_inverse=True)
        counts = places.bincount()[:, None]
        nothing = off.new_zeros(len(classes), off.shape[1])
        means = nothing.index_add(0, places, off) / counts  # (classes in the batch, features)
        squares = nothing.index_add(0, places, off.square()) / counts
        wanted = (self.spread[classes] / self.overall).square()
        return means.square().mean() + (squares - means.square() - wanted).square().mean()

    def end_round(self) -> None:
        """Each batch is compared by itself."""


def divergence(taught: Tensor, logits: Tensor, temperature: float = 1.0) -> Tensor:
    """KL(teacher || student) of every sample, (n,).

    >>> divergence(torch.tensor([[9.0, -9.0]]), torch.zeros(1, 2))  # log 2: the student sees two equal classes
    tensor([0.6931])
    """
    wanted = (taught / temperature).log_softmax(dim=1)
    given = (logits / temperature).log_softmax(dim=1)
    return kl_div(given, wanted, reduction="none", log_target=True).sum(dim=1)


class Synthesis(LightningModule):
    """Rounds in which a copy of the generator and its latents learn to deceive; a step has a batch of labels."""

    def __init__(
        self,
        generator: nn.Module,
        statistics: BatchNormStatistics | ClassStatistics,
        teacher: nn.Module,
        student: nn.Module,
        settings: Settings,
    ):
        super().__init__()
        self.generator = generator
        self.copy = deepcopy(generator)
        self.latent = nn.Parameter(torch.empty(settings["synthesis_batch"], LATENT))
        self.statistics = statistics
        self.teacher = teacher.requires_grad_(False)
        self.student = student
        self.settings = settings
        self.adversarial = False
        rate = settings["lr_generator"] * settings["generator_steps"]
        self.meta = Adam(generator.parameters(), lr=rate, betas=BETAS)
        for own, its in zip(generator.parameters(), self.copy.parameters(), strict=True):
            its.register_post_accumulate_grad_hook(partial(add_gradient, own))

    def train(self, mode: bool = True) -> "Synthesis":
        """Teacher and student always predict as in evaluation."""
        super().train(mode)
        self.teacher.eval()
        self.student.eval()
        return self

    def begin_round(self, adversarial: bool) -> None:
        """A new copy and new latents; ``adversarial`` says whether teacher and student shall be told apart."""
        self.adversarial = adversarial
        self.copy.load_state_dict(self.generator.state_dict())
        nn.init.normal_(self.latent)
        self.lowest = torch.inf
        self.best = torch.empty(0)

    def training_step(self, batch: tuple[Tensor], batch_idx: int) -> Tensor:
        """The loss of the latents, which shall become samples of these labels."""
        (labels,) = batch
        samples = self.copy(self.latent, labels)
        loss = self.loss(samples, labels)
        if len(self.best) == 0 or loss.item() < self.lowest:
            self.lowest = loss.item()
            self.best = samples.detach()
        return loss

    def loss(self, samples: Tensor, labels: Tensor) -> Tensor:
        """How little samples are like the data of the teacher; less where teacher and student differ."""
        taught = self.teacher(samples)
        loss = self.settings["one_hot"] * cross_entropy(taught, labels)
        loss = loss + self.settings["statistics"] * self.statistics(samples, labels)
        if not self.adversarial:
            return loss
        logits = self.student(samples)
        agreeing = taught.argmax(dim=1) == logits.argmax(dim=1)
        counted = agreeing if self.settings["agreement"] == "agree" else ~agreeing
        return loss - self.settings["adversarial"] * (divergence(taught, logits) * counted).mean()

    def end_round(self) -> Tensor:
        """Update the generator; the best samples, on the CPU."""
        self.meta.step()
        self.meta.zero_grad()
        self.statistics.end_round()
        return self.best.cpu()

    def configure_optimizers(self) -> Optimizer:
        """Of the copy and the latents, for one round."""
        copy = {"params": self.copy.parameters(), "lr": self.settings["lr_generator"]}
        latent = {"params": [self.latent], "lr": self.settings["lr_latent"]}
        return Adam([copy, latent], betas=BETAS)


def add_gradient(own: Tensor, its: Tensor) -> None:
    """To the gradient of the generator, that of its copy."""
    assert its.grad is not None
    own.grad = its.grad.clone() if own.grad is None else own.grad + its.grad


class Student(LightningModule):
    """Learns the teacher's logits; a step has a batch of samples and what is taught about them."""

    def __init__(self, network: nn.Module, settings: Settings):
        super().__init__()
        self.network = network
        self.lr = settings["lr_student"]
        self.temperature = settings["student_temperature"]

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """The divergence of one batch."""
        samples, taught = batch
        return self.temperature**2 * divergence(taught, self.network(samples), self.temperature).mean()

    def configure_optimizers(self) -> Optimizer:
        """A fresh one in every round."""
        return Adam(self.network.parameters(), lr=self.lr)


class Rehearsal(Distillation):
    """Cross-entropy of real samples, and distillation on synthetic ones that may follow them in a batch."""

    def training_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> Tensor:
        """The loss of one batch."""
        inputs, labels, *synthetic = batch
        loss = self.cross_entropy(self.network(inputs), labels)
        for samples in synthetic:
            shown = self.network.augment(samples)
            loss = loss + self.distilled(self.network(shown, augmented=True), self.advice(shown))
        return loss


class TARGET:
    """See :class:`Settings`; the state is the global model with the moments of features."""

    exemplar_free = True
    resumes_within_tasks = True
    quick_settings = {
        "synthetic": 40,
        "synthesis_rounds": 3,
        "synthesis_batch": 16,
        "generator_steps": 2,
        "warm_up": 1,
        "student_steps": 2,
    }

    def __init__(self, backbone: Backbone, **settings: Unpack[Settings]):
        if settings["variant"] == "target_repo":
            settings |= RELEASED  # type: ignore[typeddict-item]
        self.settings = settings
        self.backbone = backbone
        self.features = backbone.inputs.shape[0]
        self.makes_images = len(backbone.inputs.shape) > 1
        self.averaging = FederatedAveraging(
            backbone,
            settings,
            Rehearsal,
            weight=self.distillation_weight(),
            temperature=settings["temperature"],
        )
        if self.makes_images:
            refuse_without_batch_norm(self.averaging.loss.network.backbone)

    def distillation_weight(self) -> float:
        """The one that is set, or else the one that suits what clients hold."""
        weight = self.settings["distillation"]
        if weight is not None:
            return weight
        return 25.0 if self.makes_images else 1.0

    def init(self) -> Global:
        """The backbone's own weights, a head without rows, no moments."""
        none = torch.zeros(0, self.backbone.inputs.shape[0])
        return Global(self.averaging.start, moments_of(none, torch.zeros(0, dtype=torch.int64)))

    def learn(self, state: Global, task: Task, clients: Clients) -> Iterator[Global]:
        """Make up samples of what was learned, average round after round, then ask for moments of features."""
        if len(state.weights["head.bias"]) and not task.yielded:
            made = self.synthesise(state)
            clients.everyone.tell(self.keep, Lesson(state.weights, self.rehearsed(made, task)))
            clients.note(recognised=self.recognised(state, made))
        for weights in self.averaging.learn(state.weights, task, clients, self.train):
            state = Global(weights, state.moments)
            yield state
        if self.makes_images or task.yielded > self.averaging.rounds:
            return
        yield Global(state.weights, sum(clients.everyone.map(self.report), start=state.moments))

    def synthesise(self, state: Global) -> Samples:
        """At the server: samples of all classes seen so far."""
        settings = self.settings
        synthesis = self.synthesis(state)
        student = Student(synthesis.student, settings)
        labels = self.deal(len(state.weights["head.bias"]))
        made: list[Tensor] = []
        taught: list[Tensor] = []
        for number, wanted in enumerate(labels):
            synthesis.begin_round(adversarial=number >= settings["warm_up"])
            settings["fit"].over(synthesis, [(wanted,)] * settings["generator_steps"])
            made.append(self.stored(synthesis.end_round()))
            taught.append(outputs(synthesis.teacher, made[-1]))
            if number + 1 >= settings["warm_up"]:
                batches = drawn(torch.cat(made), torch.cat(taught), settings)
                settings["fit"].over(student, batches)
        return Samples(torch.cat(made), labels.flatten())

    def synthesis(self, state: Global) -> Synthesis:
        """What makes samples for a state."""
        teacher = self.averaging.classifier(state.weights)
        if self.makes_images:
            student: nn.Module = reinitialised(self.averaging.loss.network.loaded(state.weights))
            images = ImageGenerator(self.backbone)
            return Synthesis(images, BatchNormStatistics(teacher), teacher, student, self.settings)
        classes, features = state.weights["head.weight"].shape
        student = nn.Sequential(nn.BatchNorm1d(features, affine=False), nn.Linear(features, classes))
        centre, spread, overall = known_moments(state.moments, classes)
        generator = FeatureGenerator(centre, spread)
        return Synthesis(generator, ClassStatistics(centre, spread, overall), teacher, student, self.settings)

    def deal(self, classes: int) -> Tensor:
        """The labels of every batch, (rounds, batch).

        A batch of images has all classes, as BatchNorm remembers all of them together; one of features has some.
        """
        batch = self.settings["synthesis_batch"]
        at_once = min(classes, batch if self.makes_images else max(1, batch // PER_CLASS))
        rounds = self.settings["synthesis_rounds"]
        if self.settings["variant"] == "corrected":
            rounds = max(rounds, ceil(self.settings["synthetic"] / batch), ceil(classes / at_once))
        turns = [torch.randperm(classes) for _ in range(ceil(rounds * at_once / classes))]
        some = torch.cat(turns)[: rounds * at_once].view(rounds, at_once)
        return some.repeat(1, ceil(batch / at_once))[:, :batch]

    def stored(self, samples: Tensor) -> Tensor:
        """As clients hold samples: images in whole grey levels."""
        whole = samples.round() if self.makes_images else samples
        return whole.to(self.backbone.inputs.dtype)

    def rehearsed(self, made: Samples, task: Task) -> Tensor:
        """The samples to imitate the teacher on: all, or only those of classes that the task does not have."""
        if self.settings["distil"] == "known":
            return made.inputs
        present = torch.tensor(task.classes, dtype=torch.int64)
        return made.inputs[~torch.isin(made.labels, present)]

    def recognised(self, state: Global, made: Samples) -> float:
        """The share of samples that the teacher takes for what they shall be."""
        predicted = outputs(self.averaging.classifier(state.weights), made.inputs).argmax(dim=1)
        return float((predicted == made.labels).float().mean())

    def keep(self, client: Client, lesson: Lesson) -> None:
        """At the client: remember the model of the task before, and the samples made with it."""
        client.memory.update(vars(lesson))

    def train(self, client: Client, received: Round) -> Update:
        """At the client: learn from real samples, imitate the teacher on synthetic ones."""
        loss = self.averaging.loss
        lesson = Lesson(**client.memory) if client.memory else None
        if lesson is not None:
            loss.load_teacher(lesson.teacher)
        columns = columns_at_client(received.columns, client.data.labels)
        prior = log_frequencies(client.data.labels, columns, self.settings["logit_adjustment"])
        loss.assign(lr=received.lr, columns=columns, prior=prior)
        loss.network.load_state_dict(received.weights)
        if len(client.data):
            self.settings["fit"].over(loss, self.batches(client, lesson))
        update = Update(snapshot(loss.network), len(client.data))
        if self.settings["variant"] == "target_repo":
            return update.counted_once()
        return update

    def batches(self, client: Client, lesson: Lesson | None) -> Iterable[tuple[Tensor, ...]]:
        """What a client trains on in a round: inputs, labels and, if there is a lesson, synthetic samples."""
        epochs = self.settings["epochs"]
        real = partial(shuffled, client.data, batch_size=self.settings["batch_size"])
        if lesson is None or len(lesson.synthetic) == 0:
            return real(epochs=epochs)
        made = partial(one_pass, lesson.synthetic, self.settings["synthetic_batch"])
        if self.settings["variant"] == "corrected":
            return paired(real(epochs=epochs), chain.from_iterable(made() for _ in count()))
        return chain.from_iterable(paired(real(epochs=1), made()) for _ in range(epochs))

    def report(self, client: Client) -> Moments:
        """At the client: the moments of the features it holds."""
        return moments_of(*client.data.tensors)

    def class_sums(self, reply: Update | Moments) -> ClassSums | None:
        """Those of the moments that clients report after the last round, on features."""
        if isinstance(reply, Update):
            return None
        classes = int(reply.classes[-1]) + 1 if len(reply.classes) else 0  # they are ascending
        sums = reply.totals.new_zeros(classes, reply.totals.shape[1])
        sums[reply.classes] = reply.totals
        return ClassSums(sums, resolution=0.0)

    def classifier(self, state: Global) -> nn.Module:
        """The global model."""
        return self.averaging.classifier(state.weights)


def batch_norms(network: nn.Module) -> list[_BatchNorm]:
    """The layers that remember statistics of the data."""
    return [layer for layer in network.modules() if isinstance(layer, _BatchNorm)]


def refuse_without_batch_norm(backbone: nn.Module) -> None:
    """Raise a :class:`ConfigError` for a network that images cannot be made for; an identity stands for any network."""
    if isinstance(backbone, nn.Identity) or batch_norms(backbone):
        return
    raise ConfigError(
        "method=target makes images by the statistics that BatchNorm remembers, but this backbone has no BatchNorm: "
        "set backbone.norm=bn and a network that has it, or let clients hold features (backbone.trainable=false)."
    )


def known_moments(moments: Moments, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and spread of the features of every class, and the spread of all features together.

    A class that nobody has reported has the mean of all, one of a single sample the spread of all.
    """
    features = moments.totals.shape[1]
    mean = torch.zeros(1, features, dtype=torch.float64)
    overall = torch.ones(1, features, dtype=torch.float64)
    if len(moments.classes):
        everything = summed(torch.zeros_like(moments.classes), moments.counts, moments.totals, moments.squares)
        mean, overall = everything.centre_and_spread()
    centre = mean.repeat(classes, 1)
    spread = overall.repeat(classes, 1)
    means, spreads = moments.centre_and_spread()
    several = moments.counts > 1
    centre[moments.classes] = means
    spread[moments.classes[several]] = spreads[several]
    return centre.float(), spread.float(), overall[0].float()


@torch.no_grad()
def reinitialised(network: nn.Module) -> nn.Module:
    """In place: random weights in all layers that can be trained."""
    for layer in network.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)) and layer.weight.requires_grad:
            nn.init.xavier_normal_(layer.weight)
            if layer.bias is not None:
                nn.init.normal_(layer.bias)
        elif isinstance(layer, _BatchNorm) and layer.weight.requires_grad:
            layer.reset_parameters()
            nn.init.normal_(layer.weight, 1.0, 0.02)
    return network


def drawn(samples: Tensor, taught: Tensor, settings: Settings) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of the student in a round: each sample is drawn independently of the others."""
    for _ in range(settings["student_steps"]):
        positions = torch.randint(len(samples), (settings["synthesis_batch"],))
        yield samples[positions], taught[positions]


def one_pass(rows: Tensor, size: int) -> Iterator[Tensor]:
    """Every row once, in random order, in batches of nearly equal and at most this size.

    >>> [len(batch) for batch in one_pass(torch.zeros(10, 3), 4)]
    [4, 3, 3]
    """
    for positions in torch.randperm(len(rows)).tensor_split(ceil(len(rows) / size)):
        yield rows[positions]


def paired(real: Iterable[tuple[Tensor, ...]], made: Iterable[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """Real batches, each with a synthetic one, until either is used up."""
    for batch, samples in zip(real, made, strict=False):
        yield *batch, samples
