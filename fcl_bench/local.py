"""Local training of any loss: the gradient loop of the suite, under Lightning Fabric or under a Lightning Trainer.

The loss is a ``LightningModule`` with ``training_step`` and ``configure_optimizers``; it must not use ``self.trainer``
or hooks, so that both ways run it and give the same weights. Which one runs is configuration: ``local=fabric|trainer``.
A third way, ``local=quick``, takes the same steps with less arithmetic where it can, see :mod:`fcl_bench.quick`.
"""

import logging
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from fcl_bench.errors import ConfigError, choices
from fcl_bench.threads import numbers_per_sample, threads_for

if TYPE_CHECKING:  # it takes seconds to import, and methods in closed form do without
    import lightning as L

GATHERED = 1 << 22  # bytes of samples that are put in order at a time; a worker has two such parts at most
Batch = tuple[Tensor, ...]  # such as inputs and labels, all of one length
Precision = Literal["32-true", "16-mixed", "bf16-mixed"]


class Indexable(Protocol):
    """Samples that can be taken by their positions: a client's data, kept samples, ..."""

    def __len__(self) -> int: ...

    def __getitem__(self, positions: Tensor) -> Batch: ...


class Fit(Protocol):
    """What a method is given to train with."""

    @property
    def device(self) -> torch.device:
        """Where modules are trained."""
        ...

    def __call__(self, module: "L.LightningModule", data: Indexable, epochs: int, batch_size: int) -> None:
        """Train ``module`` in place for some epochs over ``data``, with a fresh optimizer."""
        ...

    def over(self, module: "L.LightningModule", batches: Iterable[Batch]) -> None:
        """Train ``module`` in place, a step for every batch as it comes, with a fresh optimizer."""
        ...

    def clipping(self, norm: float) -> "Fit":
        """The same with gradients clipped to a norm, unless the settings of local training clip them already."""
        ...


def batch_sizes(samples: int, batch_size: int) -> list[int]:
    """The sizes of the batches of an epoch. A lone last sample joins the batch before it: BatchNorm needs two.

    >>> batch_sizes(10, 4), batch_sizes(9, 4)
    ([4, 4, 2], [4, 5])
    """
    full, rest = divmod(samples, batch_size)
    sizes = [batch_size] * full
    if rest:
        sizes.append(rest)
    if len(sizes) > 1 and sizes[-1] == 1:
        sizes[-2:] = [sizes[-2] + 1]
    return sizes


def shuffled(data: Indexable, epochs: int, batch_size: int) -> Iterator[Batch]:
    """The batches of some epochs, each in a random order that is drawn when the epoch begins.

    Many batches are taken from ``data`` at once and then cut: one large step through memory is faster than many.
    """
    sizes = batch_sizes(len(data), batch_size)
    sample_bytes = sum(column.nbytes for column in data[torch.zeros(1, dtype=torch.int64)])
    batches_at_once = max(1, GATHERED // (batch_size * sample_bytes))
    for _ in range(epochs):
        order = torch.randperm(len(data)).split(sizes)  # positions, batch by batch
        for start in range(0, len(order), batches_at_once):
            positions = order[start : start + batches_at_once]
            columns = data[torch.cat(positions)]
            cut = [column.split([len(batch) for batch in positions]) for column in columns]
            yield from zip(*cut, strict=True)


@dataclass
class _Settings(ABC):
    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = "auto"
    precision: Precision = "32-true"
    gradient_clip: Annotated[float, Field(gt=0)] | None = None
    deterministic: bool = False
    compile: str | None = None

    def __post_init__(self) -> None:
        if self.accelerator in _missing_devices():
            raise ConfigError(
                f"local.accelerator={self.accelerator} needs a device that PyTorch does not find on this machine: "
                "set local.accelerator=auto."
            )
        if self.compile is None or self.compile in torch.compiler.list_backends(exclude_tags=()):
            return
        usual = {*torch.compiler.list_backends(), "eager", "aot_eager"}  # the last two: for finding errors
        raise ConfigError(
            f"Expected local.compile to be null or a backend of torch.compile ({choices(self.compile, usual)}), "
            f"but got {self.compile}."
        )

    def __call__(self, module: "L.LightningModule", data: Indexable, epochs: int, batch_size: int) -> None:
        """See :class:`Fit`."""
        if len(data):
            self.over(module, shuffled(data, epochs, batch_size))

    @abstractmethod
    def over(self, module: "L.LightningModule", batches: Iterable[Batch]) -> None:
        """See :class:`Fit`."""

    def clipping(self, norm: float) -> Fit:
        """See :class:`Fit`."""
        return self if self.gradient_clip is not None else replace(self, gradient_clip=norm)

    @property
    def device(self) -> torch.device:
        """See :class:`Fit`."""
        return _fabric(self.accelerator, self.precision).device


class FabricFit(_Settings):
    """The default: a plain loop whose device, precision and clipping are Fabric's."""

    def over(self, module: "L.LightningModule", batches: Iterable[Batch]) -> None:
        """See :class:`Fit`. Not ``setup_module``: a Fabric keeps every module that it ever set up alive."""
        fabric = _fabric(self.accelerator, self.precision)
        fabric.to_device(module)
        _begin(module, self.compile)
        with threads_for(numbers_per_sample(module)), deterministic(self.deterministic):
            optimizer: Any = fabric.setup_optimizers(module.configure_optimizers())  # type: ignore[arg-type]
            for number, batch in enumerate(_with_batchnorm_ready(module, batches)):
                optimizer.zero_grad()
                with fabric.autocast():  # one device: Fabric leaves precision to the caller of training_step
                    loss: Any = module.training_step(fabric.to_device(batch), number)
                fabric.backward(loss)
                if self.gradient_clip is not None:
                    # what diverges is told once it is scored, as without clipping
                    fabric.clip_gradients(module, optimizer, max_norm=self.gradient_clip, error_if_nonfinite=False)
                optimizer.step()


class TrainerFit(_Settings):
    """The same loss under a Lightning Trainer, for its callbacks and profilers; slower by milliseconds per fit."""

    def over(self, module: "L.LightningModule", batches: Iterable[Batch]) -> None:
        """See :class:`Fit`. A new Trainer each time: a used one would train its next model for no steps at all."""
        import lightning as L

        _begin(module, self.compile)
        with threads_for(numbers_per_sample(module)), _quiet(), deterministic(self.deterministic):
            trainer = L.Trainer(
                max_epochs=1,
                accelerator=self.accelerator,
                devices=1,
                precision=self.precision,
                gradient_clip_val=self.gradient_clip,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            )
            trainer.fit(module, _OneByOne(_with_batchnorm_ready(module, batches)))


@dataclass(frozen=True)
class _OneByOne:
    """Batches for a Trainer, which takes one ahead of time where it sees no length: random numbers would change order.

    So they get a length that is never reached.
    """

    batches: Iterable[Batch]

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)

    def __len__(self) -> int:
        return sys.maxsize


@cache
def _fabric(accelerator: str, precision: Precision) -> "L.Fabric":
    """One for all: it keeps nothing of what is trained, and takes 25 ms to make."""
    import lightning as L

    return L.Fabric(accelerator=accelerator, devices=1, precision=precision)


def _begin(module: nn.Module, backend: str | None) -> None:
    """Training mode, and compiled networks.

    The networks of the loss are compiled at their first fit; a second ``compile`` would start from nothing again.
    """
    for network in module.children():
        if backend is not None and network._compiled_call_impl is None:
            network.compile(backend=backend)
    module.train()


def _with_batchnorm_ready(module: nn.Module, batches: Iterable[Batch]) -> Iterator[Batch]:
    """A batch of one has no spread to normalise by: from there on BatchNorm uses its running statistics."""
    layers = [layer for layer in module.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    for batch in batches:
        if len(batch[0]) == 1:
            for layer in layers:
                layer.eval()
        yield batch


def _missing_devices() -> set[str]:
    cuda = torch.cuda.is_available()
    mps = torch.backends.mps.is_available()
    there = {"cuda": cuda, "mps": mps, "gpu": cuda or mps}
    return {name for name, available in there.items() if not available}


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Only deterministic algorithms in this block, if that is wanted."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(wanted or before)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the Trainer's greetings and its advice on DataLoader workers, once per client call."""
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logger.setLevel(level)
