"""What a run takes place in: data as clients hold them, the stream, and what makes method and federation."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from fcl_bench.backbone import Backbone, BackboneSource
from fcl_bench.config.compose import HINTS, Maker, build
from fcl_bench.config.run_id import method_name
from fcl_bench.data.cache import Progress, default_folder
from fcl_bench.data.digests import remembered_in
from fcl_bench.data.feature_scale import factor_for, scaled
from fcl_bench.data.features import cached_inputs
from fcl_bench.data.inputs import Inputs, SomeInputs
from fcl_bench.dataset import Dataset, limited, with_first_classes
from fcl_bench.errors import ConfigError
from fcl_bench.federation import Federation
from fcl_bench.method import Method
from fcl_bench.privacy import Privacy
from fcl_bench.run.identity import content_files, content_identity
from fcl_bench.seeds import derive, seeded
from fcl_bench.stream import Stream, make_stream
from fcl_bench.traffic import Exchange
from fcl_bench.transport import Transport


@dataclass(frozen=True)
class MethodSource:
    """Makes a fresh method: always the same one, here or in another process."""

    make: Maker
    backbone: Backbone
    seed: int

    def __call__(self) -> Method:
        """A new object."""
        with seeded(derive(self.seed, "init")):
            return self.make(self.backbone)


@dataclass(frozen=True)
class Scenario:
    """Everything that is equal for all methods, and the method's settings."""

    config: DictConfig
    dataset: Dataset
    stream: Stream
    train: Inputs | SomeInputs  # as clients hold them
    test: Inputs | SomeInputs
    backbone: Backbone

    @cached_property
    def method(self) -> MethodSource:
        """What makes the method."""
        settings: Any = OmegaConf.to_container(self.config.method, resolve=True)
        return MethodSource(Maker(settings), self.backbone, self.config.seed)

    def federation(
        self,
        transport: Transport,
        on_answer: Callable[[Exchange], None] = lambda exchange: None,
        on_exchange: Callable[[Exchange], None] = lambda exchange: None,
    ) -> Federation:
        """All clients over the whole stream, reached by ``transport``."""
        return Federation(
            stream=self.stream,
            inputs=self.train,
            labels=self.dataset.train.labels,
            build=self.method,
            transport=transport,
            participation=build(self.config.federation),
            seed=self.config.seed,
            privacy=build(self.config.privacy),
            on_answer=on_answer,
            on_exchange=on_exchange,
        )


@dataclass(frozen=True)
class Plan:
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


def plan(config: DictConfig) -> Plan:
    """Load the labels and deal the samples to tasks and clients.

    A method whose settings do not go together says so here, before anything is computed or written.
    """
    method = checked_method(config)
    whole = load_dataset(config)
    planned = plan_on(config, limited(whole, config.limit_train, config.limit_test, config.seed))
    refuse_missing_samples(config, method, planned.stream)
    return planned


def checked_method(config: DictConfig) -> Method:
    """A method for looking at; a :class:`ConfigError` says which settings do not go together."""
    source: BackboneSource = build(config.backbone)
    method: Method = build(config.method, source.stand_in())
    privacy: Privacy = build(config.privacy)
    privacy.check(method)
    build(config.federation).check(privacy)
    return method


def load_dataset(config: DictConfig) -> Dataset:
    """All of the data set, of which no image was read."""
    settings: Any = OmegaConf.to_container(config.dataset, resolve=True)
    for hint in HINTS:
        settings.pop(hint, None)
    with remembered_in(cache_folder(config)):
        whole: Dataset = build(OmegaConf.create(settings))
    return with_first_classes(whole, config.limit_classes)


def plan_on(config: DictConfig, dataset: Dataset) -> Plan:
    """Deal the samples of a data set to tasks and clients."""
    temporal = build(config.stream)
    spatial = build(config.partition)
    stream = make_stream(dataset.train.labels, dataset.test.labels, temporal, spatial, config.seed)
    return Plan(dataset, stream, build(config.backbone), temporal.manifest)


def refuse_missing_samples(config: DictConfig, method: Method, stream: Stream) -> None:
    """Raise a :class:`ConfigError` if the method needs public samples that the stream does not reserve."""
    if getattr(method, "needs_public_samples", False) and len(stream.reserved) == 0:
        raise ConfigError(
            f"Expected public samples for method={method_name(config)}, which needs them with these settings, "
            "but the stream reserves none: set stream.reserved=20."
        )


def materialise(config: DictConfig, plan: Plan, filling: Callable[[str], Progress]) -> Scenario:
    """Have the inputs of both halves ready on disk."""
    dataset = plan.dataset
    backbone = plan.backbone
    folder = cache_folder(config)
    train = cached_inputs(dataset, "train", backbone, folder, filling("train inputs"))
    test = cached_inputs(dataset, "test", backbone, folder, filling("test inputs"))
    factor = factor_for(train, backbone.mean_norm)
    train = scaled(train, factor, dataset.name, "train", backbone.name, folder)
    test = scaled(test, factor, dataset.name, "test", backbone.name, folder)
    return Scenario(config, dataset, plan.stream, train, test, backbone.for_methods(train.shape[1:], factor))


def cache_folder(config: DictConfig) -> Path:
    """Where what takes long to compute is kept between runs."""
    return Path(config.cache_dir) if config.cache_dir else default_folder()
