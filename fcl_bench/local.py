"""Local training: the only gradient loop of the suite, under Lightning Fabric or under a Lightning Trainer.

The loss is a ``LightningModule`` with ``training_step`` and ``configure_optimizers``; it must not use ``self.trainer``
or hooks, so that both ways run it and give the same weights. Which one runs is configuration: ``local=fabric|trainer``.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import lightning as L
import torch
from pydantic import Field
from torch import Tensor, nn

from fcl_bench.errors import ConfigError, choices
from fcl_bench.threads import threads_for, work

Precision = Literal["32-true", "16-mixed", "bf16-mixed"]


class Batches(Protocol):
    """Anything that can be indexed by positions: a client's share, tensors with replay, ..."""

    def __len__(self) -> int: ...

    def __getitem__(self, positions: Tensor) -> tuple[Tensor, ...]: ...


class Fit(Protocol):
    """What a method is given to train with."""

    def __call__(self, module: L.LightningModule, data: Batches, epochs: int, batch_size: int) -> None:
        """Train ``module`` in place for some epochs over ``data``, with a fresh optimizer."""
        ...


def shuffled(samples: int, batch_size: int) -> tuple[Tensor, ...]:
    """Positions of one epoch, in random order. A lone last sample joins the batch before it: BatchNorm needs two.

    >>> [len(batch) for batch in shuffled(9, 4)]
    [4, 5]
    """
    batches = list(torch.randperm(samples).split(batch_size))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return tuple(batches)


@dataclass
class _Settings:
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


class FabricFit(_Settings):
    """The default: a plain loop whose device, precision and clipping are Fabric's."""

    _module: L.LightningModule | None = None

    def __call__(self, module: L.LightningModule, data: Batches, epochs: int, batch_size: int) -> None:
        """See :class:`Fit`."""
        if len(data) == 0:
            return
        self._set_up(module)
        _begin(module, data, batch_size, self.compile)
        with threads_for(work(module)), _deterministic(self.deterministic):
            optimizer: Any = self._fabric.setup_optimizers(module.configure_optimizers())  # type: ignore[arg-type]
            for _ in range(epochs):
                for number, positions in enumerate(shuffled(len(data), batch_size)):
                    batch = self._fabric.to_device(data[positions])
                    optimizer.zero_grad()
                    with self._fabric.autocast():  # one device: Fabric leaves precision to the caller of training_step
                        loss: Any = module.training_step(batch, number)
                    self._fabric.backward(loss)
                    if self.gradient_clip is not None:
                        self._fabric.clip_gradients(self._wrapped, optimizer, max_norm=self.gradient_clip)
                    optimizer.step()

    def _set_up(self, module: L.LightningModule) -> None:
        """Once per module: a Fabric keeps every module it has ever set up alive, so a new module gets a new Fabric."""
        if self._module is module:
            return
        self._fabric = L.Fabric(accelerator=self.accelerator, devices=1, precision=self.precision)
        self._module = module
        self._wrapped = self._fabric.setup_module(module)


class TrainerFit(_Settings):
    """The same loss under a Lightning Trainer, for its callbacks and profilers; slower by milliseconds per fit."""

    def __call__(self, module: L.LightningModule, data: Batches, epochs: int, batch_size: int) -> None:
        """See :class:`Fit`. A new Trainer each time: a used one would train its next model for no steps at all."""
        if len(data) == 0:
            return
        _begin(module, data, batch_size, self.compile)
        with threads_for(work(module)), _quiet(), _deterministic(self.deterministic):
            trainer = L.Trainer(
                max_epochs=epochs,
                accelerator=self.accelerator,
                devices=1,
                precision=self.precision,
                gradient_clip_val=self.gradient_clip,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            )
            trainer.fit(module, _Epochs(data, batch_size))


class _Epochs:
    """The batches of :func:`shuffled` as the iterable a Trainer expects, drawn anew every epoch."""

    def __init__(self, data: Batches, batch_size: int):
        self.data, self.batch_size = data, batch_size

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        for positions in shuffled(len(self.data), self.batch_size):
            yield self.data[positions]


def _begin(module: nn.Module, data: Batches, batch_size: int, backend: str | None) -> None:
    """Training mode; but a batch of one has no spread to normalise by: BatchNorm then uses its running statistics.

    The networks of the loss are compiled at their first fit; a second ``compile`` would start from nothing again.
    """
    for network in module.children():
        if backend is not None and network._compiled_call_impl is None:
            network.compile(backend=backend)
    module.train()
    if min(len(data), batch_size) == 1:
        for layer in module.modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                layer.eval()


def _missing_devices() -> set[str]:
    cuda = torch.cuda.is_available()
    mps = torch.backends.mps.is_available()
    there = {"cuda": cuda, "mps": mps, "gpu": cuda or mps}
    return {name for name, available in there.items() if not available}


@contextmanager
def _deterministic(wanted: bool) -> Iterator[None]:
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
