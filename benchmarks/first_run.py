"""The first run on a data set: all that happens to an image besides the forward pass of the backbone."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor

from benchmarks.measure import Row, best
from fcl_bench.config.compose import build, composed
from fcl_bench.data.features import BATCH, cached_inputs
from fcl_bench.data.images import Pixels
from fcl_bench.dataset import Dataset
from fcl_bench.run.allocator import keep_freed_memory
from fcl_bench.run.scenario import plan
from fcl_bench.threads import threads_for

IMAGES = 1440  # as many as digits, the smallest set of images, has for training
REPEATS = 6  # a few percent are looked for


def first_run(data_dir: Path | None) -> Iterator[Row]:
    keep_freed_memory()  # as a run does; the reference gains as much
    config = composed("method=afcl", "dataset=cifar100", f"limit_train={IMAGES}", f"data_dir={data_dir or 'data'}")
    dataset = plan(config).dataset if data_dir else noise()
    backbone = build(config.backbone)
    network = backbone.network().eval()
    images = backbone.transform().resize(dataset.train.read(np.arange(IMAGES)))
    batches = [network.normalise(batch) for batch in images.split(BATCH["cpu"])]

    def harness() -> None:
        with TemporaryDirectory() as folder:
            cached_inputs(dataset, "train", backbone, Path(folder))

    @torch.inference_mode()
    def forward(batch: Tensor) -> None:
        network.model(batch)

    def loop() -> None:
        for batch in batches:
            forward(batch)

    def pool() -> None:
        with ThreadPoolExecutor(torch.get_num_threads()) as workers, threads_for(0):
            list(workers.map(forward, batches))

    seconds, looped, pooled = best(REPEATS, harness, loop, pool)
    how = f"read, resize, normalise, {backbone.name}, write {IMAGES} images at {images.shape[-1]} px; reference: ready "
    how += f"batches of {BATCH['cpu']}, "
    yield Row("feature cache / forward loop", f"{how}all cores on each; best of {REPEATS}", seconds, "s", looped, 1.05)
    yield Row("feature cache / forward passes", f"{how}a core for each; best of {REPEATS}", seconds, "s", pooled, 1.05)


def noise() -> Dataset:
    """Images as large as those of CIFAR."""
    images = np.random.default_rng(0).integers(0, 256, (IMAGES, 3, 32, 32), dtype=np.uint8)
    half = Pixels(images, np.zeros(IMAGES, dtype=np.int64))
    return Dataset("noise", ("noise",), half, half, "noise")
