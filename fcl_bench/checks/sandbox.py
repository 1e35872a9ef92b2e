"""A tiny scenario for checking methods: separable classes, a short stream, a few clients; no files, no downloads."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from fcl_bench.backbone import Backbone, Frozen, InputSpec
from fcl_bench.client_data import ClientData
from fcl_bench.decoding import decode
from fcl_bench.federation import Federation, Participation
from fcl_bench.learning import beginning, learn
from fcl_bench.message import encode
from fcl_bench.message_classes import declared_classes
from fcl_bench.method import Method
from fcl_bench.partition import Dirichlet, IidClients
from fcl_bench.privacy import PLAIN, Privacy
from fcl_bench.seeds import derive, seeded
from fcl_bench.stream import Stream, make_stream, without
from fcl_bench.temporal import IidTasks, SiBlurry
from fcl_bench.traffic import Exchange
from fcl_bench.transport import Answer, Call, Memories, Site, Transport
from fcl_bench.transport.in_process import InProcess

SEED = 1
CLASSES = 6
CLIENTS = 4
TASKS = 3
FEATURES = 16
SIDE = 8  # pixels of an image
UNIT = 1e-9  # of a sample of length 1: how near two of them are that are equal but for rounding
COARSE = 64  # whole numbers up to here could be those of many samples
RESERVED = 5  # public samples of a class, for methods that need them

Make = Callable[[Backbone], Method]


@dataclass(frozen=True)
class SandboxRun:
    """A finished run."""

    state: Any
    scores: Tensor  # of the final classifier on the test inputs
    states: int  # how many were handed out
    kept: list[tuple[bytes, Any]]  # if recorded, what was sent, answered, stored or handed out: as bytes then, and now
    replies: list[list[Any]]  # of every exchange
    calls: list[Call]  # of every exchange
    exchanges: list[Exchange]


class Sandbox:
    """Runs the method that ``make`` builds: on features, or on little images.

    Clients hold images for a ``trainable`` backbone, or for a frozen ``network`` from them to features.
    """

    def __init__(self, make: Make, trainable: bool = False, network: Callable[[], nn.Module] | None = None):
        self.make = make
        self.trainable = trainable
        self.network = _little_network if trainable else network
        with seeded(SEED):
            means = 4 * torch.randn(CLASSES, FEATURES)
            self.train, self.train_labels = self._draw(means, per_class=40)
            self.test, self.test_labels = self._draw(means, per_class=10)

    def method(self) -> Method:
        """A fresh method, always the same."""
        backbone = Backbone(FEATURES)
        if self.network:
            images = InputSpec((3, SIDE, SIDE), torch.uint8, 0, 255)
            backbone = Backbone(FEATURES, self.trainable, self.network, images)
        with seeded(derive(SEED, "init")):
            return self.make(backbone)

    @cached_property
    def plain(self) -> SandboxRun:
        """The usual run, which several checks look at."""
        return self.run(recorded=True)

    @cached_property
    def starved(self) -> SandboxRun:
        """A run in which a client has nothing and another one sample of each task."""
        return self.run(stream=self.with_starved_clients())

    def run(
        self,
        stream: Stream | None = None,
        transport: Transport | None = None,
        participation: Participation | None = None,
        interrupted: Literal["never", "tasks", "states"] = "never",
        recorded: bool = False,
        privacy: Privacy = PLAIN,
    ) -> SandboxRun:
        """Learn a stream.

        A run that is ``interrupted`` after every task, or after every state, goes on through bytes with a fresh method
        and fresh clients that remember what they kept. What passes is kept if it is to be ``recorded``.
        """
        watch = RecordingTransport(transport or InProcess(), recorded)
        exchanges: list[Exchange] = []
        stream = stream or self.stream
        who = participation or Participation()
        method = self.method()
        listen = exchanges.append
        federation = self._federation(stream, watch, who, privacy, listen)
        progress = beginning(method)
        states = 0
        while progress.task < len(stream.tasks):
            for progress in learn(method, federation, progress):
                watch.keep(progress.state)
                states += not progress.between_tasks
                if interrupted == "states" or (interrupted == "tasks" and progress.between_tasks):
                    break
            if interrupted != "never":
                assert states <= self.plain.states, "learn does not go on after task.yielded states: it hands out more"
                packed = encode((progress.state, federation.memories()))
                state, memories = decode(packed, declared_classes(type(method)))
                method = self.method()
                federation = self._federation(stream, watch, who, privacy, listen)
                federation.restore(memories)
                progress = progress.at(state)
        with torch.inference_mode():
            scores = method.classifier(progress.state)(self.test)
        watch.keep(federation.memories())
        return SandboxRun(progress.state, scores, states, watch.kept, watch.replies, watch.calls, exchanges)

    @cached_property
    def stream(self) -> Stream:
        """Si-Blurry over skewed clients."""
        return self._stream(SiBlurry(TASKS, reserved=self._reserved), Dirichlet(CLIENTS, alpha=0.5))

    def evenly_dealt(self, tasks: int) -> Stream:
        """Every client holds every class in every task."""
        return self._stream(IidTasks(tasks, reserved=self._reserved), IidClients(CLIENTS))

    def with_first_client_split(self) -> Stream:
        """The usual stream, but half of client 0's data are in the hands of one client more."""
        return self._stream(SiBlurry(TASKS, reserved=self._reserved), Regrouped(CLIENTS + 1, _split_first))

    def with_starved_clients(self) -> Stream:
        """The usual stream, but client 0 has nothing and client 1 has one sample of each task."""
        return self._stream(SiBlurry(TASKS, reserved=self._reserved), Regrouped(CLIENTS, _starve))

    def some_samples(self) -> Iterator[tuple[str, np.ndarray]]:
        """Samples of the usual stream that might be forgotten, as masks with their names."""
        task, client = self.stream.places.T
        labels = self.train_labels.numpy()[self.stream.samples]
        yield "a client", client == 0
        yield "a task", task == 0
        yield "a class", labels == 0
        yield "single samples", np.arange(len(labels)) % 50 == 0

    def without(self, forgotten: np.ndarray) -> Stream:
        """The usual stream without some of its samples."""
        return without(self.stream, forgotten, self.train_labels.numpy(), self.test_labels.numpy())

    def unlearned(self, forgotten: np.ndarray, new: Stream) -> Any:
        """The last state of the usual run after the method has unlearned some samples; ``new`` is the stream then."""
        indices = torch.from_numpy(self.stream.samples[forgotten])
        numbers = torch.from_numpy(self.stream.number)
        samples = ClientData(self.train, indices, numbers[self.train_labels[indices]])
        method: Any = self.method()
        return method.unlearn(self.plain.state, samples, numbers[torch.from_numpy(new.order)])

    def test_numbers(self, stream: Stream) -> Tensor:
        """Test labels as registered class numbers."""
        return torch.from_numpy(stream.number)[self.test_labels]

    def holds_samples(self, leaf: Any) -> bool:
        """Whether a training sample lies in a tensor, along its rows or its columns."""
        return bool(self.samples_in(leaf))

    def samples_in(self, leaf: Any) -> set[int]:
        """The training samples that lie in a tensor, along its rows or its columns, to the bit."""
        found = {self._samples.get(row.numpy().tobytes(), -1) for row in self._rows(leaf)}
        return found - {-1}

    def rounded_samples_in(self, leaf: Any) -> set[int]:
        """The training samples that lie in a tensor as whole numbers on a grid of any step, or with length 1."""
        rows = self._rows(leaf)
        samples = self.train.flatten(1).double()
        if not isinstance(leaf, Tensor) or leaf.is_floating_point():
            rows = rows[(rows.norm(dim=1) - 1).abs() < UNIT]
            gaps = torch.cdist(rows, normalize(samples), p=torch.inf)
            return set((gaps < UNIT).nonzero()[:, 1].tolist())
        rows = rows[rows.abs().amax(dim=1) > COARSE]
        steps = rows @ samples.T / rows.square().sum(dim=1, keepdim=True)  # of the grid that fits best
        gaps = (samples / steps[..., None] - rows[:, None]).abs().amax(dim=2)  # in steps: a half, as far as it fits
        return set((gaps <= 1).nonzero()[:, 1].tolist())

    def _rows(self, leaf: Any) -> Tensor:
        """The rows and columns of a tensor, (n, numbers of a sample), if they are as long as a sample."""
        width = self.train[0].numel()
        if not isinstance(leaf, Tensor) or leaf.numel() % width or leaf.numel() == 0:
            return torch.zeros(0, width, dtype=torch.float64)
        ways = (leaf, leaf.T.contiguous()) if leaf.dim() == 2 else (leaf,)
        return torch.cat([way.reshape(-1, width).double() for way in ways])

    @cached_property
    def _reserved(self) -> int:
        return RESERVED if getattr(self.method(), "needs_public_samples", False) else 0

    @cached_property
    def _samples(self) -> dict[bytes, int]:
        return {row.numpy().tobytes(): number for number, row in enumerate(self.train.flatten(1).double())}

    def _federation(
        self,
        stream: Stream,
        transport: Transport,
        who: Participation,
        privacy: Privacy,
        listen: Callable[[Exchange], None],
    ) -> Federation:
        labels = self.train_labels.numpy()
        return Federation(stream, self.train, labels, self.method, transport, who, SEED, privacy, on_exchange=listen)

    def _stream(self, temporal: Any, spatial: Any) -> Stream:
        return make_stream(self.train_labels.numpy(), self.test_labels.numpy(), temporal, spatial, SEED)

    def _draw(self, means: Tensor, per_class: int) -> tuple[Tensor, Tensor]:
        labels = torch.arange(CLASSES).repeat(per_class)
        samples = means[labels] + torch.randn(len(labels), FEATURES)
        if self.network:
            samples = _images(samples)
        return samples, labels


@dataclass
class RecordingTransport:
    """A transport that can remember everything that passes through another one."""

    inner: Transport
    recorded: bool

    def __post_init__(self) -> None:
        self.kept: list[tuple[bytes, Any]] = []
        self.replies: list[list[Any]] = []
        self.calls: list[Call] = []

    def keep(self, value: Any) -> None:
        """Remember a value as it is now, if anything is to be remembered."""
        if self.recorded:
            self.kept.append((encode(value), value))

    def open(self, site: Callable[[], Site]) -> None:
        """See :class:`fcl_bench.transport.Transport`."""
        self.inner.open(site)

    def map(self, call: Call, clients: Sequence[int]) -> Iterator[Answer]:
        """See :class:`fcl_bench.transport.Transport`."""
        self.keep(call.message)
        self.calls.append(call)
        replies: list[Any] = []
        self.replies.append(replies)
        for answer in self.inner.map(call, clients):
            self.keep(answer.reply)
            replies.append(answer.reply)
            yield answer

    def memories(self) -> Memories:
        """See :class:`fcl_bench.transport.Transport`."""
        return self.inner.memories()

    def restore(self, memories: Memories) -> None:
        """See :class:`fcl_bench.transport.Transport`."""
        self.inner.restore(memories)

    def close(self) -> None:
        """See :class:`fcl_bench.transport.Transport`."""
        self.inner.close()


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
    first, *others = shares
    return [first[::2], *others, first[1::2]]


def _starve(shares: list[np.ndarray]) -> list[np.ndarray]:
    nothing = shares[0][:0]
    one_sample = shares[1][:1]
    rest = np.concatenate([shares[0], shares[1][1:], shares[2]])
    return [nothing, one_sample, rest, *shares[3:]]


def _images(samples: Tensor) -> Tensor:
    """(n, features) to (n, 3, side, side): the first 12 features become the colours of the four quarters."""
    corners = samples[:, :12].view(-1, 3, 2, 2).mul(12).add(128).clamp(0, 255).to(torch.uint8)
    noise = torch.randint(0, 8, (len(samples), 3, SIDE, SIDE), dtype=torch.uint8)
    return corners.repeat_interleave(SIDE // 2, 2).repeat_interleave(SIDE // 2, 3) // 2 + noise


def _little_network() -> nn.Module:
    """Images to features: one convolution, BatchNorm, mean of the four quarters."""
    with seeded(SEED):
        return nn.Sequential(
            _Scale(), nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(SIDE // 2), nn.Flatten()
        )


def little_stages() -> nn.Module:
    """A frozen network with stages by the names of a ResNet, images to features."""
    with seeded(SEED):
        stages = {f"layer{number}": _convolution(3 if number == 1 else 4) for number in range(1, 5)}
        pool = nn.Sequential(nn.AvgPool2d(SIDE // 2), nn.Flatten())
        return Frozen(OrderedDict(scale=_Scale(), **stages, pool=pool))


def _convolution(channels: int) -> nn.Module:
    convolution = nn.Conv2d(channels, 4, 3, padding=1)
    nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
    return nn.Sequential(convolution, nn.ReLU())


def little_transformer() -> nn.Module:
    """A frozen vision transformer of timm, images to features, whose random weights are not too small to matter."""
    from timm.models.vision_transformer import VisionTransformer  # takes a second, and few methods need it

    with seeded(SEED), torch.no_grad():
        transformer = VisionTransformer(SIDE, SIDE // 2, num_classes=0, embed_dim=FEATURES, depth=2, num_heads=2)
        for weight in transformer.blocks.parameters():
            if weight.dim() == 2:
                weight.mul_(10)
    return Frozen(OrderedDict(scale=_Scale(), model=transformer))


class _Scale(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images.float() / 128 - 0.5
