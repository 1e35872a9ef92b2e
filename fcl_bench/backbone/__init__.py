"""Backbones, from two sides.

:class:`BackboneSource` is the node ``backbone`` of the configuration: which network, weights and transform. The harness
computes with it what clients hold. :class:`Backbone` is what a method is given: how many features there are, and how to
build the module that makes them from what clients hold.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import nn

from fcl_bench.backbone.transforms import AUGMENTATIONS, Colour, Normalise, Transform, channels_may_be_last
from fcl_bench.backbone.weights import BUNDLED, TIMM_NAMES, load_network, shared_digest, timm_card, weight_files
from fcl_bench.errors import ConfigError

BOUNDS = dict.fromkeys(("efficientnet_lite0", "tf_efficientnet_lite0"), 6.0)  # means of ReLU6


@dataclass(frozen=True)
class InputSpec:
    """One sample as a client holds it; ``low`` and ``high`` are None where the range of its values is not known."""

    shape: tuple[int, ...]  # (features,), or (3, height, width) for images
    dtype: torch.dtype = torch.float32
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Backbone:
    """What a method knows of the backbone.

    Each ``build()`` gives an independent module with the same initial weights, from inputs as clients hold them to
    (n, features). Where clients hold features, it is the identity. Where they hold uint8 images, it is the whole
    network: to be trained if the backbone is ``trainable``, else with fixed weights and always in evaluation mode.

    ``augment()`` gives what comes before it: in training mode a random change of the inputs, else nothing.
    ``inputs`` says what one sample is; where it is not given, samples are the features.
    """

    features: int
    trainable: bool = False
    build: Callable[[], nn.Module] = nn.Identity
    inputs: InputSpec = InputSpec(())
    augment: Callable[[], nn.Module] = nn.Identity

    def __post_init__(self) -> None:
        if not self.inputs.shape:
            object.__setattr__(self, "inputs", InputSpec((self.features,)))


class Frozen(nn.Sequential):
    """Layers in a row that stay as they are: no gradients for their weights, and no mode for training."""

    def __init__(self, layers: "OrderedDict[str, nn.Module]"):
        super().__init__(layers)
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Self:
        """Evaluation mode, whatever is asked for: BatchNorm keeps its statistics."""
        return super().train(False)


@dataclass(frozen=True)
class BackboneSource:
    """Any network of timm, or ``none``: raw pixels, or the ready-made features of a data set as they are.

    ``input_size``, ``mean``, ``std`` and ``interpolation`` are those the network was trained with where they are None.
    Resized images are ``rounded`` to whole grey levels, as Pillow does, or kept as they come out of the interpolation.
    ``augment`` matters only while a trainable backbone trains, ``seed`` only to random weights.

    ``stem: cifar`` begins a ResNet with a fresh 3x3 convolution and no pooling, for small images; ``width`` is how many
    channels its first stage has, the next ones twice as many each. ``norm`` is what a trainable backbone has in place
    of BatchNorm: GroupNorm, or BatchNorm with statistics and weights that stay as they were loaded.

    ``clients_hold`` is what clients have of each sample; None means images for a trainable backbone, else features.

    ``feature_range`` is the largest magnitude of a feature, for methods that round features to whole numbers. It is
    public: one that was read off the data would make results depend on them. None is the bound of the last layer where
    that is known to have one.

    ``mean_norm`` is the scale of features: all are multiplied by one number, so that those for training have this mean
    norm. None leaves them as the network gives them.
    """

    name: str
    weights: str = "none"
    input_size: PositiveInt | None = None
    mean: Colour | None = None
    std: tuple[PositiveFloat, PositiveFloat, PositiveFloat] | None = None
    interpolation: Literal["bilinear", "bicubic", "nearest"] | None = None
    rounded: bool = True
    trainable: bool = False
    augment: Literal["none", "crop_flip", "crop_flip_brightness", "resized_crop_flip"] = "none"
    seed: int = 0
    stem: Literal["standard", "cifar"] = "standard"
    norm: Literal["bn", "gn", "frozen_bn"] = "bn"
    width: PositiveInt | None = None
    clients_hold: Literal["features", "images"] | None = None
    feature_range: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    mean_norm: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    def __post_init__(self) -> None:
        if self.name == "none" and self.trainable:
            raise ConfigError("backbone=none has nothing to train: set backbone.trainable=false.")
        if self.weights == "bundled" and self.name != BUNDLED:
            raise ConfigError(
                f"backbone.weights=bundled exists for {BUNDLED} only: for another network set "
                f"backbone=timm backbone.name={self.name}, which downloads weights."
            )
        if self.trainable and self.clients_hold == "features":
            raise ConfigError(
                "backbone.trainable=true trains on images, but backbone.clients_hold=features: "
                "set backbone.clients_hold=images, or backbone.trainable=false."
            )
        if self.mean_norm is not None and self.holds_images:
            raise ConfigError(
                f"backbone.mean_norm={self.mean_norm:g} is the scale of features, but clients hold images here: "
                "set backbone.mean_norm=null."
            )
        self._check_changes()

    @property
    def holds_images(self) -> bool:
        """Whether clients hold images; else they hold features."""
        return self.trainable or self.clients_hold == "images"

    def _check_changes(self) -> None:
        """What a look at the settings alone can tell about changes to the network."""
        if self.name == "none" and (self.stem != "standard" or self.width is not None):
            raise ConfigError("backbone=none has no layers to change: set backbone.stem=standard backbone.width=null.")
        if self.width is not None and self.weights != "none":
            raise ConfigError(
                f"backbone.width={self.width} makes a network that backbone.weights={self.weights} does not fit: "
                "set backbone.weights=none or backbone.width=null."
            )
        if self.norm != "bn" and not self.trainable:
            raise ConfigError(
                f"backbone.norm={self.norm} is for training, but this backbone is frozen and its features need its own "
                "BatchNorm: set backbone.norm=bn or backbone.trainable=true."
            )
        if self.norm == "frozen_bn" and self.weights == "none":
            raise ConfigError(
                "backbone.norm=frozen_bn keeps what BatchNorm has learnt, but with backbone.weights=none it has learnt "
                "nothing: set backbone.weights to trained ones, or backbone.norm=gn."
            )

    def transform(self) -> Transform:
        """What is done to images, with nothing left open."""
        own = Transform(None, "bicubic", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
        if self.name != "none":
            card = timm_card(self.name)
            own = Transform(card.input_size[-1], card.interpolation, card.mean, card.std)
            if card.fixed_input_size and self.input_size not in (None, own.size):
                raise ConfigError(
                    f"Expected backbone.input_size={own.size} (or null), the only size {self.name} accepts, "
                    f"but got {self.input_size}."
                )
        return Transform(
            self.input_size or own.size,
            self.interpolation or own.interpolation,
            self.mean or own.mean,
            self.std or own.std,
            self.rounded or self.holds_images,  # clients keep images as bytes
        )

    def identity(self) -> dict[str, object]:
        """All contents that decide a result: two equal ones are the same network, weights and transform."""
        known: dict[str, object] = {"network": TIMM_NAMES.get(self.name, self.name), **asdict(self.transform())}
        if self.name != "none":
            known["weights"] = shared_digest(self._initial())
        return known

    def fingerprint(self) -> dict[str, object]:
        """The part of :meth:`identity` that decides what clients hold: with equal data, it gives equal inputs."""
        if not self.holds_images:
            return self.identity()
        transform = self.transform()
        return {"size": transform.size, "interpolation": transform.interpolation}

    def files(self) -> tuple[Path, ...] | None:
        """What :meth:`identity` was read from; None where that is not known."""
        return () if self.name == "none" else weight_files(self.name, self.weights)

    def network(self) -> nn.Module:
        """From resized uint8 images to (n, features); each call gives an independent module with the same weights."""
        layers = self._layers(nn.Flatten() if self.name == "none" else deepcopy(self._initial()))
        return nn.Sequential(layers).train() if self.trainable else Frozen(layers)

    def for_inference(self) -> nn.Module:
        """The same, to compute with in evaluation mode and not to be changed: it may share its weights with others."""
        return nn.Sequential(self._layers(nn.Flatten() if self.name == "none" else self._initial())).eval()

    def _layers(self, model: nn.Module) -> "OrderedDict[str, nn.Module]":
        transform = self.transform()
        normalise = Normalise(transform.mean, transform.std, channels_may_be_last(model))
        return OrderedDict(normalise=normalise, model=model)

    def augmentation(self) -> nn.Module:
        """From images to images, changed at random in training mode only."""
        return AUGMENTATIONS[self.augment]()

    def stand_in(self) -> Backbone:
        """What a method can be built on to see whether its settings go together, before data and weights are read."""
        if not self.holds_images:
            return Backbone(features=1)
        return Backbone(features=1, trainable=self.trainable, inputs=InputSpec((3, 1, 1), torch.uint8, 0, 255))

    @torch.no_grad()
    def for_methods(self, sample: Sequence[int], factor: float = 1.0) -> Backbone:
        """The view of a method on this backbone, when ``sample`` is the shape of what clients hold of one sample.

        Features have been multiplied by ``factor``.
        """
        shape = tuple(sample)
        if not self.holds_images:
            bound = self.feature_range or BOUNDS.get(self.name)
            bound = bound and bound * factor
            return Backbone(shape[0], inputs=InputSpec(shape, low=bound and -bound, high=bound))
        image = torch.zeros(1, *shape, dtype=torch.uint8)
        features = self.network().eval()(image).shape[1]
        augment = self.augmentation if self.trainable else nn.Identity
        return Backbone(features, self.trainable, self.network, InputSpec(shape, torch.uint8, 0, 255), augment)

    def _initial(self) -> nn.Module:
        return load_network(self.name, self.weights, self.seed, self.stem, self.norm, self.width)
