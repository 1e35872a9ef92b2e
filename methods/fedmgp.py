"""FedMGP: prompts of two granularities on a frozen backbone. One for all clients, and a private one for each class.

Paper: Yu et al., "Personalized Federated Continual Learning via Multi-Granularity Prompt", KDD 2024.

Followed: in a round a client trains first the coarse global prompt, its key and the global head, then, with these fixed
and acting, its own fine prompts, one with a key for each class, and its local head. The loss of both stages is the
cross-entropy over the client's classes of the task (``ce_scope: local``) - ``pull`` x the cosine of query and key. A
query is the frozen feature in the first stage, the globally prompted one in the second; the fine prompt is that of the
true class in training, and that of the nearest key in a test. Heads are features-512-ReLU-classes. Learning rate
0.001875, weight decay 0.001, gradients clipped to norm 1, 5 rounds x 5 epochs of each stage; batches of 16 under
``budget=published``. Only the global prompt, its key and the global head leave a client. ``place: tokens`` is the
paper's: 15 tokens before the first block, of which the head reads the mean output, and key and value prefixes of length
15 in blocks 2, 3 and 4 (read as from 0).
Deviates: the headline is the global model over all classes seen, without the mask of a task. Beside it, the personal
classifier of each client is scored; it knows the classes that its client has held or, with ``task_mask``, those of its
latest task only: the published mask, but there each test sample comes with its task, and here all classes that the
client has held are tested, so those of earlier tasks are lost. A client has one local head, not one for each task. A
fine prompt is chosen for each sample, not by vote of a batch. Images are not augmented. ``place: stages`` (offsets to
each channel at the inputs of the stages behind the first) and ``place: features`` (offsets to the features) are
adaptations to convolutional networks and to cached features; offsets begin at 0. ``fusion: avg`` is the mean weighted
by samples. The optimizer is AdamW: Adam as published takes weight decay for a gradient and so pulls the head's rows of
classes that a client does not have to 0. With AdamW held-out training samples of digits were 73.9 % right, with Adam
20.9 %, and 71.1 % by Finetune; ``python -m fcl_bench tune method=fedmgp --trials 3 ~method.search
method.search.optimizer._target_.choices=[torch.optim.AdamW,torch.optim.Adam]`` tries both again. ``fusion: distill``
follows the published code: the mean prompt learns to give the features that the clients' prompts give, then the mean
head learns the labels; but on reserved training samples, not on test samples, and on the features, not on all tokens.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import lightning as L
import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy, normalize
from torch.optim import Optimizer

from fcl_bench import (
    Backbone,
    Client,
    Clients,
    ConfigError,
    Fit,
    Head,
    OptimizerFactory,
    Round,
    Scope,
    StateDict,
    Task,
    Update,
    columns_at_client,
    columns_for_all,
    grown,
    log_frequencies,
    masked_targets,
    snapshot,
    weighted_mean,
)

Shape = tuple[int, ...]


class Place(nn.Module):
    """Where prompts act, on the way from inputs as clients hold them to features.

    A place is called with inputs alone, with the ``coarse`` prompt for all of them (1, ...), or with it and a ``fine``
    prompt for each of them (n, ...). Prompts begin uniform between ``-spread`` and ``spread``.
    """

    def __init__(self, coarse: Shape, fine: Shape, spread: float):
        super().__init__()
        self.coarse = coarse
        self.fine = fine
        self.spread = spread


class OnFeatures(Place):
    """Clients hold features, and prompts are added to them."""

    def __init__(self, features: int):
        super().__init__((features,), (features,), spread=0.0)

    def forward(self, features: Tensor, coarse: Tensor | None = None, fine: Tensor | None = None) -> Tensor:
        """(n, features) to the same shape."""
        if coarse is not None:
            features = features + coarse
        return features if fine is None else features + fine


class OnStages(Place):
    """Prompts are added to each channel at the inputs of a convolutional network's stages, but the first."""

    def __init__(self, backbone: Backbone, network: nn.Module):
        image = torch.zeros(1, *backbone.inputs.shape, dtype=backbone.inputs.dtype)
        channels = channels_of(network, image)
        super().__init__((sum(channels),), (sum(channels),), spread=0.0)
        self.network = network
        self.channels = channels

    def forward(self, images: Tensor, coarse: Tensor | None = None, fine: Tensor | None = None) -> Tensor:
        """(n, 3, height, width) to (n, features)."""
        if coarse is None:
            return self.network(images)
        offsets = coarse if fine is None else coarse + fine  # (1 or n, channels of all stages)
        with ExitStack() as hooks:
            for stage, offset in zip(stages_in(self.network), offsets.split(self.channels, dim=1), strict=True):
                add = partial(added, offset[:, :, None, None])
                hooks.enter_context(stage.register_forward_pre_hook(add))
            return self.network(images)


def added(offset: Tensor, module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
    """A hook before a stage: its input with an offset."""
    return (inputs[0] + offset,)


def stages_in(network: nn.Module) -> list[nn.Module]:
    """The stages behind the first, by the names that timm gives them; none where there are no such names."""
    for module in network.modules():
        named = [getattr(module, name, None) for name in ("layer2", "layer3", "layer4")]  # ResNet
        if all(isinstance(stage, nn.Module) for stage in named):
            return [stage for stage in named if stage is not None]
        for name in ("blocks", "stages"):  # EfficientNet, ConvNeXt
            stages = getattr(module, name, None)
            if isinstance(stages, nn.Sequential):
                return list(stages)[1:]
    return []


@torch.no_grad()
def channels_of(network: nn.Module, image: Tensor) -> list[int]:
    """The channels at the inputs of the stages, as a run on an image shows them."""
    shapes: list[torch.Size] = []
    with ExitStack() as hooks:
        for stage in stages_in(network):
            hooks.enter_context(stage.register_forward_pre_hook(lambda module, inputs: shapes.append(inputs[0].shape)))
        network(image)
    if not shapes or any(len(shape) != 4 for shape in shapes):
        raise ConfigError(
            "Expected a convolutional backbone with stages for method.place=stages, but this one has none by the names "
            "of timm: set backbone=resnet18 or backbone=efficientnet_lite0, or, for a transformer, method.place=tokens."
        )
    return [shape[1] for shape in shapes]


class OnTokens(Place):
    """The coarse prompt is tokens of a vision transformer; a fine one is keys and values in some of its blocks.

    With a coarse prompt, features are the mean output of its tokens.
    """

    def __init__(self, network: nn.Module, length: int, numbers: tuple[int, ...]):
        transformer = transformer_in(network)
        if transformer is None:
            raise ConfigError(
                "Expected a vision transformer of timm for method.place=tokens, but the backbone has no blocks with "
                "attention: set backbone.name to one, such as vit_tiny_patch16_224, or method.place=stages."
            )
        depth = len(transformer.blocks)
        if any(number >= depth for number in numbers):
            raise ConfigError(
                f"Expected method.blocks to be among 0 to {depth - 1}, the blocks of the backbone, "
                f"but got {list(numbers)}: leave the others out."
            )
        qkv = transformer.blocks[0].attn.qkv
        super().__init__((length, qkv.in_features), (len(numbers), 2, length, qkv.out_features // 3), spread=1.0)
        self.network = network
        self.numbers = numbers

    def forward(self, images: Tensor, coarse: Tensor | None = None, fine: Tensor | None = None) -> Tensor:
        """(n, 3, height, width) to (n, features)."""
        transformer: Any = transformer_in(self.network)
        with ExitStack() as hooks:
            if coarse is not None:
                hooks.enter_context(transformer.blocks.register_forward_pre_hook(partial(prepended, coarse)))
                hooks.enter_context(transformer.norm.register_forward_hook(partial(read, coarse.shape[1])))
            if fine is not None:
                for number, prefix in zip(self.numbers, fine.unbind(1), strict=True):
                    add_prefix(hooks, transformer.blocks[number].attn, prefix)
            return self.network(images)


def transformer_in(network: nn.Module) -> Any:
    """The part that timm builds as a vision transformer, with blocks that have attention; None where there is none."""
    for module in network.modules():
        blocks = getattr(module, "blocks", None)
        if isinstance(blocks, nn.Sequential) and all(hasattr(block, "attn") for block in blocks):
            return module
    return None


def prepended(prompt: Tensor, module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
    """A hook before the blocks: the prompt's tokens (1, length, width) come first."""
    tokens = inputs[0]
    prompts = prompt.expand(len(tokens), -1, -1).to(tokens.dtype)
    return (torch.cat([prompts, tokens], dim=1),)


def read(length: int, module: nn.Module, inputs: tuple[Tensor, ...], tokens: Tensor) -> Tensor:
    """A hook behind the last norm: the mean of the prompt's tokens in place of each other one, for any pooling."""
    mean = tokens[:, :length].mean(dim=1, keepdim=True)
    return mean.expand(-1, tokens.shape[1] - length, -1)


def add_prefix(hooks: ExitStack, attention: Any, prefix: Tensor) -> None:
    """Let each sample's attention see further keys and values, (n, 2, length, width), while the hooks last.

    The sequence is made longer by as many tokens; their keys and values are replaced, and what they become is cut off.
    """
    keys, values = prefix.unbind(1)
    length = keys.shape[1]

    def lengthened(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        tokens = inputs[0]
        return (torch.cat([tokens, tokens.new_zeros(len(tokens), length, tokens.shape[2])], dim=1),)

    def replaced(module: nn.Module, inputs: tuple[Tensor, ...], qkv: Tensor) -> Tensor:
        further = torch.cat([torch.zeros_like(keys), keys, values], dim=2)
        return torch.cat([qkv[:, :-length], further.to(qkv.dtype)], dim=1)

    def shortened(module: nn.Module, inputs: tuple[Tensor, ...], tokens: Tensor) -> Tensor:
        return tokens[:, :-length]

    hooks.enter_context(attention.register_forward_pre_hook(lengthened))
    hooks.enter_context(attention.qkv.register_forward_hook(replaced))
    hooks.enter_context(attention.register_forward_hook(shortened))


def place_named(name: str, backbone: Backbone, length: int, blocks: tuple[int, ...]) -> Place:
    """The place of this name on a backbone."""
    images = len(backbone.inputs.shape) > 1
    if name == "features":
        if images:
            raise ConfigError(
                "Expected clients to hold features for method.place=features, but they hold images: "
                "set backbone.clients_hold=features, or method.place to tokens or stages."
            )
        return OnFeatures(backbone.features)
    if not images:
        raise ConfigError(
            f"Expected clients to hold images for method.place={name}, but they hold features: "
            "set backbone.clients_hold=images, or method.place=features."
        )
    network = backbone.build()
    if isinstance(network, nn.Identity):  # it stands in for a network while settings are checked
        return OnFeatures(backbone.features)
    if name == "stages":
        return OnStages(backbone, network)
    return OnTokens(network, length, blocks)


class Pool(nn.Module):
    """Prompts with keys, and the head that reads the features they lead to."""

    def __init__(self, prompts: Tensor, features: int, width: int):
        super().__init__()
        self.prompts = nn.Parameter(prompts)  # (prompts, ...)
        self.keys = nn.Parameter(torch.empty(len(prompts), features).uniform_(-1, 1))
        self.hidden = nn.Linear(features, width)
        self.head = Head(width)

    def forward(self, features: Tensor) -> Tensor:
        """(n, features) to (n, classes)."""
        return self.head(self.hidden(features).relu())


class Stage(L.LightningModule):
    """A loss that trains (a part of) a pool at a place, which is frozen."""

    def __init__(self, place: Place, pool: Pool, optimizer: OptimizerFactory):
        super().__init__()
        self.place = place
        self.pool = pool
        self.optimizer = optimizer

    def trained(self) -> Iterable[nn.Parameter]:
        """What the optimizer changes."""
        return self.pool.parameters()

    def configure_optimizers(self) -> Optimizer:
        """A fresh optimizer."""
        return self.optimizer(self.trained())


class CoarseStage(Stage):
    """At a client, first: the global prompt, its key and the global head, whose logits are shifted by ``prior``."""

    prior: Tensor | None

    def __init__(
        self,
        place: Place,
        pool: Pool,
        optimizer: OptimizerFactory,
        columns: Tensor,
        pull: float,
        prior: Tensor | None = None,
    ):
        super().__init__(place, pool, optimizer)
        self.register_buffer("columns", columns)
        self.register_buffer("prior", prior)
        self.pull = pull

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """The loss of one batch."""
        inputs, labels = batch
        with torch.no_grad():
            queries = self.place(inputs)
        features = self.place(inputs, self.pool.prompts)
        return self.loss(features, labels, queries, self.pool.keys)

    def loss(self, features: Tensor, labels: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        """Cross-entropy over the columns, less the pull of the keys towards the queries."""
        logits, positions = masked_targets(self.pool(features), labels, self.get_buffer("columns"))
        if self.prior is not None:
            logits = logits + self.prior
        return cross_entropy(logits, positions) - self.pull * cosine_similarity(queries, keys).mean()


class FineStage(CoarseStage):
    """At a client, second: the prompts and keys of its classes and its local head, under a ``coarse`` prompt."""

    def __init__(self, coarse: Tensor, *arguments: Any):
        super().__init__(*arguments)
        self.register_buffer("coarse", coarse)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """The loss of one batch."""
        inputs, labels = batch
        coarse = self.get_buffer("coarse")
        with torch.no_grad():
            queries = self.place(inputs, coarse)
        features = self.place(inputs, coarse, self.pool.prompts[labels])
        return self.loss(features, labels, queries, self.pool.keys[labels])


class PromptFusion(Stage):
    """At the server: one prompt is to give the features that all clients' prompts give."""

    def __init__(self, clients: Tensor, *arguments: Any):
        super().__init__(*arguments)
        self.register_buffer("clients", clients)  # (clients, ...)

    def trained(self) -> Iterable[nn.Parameter]:
        """The prompt only."""
        return [self.pool.prompts]

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """Summed over clients, samples and features."""
        inputs, _ = batch
        features = self.place(inputs, self.pool.prompts)
        errors = []
        for prompt in self.get_buffer("clients").split(1):
            with torch.no_grad():
                theirs = self.place(inputs, prompt)
            errors.append((features - theirs).square().sum())
        return torch.stack(errors).sum()


class HeadFusion(Stage):
    """At the server: the head learns all classes under the fused prompt."""

    def trained(self) -> Iterable[nn.Parameter]:
        """Both layers of the head."""
        return [*self.pool.hidden.parameters(), *self.pool.head.parameters()]

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """The loss of one batch."""
        inputs, labels = batch
        with torch.no_grad():
            features = self.place(inputs, self.pool.prompts)
        return cross_entropy(self.pool(features), labels)


class GlobalClassifier(nn.Module):
    """The global prompt and head."""

    def __init__(self, place: Place, pool: Pool):
        super().__init__()
        self.place = place
        self.pool = pool

    def forward(self, inputs: Tensor) -> Tensor:
        """(n, ...) to (n, classes)."""
        return self.pool(self.place(inputs, self.pool.prompts))


@dataclass(frozen=True)
class Local:
    """What a client keeps: its own pool, the classes it has ever held, and those of its latest task."""

    weights: StateDict
    held: Tensor
    latest: Tensor


class PersonalClassifier(nn.Module):
    """Of the classes a client has ``held``, the prompt with the nearest key acts; only ``allowed`` ones can win."""

    lowest = torch.finfo(torch.float32).min  # the score of the others

    def __init__(self, place: Place, coarse: Tensor, pool: Pool, held: Tensor, allowed: Tensor, classes: int):
        super().__init__()
        self.place = place
        self.pool = pool
        self.classes = classes
        self.register_buffer("coarse", coarse)
        self.register_buffer("held", held)
        self.register_buffer("allowed", allowed)

    def forward(self, inputs: Tensor) -> Tensor:
        """(n, ...) to (n, classes)."""
        coarse = self.get_buffer("coarse")
        queries = self.place(inputs, coarse)
        features = self.place(inputs, coarse, self.pool.prompts[self.chosen(queries)])
        logits = self.pool(features).float()
        allowed = self.get_buffer("allowed")
        scores = logits.new_full((len(inputs), self.classes), self.lowest)
        return scores.index_copy(1, allowed, logits[:, allowed])

    def chosen(self, queries: Tensor) -> Tensor:
        """The class whose key is nearest to each query, (n,)."""
        held = self.get_buffer("held")
        cosines = normalize(queries) @ normalize(self.pool.keys[held]).T
        return held[cosines.argmax(dim=1)]


class FedMGP:
    """``place`` says where prompts act, ``fusion`` what the server does with those of its clients.

    ``task_mask`` tells personal classifiers which classes the latest task of their client has.

    Each task has ``rounds`` rounds of ``epochs`` epochs for both stages. ``width`` is the heads' hidden layer. With
    ``place: tokens``, prompts have a ``length``, and ``blocks`` get prefixes. The state is the global pool.
    """

    exemplar_free = True
    needs_frozen_backbone = True
    takes_images = True
    resumes_within_tasks = True
    message_classes = (Local,)
    quick_settings = {"batch_size": 128, "lr": 0.01, "length": 2, "blocks": [0, 1]}

    def __init__(
        self,
        backbone: Backbone,
        place: Literal["features", "stages", "tokens"],
        fusion: Literal["avg", "distill"],
        task_mask: bool,
        width: PositiveInt,
        length: PositiveInt,
        blocks: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)],
        pull: Annotated[float, Field(ge=0, allow_inf_nan=False)],
        fit: Fit,
        optimizer: OptimizerFactory,
        gradient_clip: PositiveFloat,
        rounds: PositiveInt,
        epochs: PositiveInt,
        batch_size: PositiveInt,
        lr: PositiveFloat,
        ce_scope: Scope,
        logit_adjustment: NonNegativeFloat,
    ):
        self.place = place_named(place, backbone, length, tuple(blocks))
        self.fusion = fusion
        self.needs_public_samples = fusion == "distill"
        self.task_mask = task_mask
        self.features = backbone.features
        self.width = width
        self.pull = pull
        self.fit = fit.clipping(gradient_clip)
        self.optimizer = optimizer
        self.rounds = rounds
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.ce_scope: Scope = ce_scope
        self.logit_adjustment = logit_adjustment
        self.start = snapshot(self.pool(1, self.place.coarse))
        self.check_optimizer()

    def check_optimizer(self) -> None:
        """Refuse settings that the optimizer does not accept."""
        try:
            self.optimizer([nn.Parameter(torch.zeros(1))], lr=self.lr)
        except ValueError as error:
            raise ConfigError(f"Expected method.optimizer to be one that torch accepts, but: {error}.") from error

    def init(self) -> StateDict:
        """The global prompt and key as they begin, and a head without rows."""
        return self.start

    def learn(self, state: StateDict, task: Task, clients: Clients) -> Iterator[StateDict]:
        """Grow the head by the new classes, then fuse what clients train, round after round."""
        weights = grown(state, task.seen)
        for _ in range(task.yielded, self.rounds):
            sent = Round(weights, columns_for_all(self.ce_scope, task), self.lr)
            weights = self.fused(clients.map(self.train, sent), weights, task)
            yield weights

    def fused(self, updates: Iterable[Update], default: StateDict, task: Task) -> StateDict:
        """The clients' global pools as one."""
        if self.fusion == "avg":
            return weighted_mean(updates, default)
        trained = [update for update in updates if update.samples]
        if not trained:
            return default
        assert task.public is not None  # as the harness knows from needs_public_samples
        prompts = torch.cat([update.weights["prompts"] for update in trained])
        pool = self.coarse(weighted_mean(trained, default))
        optimizer = partial(self.optimizer, lr=self.lr)
        for stage in (PromptFusion(prompts, self.place, pool, optimizer), HeadFusion(self.place, pool, optimizer)):
            self.fit(stage, task.public, self.epochs, self.batch_size)
        return snapshot(pool)

    def train(self, client: Client, received: Round) -> Update:
        """At the client: the global pool, which is sent back, then the local one, which stays."""
        data = client.data
        if len(data) == 0:
            return Update(received.weights, 0)
        optimizer = partial(self.optimizer, lr=received.lr)
        columns = columns_at_client(received.columns, data.labels)
        prior = log_frequencies(data.labels, columns, self.logit_adjustment)
        coarse = self.coarse(received.weights)
        fine = self.fine(client.memory.get("local"), len(received.weights["head.bias"]))
        first = CoarseStage(self.place, coarse, optimizer, columns, self.pull, prior)
        self.fit(first, data, self.epochs, self.batch_size)
        second = FineStage(coarse.prompts.detach(), self.place, fine, optimizer, columns, self.pull, prior)
        self.fit(second, data, self.epochs, self.batch_size)
        self.keep(client, fine)
        return Update(snapshot(coarse), len(data))

    def keep(self, client: Client, fine: Pool) -> None:
        """At the client: remember the local pool, and which classes it has learnt."""
        latest = client.data.labels.unique()
        before = client.memory.get("local")
        held = latest if before is None else torch.cat([before.held, latest]).unique()
        client.memory["local"] = Local(snapshot(fine), held, latest)

    def classifier(self, state: StateDict) -> nn.Module:
        """The global model, over all classes seen."""
        return GlobalClassifier(self.place, self.coarse(state)).to(self.fit.device).eval()

    def personal_classifier(self, state: StateDict, memory: dict[str, Any]) -> nn.Module:
        """The local pool of a client under the global prompt; the global model for a client that never trained."""
        local = memory.get("local")
        if local is None:
            return self.classifier(state)
        fine = self.fine(local, len(local.weights["head.bias"]))
        allowed = local.latest if self.task_mask else local.held
        classes = len(state["head.bias"])
        classifier = PersonalClassifier(self.place, state["prompts"], fine, local.held, allowed, classes)
        return classifier.to(self.fit.device).eval()

    def coarse(self, weights: StateDict) -> Pool:
        """The global pool with these weights."""
        pool = self.pool(1, self.place.coarse)
        pool.load_state_dict(weights)
        return pool

    def fine(self, local: Local | None, classes: int) -> Pool:
        """The local pool that a client has kept, with fresh prompts, keys and head rows for further classes."""
        pool = self.pool(classes, self.place.fine)
        weights = grown(snapshot(pool), classes)
        pool.load_state_dict(weights if local is None else continued(local.weights, weights))
        return pool

    def pool(self, prompts: int, shape: Shape) -> Pool:
        """A fresh one, with a head that has no rows yet."""
        spread = self.place.spread
        return Pool(torch.empty(prompts, *shape).uniform_(-spread, spread), self.features, self.width)


def continued(old: StateDict, longer: StateDict) -> StateDict:
    """Each tensor of ``old``, with the further rows that ``longer`` has.

    >>> continued({"keys": torch.zeros(1)}, {"keys": torch.ones(3)})
    {'keys': tensor([0., 1., 1.])}
    """
    return {name: torch.cat([old[name], rows[len(old[name]) :]]) for name, rows in longer.items()}
