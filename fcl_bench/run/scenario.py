"""What a run takes place in: the data as clients hold them, the stream, and how to build method and federation."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from fcl_bench.backbone import Backbone, BackboneSource
from fcl_bench.config.compose import build
from fcl_bench.data.cache import Progress, default_folder
from fcl_bench.data.features import cached_inputs
from fcl_bench.dataset import Dataset, limited
from fcl_bench.federation import Clients, Exchange, Federation, Meter
from fcl_bench.method import Method
from fcl_bench.run.allocator import keep_freed_memory
from fcl_bench.run.environment import forget_peak_memory, peak_memory_mb
from fcl_bench.run.identity import content_files, content_identity
from fcl_bench.run.summary import Checkpoint
from fcl_bench.seeds import derive, seeded
from fcl_bench.stream import Stream, make_stream


@dataclass(frozen=True)
class World:
    """Everything that is equal for all methods."""

    config: DictConfig
    dataset: Dataset
    stream: Stream
    train: Tensor  # inputs as clients hold them, memory-mapped
    test: Tensor
    backbone: Backbone

    def method(self) -> Method:
        """A fresh method: always the same one, wherever and however often it is made."""
        with seeded(derive(self.config.seed, "init")):
            return build(self.config.method, self.backbone)

    def federation(
        self, memories: dict[int, Any], on_answer: Callable[[Exchange], None], on_exchange: Callable[[Exchange], None]
    ) -> Federation:
        """All clients over the whole stream."""
        return Federation(
            stream=self.stream,
            inputs=self.train,
            labels=self.dataset.train.labels,
            build=self.method,
            transport=build(self.config.transport),
            participation=build(self.config.federation),
            seed=self.config.seed,
            on_answer=on_answer,
            on_exchange=on_exchange,
            memories=memories,
        )

    def start(self, state: Any) -> Checkpoint:
        """Before the first task."""
        return Checkpoint(state, {}, torch.zeros(0, len(self.test), dtype=torch.int64), (), {})


@dataclass(frozen=True)
class Dealt:
    """The data set within the limits of this run, and who gets which sample when; no image was read for that."""

    dataset: Dataset
    stream: Stream
    backbone: BackboneSource
    manifest: Path | None

    @property
    def files(self) -> tuple[Path, ...] | None:
        """All files that :attr:`identity` depends on; None where they are not known."""
        return content_files(self.dataset, self.backbone, self.manifest)

    @property
    def identity(self) -> str:
        """A hash of all contents that a result depends on besides the configuration."""
        return content_identity(self.dataset, self.stream, self.backbone)


def deal(config: DictConfig) -> Dealt:
    """Load the labels and deal the samples to tasks and clients.

    A method whose settings do not go together says so here, before anything is computed or written.
    """
    build(config.method, Backbone(features=1, trainable=config.backbone.trainable))
    settings: Any = OmegaConf.to_container(config.dataset, resolve=True)
    settings.pop("input_size", None)  # a hint to the backbone
    dataset = limited(build(OmegaConf.create(settings)), config.limit_train, config.limit_test, config.seed)
    temporal, spatial = build(config.stream), build(config.partition)
    stream = make_stream(dataset.train.labels, dataset.test.labels, temporal, spatial, config.seed)
    return Dealt(dataset, stream, build(config.backbone), temporal.manifest)


def prepare(config: DictConfig, dealt: Dealt, filling: Callable[[str], Progress]) -> World:
    """Have the inputs of both halves ready on disk."""
    keep_freed_memory()
    forget_peak_memory()
    dataset, backbone = dealt.dataset, dealt.backbone
    folder = Path(config.cache_dir) if config.cache_dir else default_folder()
    train = cached_inputs(dataset, "train", backbone, folder, filling("train inputs")).tensor
    test = cached_inputs(dataset, "test", backbone, folder, filling("test inputs")).tensor
    return World(config, dataset, dealt.stream, train, test, backbone.for_methods(train.shape[1:]))


def step(
    before: Checkpoint,
    state: Any,
    predictions: np.ndarray,
    others: dict[str, np.ndarray],
    federation: Federation,
    clients: Clients,
    meter: Meter,
) -> Checkpoint:
    """What is known after one task more; traffic and seconds add up."""
    past = before.costs[-1] if before.costs else {}
    spent = {
        "uplink_bytes": sum(exchange.uplink_bytes for exchange in clients.exchanges),
        "downlink_bytes": sum(exchange.downlink_bytes for exchange in clients.exchanges),
        "exchanges": len(clients.exchanges),
        "client_seconds": meter.client_seconds,
        "server_seconds": meter.server_seconds,
        "runtime_seconds": meter.client_seconds + meter.server_seconds,
    }
    costs = {name: past.get(name, 0) + value for name, value in spent.items()}
    costs["stored_bytes"] = federation.stored_bytes
    costs["peak_memory_mb"] = peak_memory_mb()
    rows = _appended(before.predictions, predictions)
    other_rows = {name: _appended(before.others.get(name), row) for name, row in others.items()}
    return Checkpoint(state, federation.memories, rows, (*before.costs, costs), other_rows)


def _appended(rows: Tensor | None, row: np.ndarray) -> Tensor:
    new = torch.from_numpy(row)[None]
    return new if rows is None else torch.cat([rows, new])
