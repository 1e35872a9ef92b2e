"""The samples of one fit, all in one piece: those of the client, and those in its reservoirs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fcl_bench.local import Indexable
from fcl_bench.losses import CrossEntropy
from fcl_bench.quick.structure import Training
from fcl_bench.replay import Reservoir


@dataclass(frozen=True)
class Step:
    """Which samples a step has: positions of the client's own, and of those drawn from each reservoir."""

    own: Tensor
    drawn: list[Tensor]
    rows: Tensor  # all of them, as rows of the pool


@dataclass(frozen=True)
class Target:
    """What the logits of a step are compared with."""

    labels: Tensor
    advice: Tensor | None
    replayed: list[dict[str, Tensor]]  # what is stored with the samples of each draw


@dataclass(frozen=True)
class Draw:
    """A reservoir that gives every step as many samples as it has own ones, and where it begins in the pool."""

    buffer: Reservoir
    begins: int
    stored: dict[str, Tensor]  # with its samples: all columns but the inputs


@dataclass(frozen=True)
class Pool:
    """All samples of a fit."""

    inputs: Tensor  # (rows, features), those of the client first
    labels: Tensor  # (own samples,), as positions among the rows of the head that take part
    advice: Tensor | None  # of a teacher, (own samples, ...)
    draws: list[Draw]

    @property
    def own(self) -> int:
        """How many samples are the client's."""
        return len(self.labels)

    def step(self, own: Tensor) -> Step:
        """A step on these own samples; those of the reservoirs are drawn now."""
        device = self.inputs.device
        if not self.draws:
            here = own.to(device)
            return Step(here, [], here)
        drawn = [draw.buffer.drawn(len(own)) for draw in self.draws]
        rows = [draw.begins + positions for draw, positions in zip(self.draws, drawn, strict=True)]
        return Step(own.to(device), [some.to(device) for some in drawn], torch.cat([own, *rows]).to(device))

    def targets(self, steps: Sequence[Step]) -> Iterator[Target]:
        """Of some steps; those of own samples are gathered at once."""
        sizes = [len(step.own) for step in steps]
        own = torch.cat([step.own for step in steps])
        labels = self.labels.index_select(0, own).split_with_sizes(sizes)
        advice: Sequence[Tensor | None] = [None] * len(steps)
        if self.advice is not None:
            advice = self.advice.index_select(0, own).split_with_sizes(sizes)
        for step, its_labels, its_advice in zip(steps, labels, advice, strict=True):
            yield Target(its_labels, its_advice, self._replayed(step))

    def loss(self, module: CrossEntropy, logits: Tensor, target: Target) -> Tensor:
        """Of a step."""
        own, *replayed = logits.split(len(target.labels))
        old = list(zip(replayed, target.replayed, strict=True))
        return module.loss_of_logits(own, target.labels, target.advice, old)

    def _replayed(self, step: Step) -> list[dict[str, Tensor]]:
        replayed = []
        for draw, positions in zip(self.draws, step.drawn, strict=True):
            replayed.append({name: column.index_select(0, positions) for name, column in draw.stored.items()})
        return replayed


def pooled(training: Training, data: Indexable, device: torch.device) -> Pool:
    """The samples that a loss is trained on, on a device. A teacher is asked now, once for all steps."""
    inputs, labels = (column.to(device) for column in data[torch.arange(len(data))])
    advice = training.module.advice(inputs)
    if training.rows is not None:
        labels = torch.searchsorted(training.rows, labels)
    pieces = [inputs]
    begins: dict[int, int] = {}  # where each reservoir begins: one that is drawn from twice is there once
    draws = []
    for buffer in training.draws:
        stored = {name: column.to(device) for name, column in buffer.columns.items()}
        kept = stored.pop("inputs")
        if id(buffer) not in begins:
            begins[id(buffer)] = sum(map(len, pieces))
            pieces.append(kept)
        draws.append(Draw(buffer, begins[id(buffer)], stored))
    return Pool(torch.cat(pieces) if draws else inputs, labels, advice, draws)
