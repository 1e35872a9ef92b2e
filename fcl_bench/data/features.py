"""What clients hold, computed once: the features of a frozen backbone, or resized images."""

import hashlib
import json
import re
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from fcl_bench.backbone import BackboneSource
from fcl_bench.data.cache import Label, Progress, Span, complete_entry
from fcl_bench.data.inputs import Inputs
from fcl_bench.dataset import Dataset, Half
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.threads import threads_for

FORMAT = 2  # of an entry; also to be raised when the same fingerprints come to mean other values
BATCH = {"cpu": 16, "cuda": 256}  # samples; on a CPU larger ones leave its cache and are up to twice as slow


def cached_inputs(
    dataset: Dataset,
    half: Literal["train", "test"],
    backbone: BackboneSource,
    cache_dir: Path,
    progress: Progress = lambda done, total: None,
) -> Inputs:
    """On disk: float32 features (n, d), or uint8 images (n, 3, size, size).

    What ``cache_dir`` does not have yet is computed, and ``progress`` is told (rows done, rows in all); it is not
    called when there is nothing to do.
    """
    rows = len(getattr(dataset, half).labels)
    if not rows:
        raise UserError(f"There are no {half} samples in {dataset.name}.")
    contents = {
        "format": FORMAT,
        "dataset": dataset.fingerprint,
        "half": half,
        "backbone": backbone.fingerprint(),
    }
    key = hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()[:16]
    name = re.sub(r"[^\w.-]+", "_", f"{dataset.name}-{half}-{backbone.name}-{key}")
    versions = {package: version(package) for package in ("torch", "torchvision", "timm")}
    label = Label(dataset.name, half, backbone.name, contents | {"versions": versions})
    compute = _Computation(dataset, half, backbone)
    dtype = "uint8" if backbone.holds_images else "float32"
    entry = complete_entry(cache_dir.absolute() / name, label, rows, dtype, compute, progress)
    return Inputs(entry.data, getattr(torch, entry.dtype), entry.shape)


@dataclass
class _Computation:
    """Computes rows of what clients hold.

    Each core has a batch of its own: where cores are shared with other programs, threads that divide one batch wait for
    each other, which was measured to be ten times slower. The batches of the next span are at hand before a span is
    complete, so that no core is idle at its end or while it is written.
    """

    dataset: Dataset
    half: str
    backbone: BackboneSource

    def __call__(self, spans: Iterable[Span]) -> Generator[np.ndarray]:
        """The rows of each span, all finite."""
        network = None if self.backbone.holds_images else self._network
        with _pool(torch.get_num_threads()) as pool, threads_for(0):
            under_way: deque[tuple[int, list[Future[np.ndarray]]]] = deque()
            for start, stop in spans:
                batches = np.split(np.arange(start, stop), range(self._at_once, stop - start, self._at_once))
                parts = [pool.submit(self._batch, network, batch) for batch in batches]
                under_way.append((start, parts))
                if len(under_way) > 1:
                    yield self._joined(*under_way.popleft())
            for start, parts in under_way:
                yield self._joined(start, parts)

    @property
    def _at_once(self) -> int:
        return BATCH[_device().type]

    def _joined(self, start: int, parts: list[Future[np.ndarray]]) -> np.ndarray:
        rows = np.concatenate([part.result() for part in parts])
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        if not finite.all():
            sample = start + int(np.argmin(finite))
            paths = getattr(getattr(self.dataset, self.half), "paths", None)
            file = f" ({paths[sample]})" if paths is not None else ""
            raise UserError(
                f"The features of {self.half} sample {sample}{file} of {self.dataset.name} are not finite numbers: "
                f"the sample, or the weights of {self.backbone.name}, must be damaged."
            )
        return rows

    @cached_property
    def _network(self) -> nn.Module:
        if _device().type == "cpu":
            return self.backbone.for_inference()  # a copy would take as long as forty images
        return self.backbone.network().eval().to(_device())

    @torch.inference_mode()
    def _batch(self, network: nn.Module | None, indices: np.ndarray) -> np.ndarray:
        samples: Half = getattr(self.dataset, self.half)
        read = samples.read(indices)
        if isinstance(read, Tensor) and read.ndim == 2:
            return self._ready_made(read)
        images = self.backbone.transform().resize(read)
        if network is None:
            return images.numpy()
        features = network(images.to(_device())).cpu()
        if features.ndim != 2:
            raise ConfigError(
                f"{self.backbone.name} gives more than one vector per image: choose another backbone.name."
            )
        return features.numpy()

    def _ready_made(self, features: Tensor) -> np.ndarray:
        problem = f"{self.dataset.name} has ready-made features, not images"
        if self.backbone.name != "none":
            raise ConfigError(f"{problem}: use backbone=none.")
        if self.backbone.holds_images:
            raise ConfigError(f"{problem}: set backbone.clients_hold=features.")
        return features.float().numpy()


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that are not waited for longer than the batches they are at."""
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
