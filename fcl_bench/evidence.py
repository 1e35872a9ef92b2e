"""What an exact answer rests on: the sums that it follows from, its weights, and what it says, as hashes.

The hashes do not depend on the order in which classes were registered, so equal ones mean equal answers to the bit,
whoever has computed them, from whichever stream.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from fcl_bench.message import StateDict


@dataclass(frozen=True)
class Evidence:
    """The sums of an exact method, and how many features were clipped where they were rounded."""

    common: StateDict  # sums over all classes
    by_class: StateDict  # (classes, ...) in the order of their registration
    clipped: int = 0


def hashes(evidence: Evidence, classifier: nn.Module, labels: np.ndarray) -> dict[str, str]:
    """Hashes of statistics and weights, see :func:`parts`."""
    return {name: digest(tensors) for name, tensors in parts(evidence, classifier, labels).items()}


def parts(evidence: Evidence, classifier: nn.Module, labels: np.ndarray) -> dict[str, StateDict]:
    """Statistics and weights, with classes in the order of their original ``labels``, given in that of registration.

    The classifier of an exact method has its weights, (features, classes), in a buffer of that name.
    """
    order = torch.from_numpy(labels.argsort())
    statistics = evidence.common | {name: value[order] for name, value in evidence.by_class.items()}
    weights = classifier.get_buffer("weights").T[order]
    return {"statistics": statistics, "weights": {"weights": weights}}


def digest(tensors: StateDict) -> str:
    """A hash of the numbers; whole numbers are the same in every integer type.

    >>> digest({"n": torch.tensor([1, 2], dtype=torch.int8)}) == digest({"n": torch.tensor([1, 2])})
    True
    """
    sha = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        numbers = _canonical(tensor)
        sha.update(f"{name} {numbers.dtype} {tuple(numbers.shape)}".encode())
        sha.update(numbers.numpy().tobytes())
    return sha.hexdigest()


def _canonical(tensor: Tensor) -> Tensor:
    plain = tensor.detach().cpu().contiguous()
    if plain.is_floating_point():
        return plain + 0.0  # -0.0 is 0.0
    return plain.long()
