"""What trials are run and scored on: training samples alone. Of the test half neither inputs nor labels are read."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NoReturn

import numpy as np
import torch
from omegaconf import DictConfig

from fcl_bench.data.cache import Progress
from fcl_bench.data.feature_scale import factor_for, scaled
from fcl_bench.data.features import cached_inputs
from fcl_bench.data.inputs import SomeInputs
from fcl_bench.dataset import limited
from fcl_bench.errors import UserError
from fcl_bench.run.identity import content_identity
from fcl_bench.run.scenario import Scenario, cache_folder, load_dataset, plan_on
from fcl_bench.seeds import generator

ONE_IN = 5  # samples of a class is held out


class Labels:
    """A half whose samples were read before, all at once."""

    def __init__(self, labels: np.ndarray):
        self.labels = labels

    def read(self, indices: np.ndarray) -> NoReturn:
        """Nobody asks for samples one by one any more."""
        raise UserError("Expected the samples of a trial to come from the feature cache.")


@dataclass(frozen=True)
class HeldOut:
    """A scenario without part of its training samples, which take the place of the test set."""

    scenario: Scenario
    samples: np.ndarray  # their training indices, ascending
    contents: str  # a hash of data, stream and weights

    @property
    def hash(self) -> str:
        """Equal if the same samples with the same labels were held out."""
        digest = sha256(self.samples.astype(np.int64).tobytes())
        digest.update(self.scenario.dataset.test.labels.astype(np.int64).tobytes())
        return digest.hexdigest()[:16]


def hold_out(config: DictConfig, filling: Callable[[str], Progress]) -> HeldOut:
    """The same for every method: who gets which of the samples that are left depends on the seed alone."""
    whole = limited(load_dataset(config), config.limit_train, None, config.seed)
    labels = whole.train.labels
    held = held_out_samples(labels, config.seed)
    left = np.setdiff1d(np.arange(len(labels)), held)
    if len(held) == 0:
        raise UserError(f"Of {len(labels)} training samples none can be held out: use more of them.")
    dataset = replace(whole, train=Labels(labels[left]), test=Labels(labels[held]), files=None)
    planned = plan_on(config, dataset)
    backbone = planned.backbone
    folder = cache_folder(config)
    inputs = cached_inputs(whole, "train", backbone, folder, filling("train inputs"))
    factor = factor_for(inputs, backbone.mean_norm)
    inputs = scaled(inputs, factor, whole.name, "train", backbone.name, folder)
    scenario = Scenario(
        config=config,
        dataset=planned.dataset,
        stream=planned.stream,
        train=SomeInputs(inputs, torch.from_numpy(left)),
        test=SomeInputs(inputs, torch.from_numpy(held)),
        backbone=backbone.for_methods(inputs.shape[1:], factor),
    )
    return HeldOut(scenario, held, content_identity(whole, planned.stream, backbone))


def held_out_samples(labels: np.ndarray, seed: int) -> np.ndarray:
    """A fifth of the training indices, drawn at random so that every class has its share."""
    shuffled = generator(seed, "held out").permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    return np.sort(by_class[ONE_IN - 1 :: ONE_IN])
