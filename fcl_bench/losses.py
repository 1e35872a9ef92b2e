"""Local losses shared by methods, as LightningModules for :mod:`fcl_bench.local`.

Over which classes a cross-entropy goes is chosen in :mod:`fcl_bench.softmax`.
"""

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from functools import cache
from inspect import get_annotations
from typing import Any, Self

import lightning as L
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from fcl_bench.backbone import Backbone
from fcl_bench.errors import ConfigError
from fcl_bench.head import Head
from fcl_bench.message import StateDict
from fcl_bench.pull import Pull
from fcl_bench.replay import Reservoir
from fcl_bench.softmax import masked_targets
from fcl_bench.threads import numbers_per_sample, threads_for

OptimizerFactory = Callable[..., Optimizer]  # torch.optim.SGD with everything but parameters and learning rate bound
Replayed = tuple[Tensor, dict[str, Tensor]]  # logits of samples drawn from a reservoir, and what is stored with them


class Network(nn.Module):
    """A backbone and a growing head: from the inputs a client holds to one logit per registered class.

    In training mode ``augment`` changes inputs first. A loss that shows them to two networks does so once, by itself.
    """

    augment: nn.Module
    backbone: nn.Module
    head: Head

    def __init__(self, backbone: Backbone):
        super().__init__()
        self.augment = backbone.augment()
        self.backbone = backbone.build()
        self.head = Head(backbone.features)

    def forward(self, inputs: Tensor, augmented: bool = False) -> Tensor:
        """(n, ...) to (n, classes); inputs that are ``augmented`` already are left as they are."""
        shown = inputs if augmented else self.augment(inputs)
        return self.head(self.backbone(shown))

    def loaded(self, weights: StateDict) -> "Network":
        """A copy with these weights: what happens to this network later does not reach it."""
        copy = deepcopy(self)
        copy.load_state_dict(weights)
        return copy


@torch.no_grad()
def outputs(module: nn.Module, inputs: Tensor, batch_size: int = 256) -> Tensor:
    """What a module, in the mode it is in, makes of many inputs: in batches on its device, gathered on the CPU.

    An identity gives the inputs themselves, not a copy.
    """
    if isinstance(module, nn.Identity):
        return inputs
    device = next((value.device for value in module.parameters()), inputs.device)
    with threads_for(numbers_per_sample(module)):
        return torch.cat([module(part.to(device)).cpu() for part in inputs.split(batch_size)])


class CrossEntropy(L.LightningModule):
    """Softmax cross-entropy over ``columns`` of the head, all of them when ``None``.

    ``prior`` is added to the logits of these columns, see :func:`fcl_bench.softmax.log_frequencies`.

    A method with a loss of its own declares what its loss needs to know as annotated class attributes, and says in
    parts what the loss is: ``loss_of_logits``, and where they are needed ``replays``, ``advice`` and ``pull``. The
    step of every way of training is made of these parts, those of ``local=quick`` too, which trains a head without this
    module's own forward pass. A loss with another ``training_step`` is trained by that.
    """

    lr: float
    columns: Tensor | None = None
    prior: Tensor | None = None

    def __init__(self, network: Network, optimizer: OptimizerFactory, **attributes: Any):
        super().__init__()
        self.network = network
        self.optimizer = optimizer
        self.assign(lr=1.0, **attributes)
        try:
            self.configure_optimizers()
        except ValueError as error:
            raise ConfigError(f"Expected method.optimizer to be one that torch accepts, but: {error}.") from error

    def assign(self, **attributes: Any) -> None:
        """Set attributes that the class declares; any other name is an error."""
        kind: type = type(self)
        for name, value in attributes.items():
            if name not in declared(kind):
                raise TypeError(f"Expected {kind.__name__} to declare {name} as an annotated class attribute.")
            setattr(self, name, value)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """The loss of one batch."""
        inputs, labels = batch
        old = [buffer.draw(len(labels), inputs.device) for buffer in self.replays()]
        together = torch.cat([inputs, *(samples["inputs"] for samples in old)]) if old else inputs
        shown = self.network.augment(together)
        logits, *replayed = self.network(shown, augmented=True).split(len(labels))
        advice = self.advice(shown[: len(labels)])
        loss = self.loss_of_logits(logits, labels, advice, list(zip(replayed, old, strict=True)))
        pull = self.pull()
        return loss if pull is None else pull.added_to(loss, self.network)

    def loss_of_logits(
        self, logits: Tensor, labels: Tensor, advice: Tensor | None, replayed: Sequence[Replayed]
    ) -> Tensor:
        """The loss of a batch, which may look at the logits of ``rows`` only."""
        return self.cross_entropy(logits, labels)

    def rows(self) -> Tensor | None:
        """The classes whose logits the loss looks at, ascending; None for all. Others get no gradient from samples.

        A class that has another ``loss_of_logits`` has its own ``rows`` too.
        """
        return self.columns

    def narrowed(self, rows: Tensor) -> Self:
        """The same loss for a head that has these ``rows`` only, and for labels that are positions among them."""
        narrow = copy(self)
        if self.columns is not None:
            narrow.columns = torch.searchsorted(rows, self.columns)
        return narrow

    def replays(self) -> tuple[Reservoir, ...]:
        """Each of these gives every batch as many samples as it has, drawn at random."""
        return ()

    def advice(self, shown: Tensor) -> Tensor | None:
        """What a teacher says of inputs, (n, ...), the same at every step; None where there is none."""
        return None

    def pull(self) -> Pull | None:
        """What the loss has in it beside samples."""
        return None

    def cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Over ``columns`` only: other logits get no gradient."""
        if self.columns is not None:
            logits, labels = masked_targets(logits, labels, self.columns.to(labels.device))
        if self.prior is not None:
            logits = logits + self.prior.to(logits.device)
        return cross_entropy(logits, labels)

    def configure_optimizers(self) -> Optimizer:
        """A fresh optimizer: momentum does not outlive a client call."""
        return self.optimizer(self.network.parameters(), lr=self.lr)


@cache
def declared(kind: type) -> frozenset[str]:
    """The names that a class and its parents annotate: looked up once, as a client call may take less than a ms."""
    return frozenset(name for parent in kind.__mro__ for name in get_annotations(parent))


class Distillation(CrossEntropy):
    """Cross-entropy, plus ``weight`` times the distillation of the classes that a frozen teacher knows.

    ``distil_columns`` are those of them to distil, all when ``None``. Both networks see the same augmented inputs. The
    teacher is optional: without one (the first task, a client that never received it) this is plain cross-entropy.
    """

    weight: float
    temperature: float
    distil_columns: Tensor | None = None

    def __init__(self, network: Network, optimizer: OptimizerFactory, **attributes: Any):
        super().__init__(network, optimizer, **attributes)
        self.teacher = deepcopy(network).requires_grad_(False)
        self.taught = 0  # classes that the teacher knows

    def load_teacher(self, weights: StateDict | None) -> None:
        """Learn from the network with these weights from now on; from none for ``None``."""
        self.taught = 0
        if weights is not None:
            self.teacher.load_state_dict(weights)
            self.teacher.requires_grad_(False)  # head rows may be new
            self.taught = len(self.teacher.head.bias)

    def train(self, mode: bool = True) -> "Distillation":
        """The teacher always predicts as in evaluation."""
        super().train(mode)
        self.teacher.eval()
        return self

    def loss_of_logits(
        self, logits: Tensor, labels: Tensor, advice: Tensor | None, replayed: Sequence[Replayed]
    ) -> Tensor:
        """Of the labels and, if there is any, of the advice."""
        return self.cross_entropy(logits, labels) + self.distilled(logits, advice)

    def rows(self) -> Tensor | None:
        """Those of the cross-entropy, and those to distil."""
        if self.columns is None:
            return None
        return torch.cat([self.columns, self._taught_columns()]).unique()

    def narrowed(self, rows: Tensor) -> Self:
        """See :class:`CrossEntropy`."""
        narrow = super().narrowed(rows)
        narrow.distil_columns = torch.searchsorted(rows, self._taught_columns())
        return narrow

    def advice(self, shown: Tensor) -> Tensor | None:
        """The teacher's logits of the classes to distil."""
        columns = self._taught_columns().to(shown.device)
        if len(columns) == 0:
            return None
        with torch.no_grad():
            return self.teacher(shown).index_select(1, columns)

    def distilled(self, logits: Tensor, advice: Tensor | None) -> Tensor | float:
        """The weighted distillation of a batch, 0 where there is nothing to distil."""
        if advice is None:
            return 0.0
        learned = logits.index_select(1, self._taught_columns().to(logits.device))
        return self.weight * distillation(learned, advice, self.temperature)

    def _taught_columns(self) -> Tensor:
        if self.distil_columns is None:
            return torch.arange(self.taught)
        return self.distil_columns[self.distil_columns < self.taught]


def distillation(logits: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """Soft cross-entropy of two sets of logits at a temperature, mean over the batch, without a factor T^2.

    >>> distillation(torch.tensor([[0.0, 0.0]]), torch.tensor([[5.0, -5.0]]), 2.0)  # log 2, whatever is taught
    tensor(0.6931)
    """
    return cross_entropy(logits / temperature, (taught / temperature).softmax(dim=1))
