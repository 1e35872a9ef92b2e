"""The first run on a data set: all that happens to an image besides the forward pass of the backbone."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from benchmarks.measure import Row, best
from fcl_bench.config import build, composed
from fcl_bench.dataset import Dataset
from fcl_bench.features import BATCH, cached_inputs
from fcl_bench.images import Pixels
from fcl_bench.world import deal

IMAGES = 512
REPEATS = 5


def first_run(data_dir: Path | None) -> Row:
    config = composed("method=afcl", "dataset=cifar100", f"data_dir={data_dir}", f"limit_train={IMAGES}")
    dataset = deal(config)[0] if data_dir else noise()
    backbone = build(config.backbone)
    network = backbone.network().eval()
    images = backbone.transform().resize(dataset.train.read(np.arange(IMAGES)))
    batches = [network.normalise(batch) for batch in images.split(BATCH)]

    def harness() -> None:
        with TemporaryDirectory() as folder:
            cached_inputs(dataset, "train", backbone, Path(folder))

    @torch.inference_mode()
    def bare() -> None:
        for batch in batches:
            network.model(batch)

    seconds, reference = best(REPEATS, harness, bare)
    how = (
        f"{IMAGES} images of {dataset.name} at {images.shape[-1]} px through {backbone.name}, best of {REPEATS}: "
        "read, resize, normalise, forward, write; reference: forward"
    )
    return Row("feature cache / forward passes", how, seconds, "s", reference, limit=1.05)


def noise() -> Dataset:
    """As large as CIFAR's images."""
    images = np.random.default_rng(0).integers(0, 256, (IMAGES, 3, 32, 32), dtype=np.uint8)
    half = Pixels(images, np.zeros(IMAGES, dtype=np.int64))
    return Dataset("noise", ("noise",), half, half, "noise")
