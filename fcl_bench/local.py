"""Local training: the only gradient loop of the suite, under Lightning Fabric or under a Lightning Trainer.

The loss is a ``LightningModule`` with ``training_step`` and ``configure_optimizers``; it must not use ``self.trainer`` or
hooks, so that both ways run it and give the same weights. Which one runs is configuration (``local=fabric|trainer``).
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

Precision = Literal["32-true", "16-mixed", "bf16-mixed", "bf16-true", "64-true"]
SMALL = 1_000_000  # parameters; below it one thread beats many (measured up to 40 times on shared cores)


class Batches(Protocol):
    """Anything that can be indexed by positions: a client's share, tensors with replay, ..."""

    def __len__(self) -> int: ...

    def __getitem__(self, positions: Tensor) -> tuple[Tensor, ...]: ...


class Fit(Protocol):
    """Train ``module`` in place for some epochs over ``data`` with a fresh optimizer."""

    def __call__(self, module: L.LightningModule, data: Batches, epochs: int, batch_size: int) -> None: ...


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
    compile: bool = False


class FabricFit(_Settings):
    """The default: a plain loop whose device, precision and clipping are Fabric's."""

    _module: L.LightningModule | None = None

    def __call__(self, module: L.LightningModule, data: Batches, epochs: int, batch_size: int) -> None:
        """See :class:`Fit`."""
        if len(data) == 0:
            return
        self._set_up(module)
        self._wrapped.train()
        with _threads(module), _lone_sample(module, data), _deterministic(self.deterministic):
            optimizer = self._fabric.setup_optimizers(module.configure_optimizers())  # type: ignore[arg-type]
            for _ in range(epochs):
                for number, positions in enumerate(shuffled(len(data), batch_size)):
                    batch = self._fabric.to_device(data[positions])
                    optimizer.zero_grad()
                    self._fabric.backward(self._wrapped.training_step(batch, number))
                    if self.gradient_clip is not None:
                        self._fabric.clip_gradients(self._wrapped, optimizer, max_norm=self.gradient_clip)
                    optimizer.step()

    def _set_up(self, module: L.LightningModule) -> None:
        """Once per module: a Fabric keeps every module it has ever set up alive, so a new module gets a new Fabric."""
        if self._module is module:
            return
        self._fabric = L.Fabric(accelerator=self.accelerator, devices=1, precision=self.precision)
        self._module = module
        self._wrapped: Any = self._fabric.setup_module(_compiled(module) if self.compile else module)
        self._wrapped.mark_forward_method("training_step")


class TrainerFit(_Settings):
    """The same loss under a Lightning Trainer, for its callbacks and profilers; slower by milliseconds per fit."""

    def __call__(self, module: L.LightningModule, data: Batches, epochs: int, batch_size: int) -> None:
        """See :class:`Fit`. A new Trainer each time: a used one would train its next model for no steps at all."""
        if len(data) == 0:
            return
        module.train()
        with _threads(module), _lone_sample(module, data), _quiet(), _deterministic(self.deterministic):
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
            trainer.fit(_compiled(module) if self.compile else module, _Epochs(data, batch_size))


class _Epochs:
    """The batches of :func:`shuffled` as the iterable a Trainer expects, drawn anew every epoch."""

    def __init__(self, data: Batches, batch_size: int):
        self.data, self.batch_size = data, batch_size

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        for positions in shuffled(len(self.data), self.batch_size):
            yield self.data[positions]


def _compiled(module: L.LightningModule) -> L.LightningModule:
    return torch.compile(module)  # type: ignore[return-value]


@contextmanager
def _threads(module: nn.Module) -> Iterator[None]:
    """One thread for a small model on the CPU, all of them otherwise."""
    before = torch.get_num_threads()
    if sum(parameter.numel() for parameter in module.parameters()) < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _lone_sample(module: nn.Module, data: Batches) -> Iterator[None]:
    """With one sample in all, BatchNorm has no spread to normalise by: its layers then use their running statistics."""
    norms = [layer for layer in module.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    if len(data) == 1:
        for layer in norms:
            layer.eval()
    yield


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
