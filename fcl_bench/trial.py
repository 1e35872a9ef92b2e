"""A tiny world for checking methods: separable classes, a short stream, a few clients; no files, no downloads."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fcl_bench.backbone import Backbone
from fcl_bench.federation import Client, Federation, Meter, Participation
from fcl_bench.message import decode, encode
from fcl_bench.method import Method
from fcl_bench.partition import Dirichlet
from fcl_bench.partition import Iid as IidClients
from fcl_bench.seeds import derive, seeded
from fcl_bench.stream import Stream, make_stream
from fcl_bench.temporal import Iid, SiBlurry
from fcl_bench.transport import Request, Transport
from fcl_bench.transport.in_process import InProcess

SEED = 1
CLASSES, CLIENTS, TASKS = 6, 4, 3
FEATURES, SIDE = 16, 8  # of a feature vector; of an image


@dataclass(frozen=True)
class Outcome:
    """A finished run."""

    state: Any
    scores: Tensor  # of the final classifier on the test inputs
    kept: list[
        tuple[bytes, Any]
    ]  # all that was sent, answered, stored or handed out: as bytes then, and the object itself


class Trial:
    """Runs the method that ``make`` builds, on features or (``trainable``) on little images."""

    def __init__(self, make: Callable[[Backbone], Method], trainable: bool = False):
        self.make, self.trainable = make, trainable
        with seeded(SEED):
            means = 4 * torch.randn(CLASSES, FEATURES)
            self.train, self.train_labels = self._draw(means, per_class=40)
            self.test, self.test_labels = self._draw(means, per_class=10)

    def method(self) -> Method:
        """A fresh method, always the same."""
        with seeded(derive(SEED, "init")):
            return self.make(Backbone(FEATURES, self.trainable, _little_network if self.trainable else nn.Identity))

    def run(
        self,
        stream: Stream | None = None,
        transport: Transport | None = None,
        participation: Participation | None = None,
        reload: bool = False,
    ) -> Outcome:
        """Learn a stream; with ``reload``, through a checkpoint and with a fresh method for every task."""
        watch = Watch(transport or InProcess())
        stream = stream or self.stream
        method = self.method()
        state = method.init()
        labels, who = self.train_labels.numpy(), participation or Participation()
        federation = Federation(stream, self.train, labels, self.method, watch, who, SEED)
        for task in stream.tasks:
            if reload:
                method, (state, federation.memories) = self.method(), decode(encode((state, federation.memories)))
            for state in Meter().learn(method, state, federation.open(method, task)):
                watch.keep(state)
        with torch.inference_mode():
            scores = method.classifier(state)(self.test)
        watch.keep(federation.memories)
        return Outcome(state, scores, watch.kept)

    @cached_property
    def stream(self) -> Stream:
        """Si-Blurry over skewed clients."""
        return self._stream(SiBlurry(TASKS), Dirichlet(CLIENTS, alpha=0.5))

    def evenly_dealt(self, tasks: int) -> Stream:
        """Every client holds every class in every task."""
        return self._stream(Iid(tasks), IidClients(CLIENTS))

    def with_first_client_split(self) -> Stream:
        """The usual stream, but half of client 0's data are in the hands of one client more."""
        return self._stream(SiBlurry(TASKS), Regrouped(CLIENTS + 1, _split_first))

    def with_starved_clients(self) -> Stream:
        """The usual stream, but client 0 has nothing and client 1 has one sample of each task."""
        return self._stream(SiBlurry(TASKS), Regrouped(CLIENTS, _starve))

    def test_numbers(self, stream: Stream) -> Tensor:
        """Test labels as registered class numbers."""
        return torch.from_numpy(stream.number)[self.test_labels]

    def holds_samples(self, leaf: Any) -> bool:
        """Whether a training sample lies in a tensor, along its rows or its columns."""
        if not isinstance(leaf, Tensor) or leaf.numel() % self.train[0].numel() or leaf.numel() == 0:
            return False
        samples = {row.numpy().tobytes() for row in self.train.flatten(1).double()}
        width = self.train[0].numel()
        ways = (leaf, leaf.T.contiguous()) if leaf.dim() == 2 else (leaf,)
        return any(row.numpy().tobytes() in samples for way in ways for row in way.reshape(-1, width).double())

    def _stream(self, temporal: Any, spatial: Any) -> Stream:
        return make_stream(self.train_labels.numpy(), self.test_labels.numpy(), temporal, spatial, SEED)

    def _draw(self, means: Tensor, per_class: int) -> tuple[Tensor, Tensor]:
        labels = torch.arange(CLASSES).repeat(per_class)
        samples = means[labels] + torch.randn(len(labels), FEATURES)
        if self.trainable:  # the first 12 features become the colours of the four quarters of an image
            corners = samples[:, :12].view(-1, 3, 2, 2).mul(12).add(128).clamp(0, 255).to(torch.uint8)
            noise = torch.randint(0, 8, (len(labels), 3, SIDE, SIDE), dtype=torch.uint8)
            samples = corners.repeat_interleave(SIDE // 2, 2).repeat_interleave(SIDE // 2, 3) // 2 + noise
        return samples, labels


@dataclass
class Watch:
    """A transport that remembers everything that passes through another one."""

    inner: Transport

    def __post_init__(self) -> None:
        self.kept: list[tuple[bytes, Any]] = []

    def keep(self, value: Any) -> None:
        """Remember a value as it is now."""
        self.kept.append((encode(value), value))

    def map(self, request: Request, clients: Iterable[Client]) -> Iterator[tuple[Any, float]]:
        """See :class:`fcl_bench.transport.Transport`."""
        self.keep(request.message)
        for reply, seconds in self.inner.map(request, clients):
            self.keep(reply)
            yield reply, seconds


@dataclass(frozen=True)
class Regrouped:
    """The usual partition with its shares dealt out differently."""

    clients: int
    regroup: Callable[[list[np.ndarray]], list[np.ndarray]]
    name: str = "regrouped"

    def split(self, labels: np.ndarray, seed: int, task: int) -> tuple[np.ndarray, ...]:
        """Positions for each client."""
        return tuple(self.regroup(list(Dirichlet(CLIENTS, alpha=0.5).split(labels, seed, task))))


def _split_first(shares: list[np.ndarray]) -> list[np.ndarray]:
    first = shares[0]
    return [first[::2], *shares[1:], first[1::2]]


def _starve(shares: list[np.ndarray]) -> list[np.ndarray]:
    return [shares[0][:0], shares[1][:1], np.concatenate([shares[0], shares[1][1:], shares[2]]), *shares[3:]]


def _little_network() -> nn.Module:
    """Images to features: one convolution, BatchNorm, mean of the four quarters."""
    with seeded(SEED):
        return nn.Sequential(
            _Scale(), nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(SIDE // 2), nn.Flatten()
        )


class _Scale(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images.float() / 128 - 0.5
