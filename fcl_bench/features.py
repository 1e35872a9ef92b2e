"""What clients hold, computed once: the features of a frozen backbone, or resized images for a trainable one."""

import hashlib
import json
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from fcl_bench.backbone import BackboneConfig
from fcl_bench.cache import Compute, Label, Progress, stored_array
from fcl_bench.dataset import Dataset, Samples
from fcl_bench.errors import ConfigError, UserError

FORMAT = 1  # of an entry; also to be raised when the same fingerprints come to mean other values
READ = 64  # samples decoded at a time
BATCH = 16  # samples per forward pass on a CPU, where larger ones leave its cache and are up to twice as slow


def cached_inputs(
    dataset: Dataset,
    half: Literal["train", "test"],
    backbone: BackboneConfig,
    cache_dir: Path,
    progress: Progress = lambda done, total: None,
) -> Tensor:
    """Memory-mapped: float32 features (n, d), or uint8 images (n, 3, size, size) for a trainable backbone.

    What ``cache_dir`` does not have yet is computed, and ``progress`` is told (rows done, rows in all); it is not
    called when there is nothing to do.
    """
    samples: Samples = getattr(dataset, half)
    if not len(samples.labels):
        raise UserError(f"There are no {half} samples in {dataset.name}.")
    identity = {
        "format": FORMAT,
        "dataset": dataset.fingerprint,
        "half": half,
        "backbone": backbone.fingerprint(),
    }
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    name = re.sub(r"[^\w.-]+", "_", f"{dataset.name}-{half}-{backbone.name}-{key}")
    versions = {package: version(package) for package in ("torch", "torchvision", "timm")}
    label = Label(dataset.name, half, backbone.name, identity | {"versions": versions})
    compute = _compute(dataset, half, backbone)
    return torch.from_numpy(stored_array(cache_dir / name, label, len(samples.labels), compute, progress))


def _compute(dataset: Dataset, half: str, backbone: BackboneConfig) -> Compute:
    """Rows of what clients hold, from the samples of one half."""
    samples: Samples = getattr(dataset, half)
    transform = backbone.transform()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    @cache
    def network() -> nn.Module:
        return backbone.network().eval().to(device)

    def inputs(batch: Tensor | list[Tensor]) -> Tensor:
        if isinstance(batch, Tensor) and batch.ndim == 2:
            if backbone.name == "none":
                return batch
            raise ConfigError(f"{dataset.name} has ready-made features, not images: use backbone=none.")
        images = transform.resize(batch)
        if backbone.trainable:
            return images
        parts = images.split(BATCH if device.type == "cpu" else READ)
        features = torch.cat([network()(part.to(device)) for part in parts]).cpu()
        if features.ndim != 2:
            raise ConfigError(f"{backbone.name} gives more than one vector per image: choose another backbone.name.")
        return features

    @torch.inference_mode()
    def compute(start: int, stop: int) -> np.ndarray:
        reads = np.split(np.arange(start, stop), range(READ, stop - start, READ))
        rows = np.concatenate([inputs(samples.read(read)).numpy() for read in reads])
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        if not finite.all():
            raise UserError(
                f"The features of {half} sample {start + np.argmin(finite)} of {dataset.name} are not finite numbers: "
                f"the sample, or the weights of {backbone.name}, must be damaged."
            )
        return rows

    return compute
