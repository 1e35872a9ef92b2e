"""Heads: a linear one that grows by a row per registered class, and the float64 ones of closed-form methods."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from fcl_bench.message import StateDict


class Head(nn.Linear):
    """A linear layer that takes the number of classes of whatever weights are loaded into it."""

    def __init__(self, features: int):
        super().__init__(features, 0)

    def reset_parameters(self) -> None:
        """No rows, nothing to draw: :func:`grown` makes the rows."""

    def _load_from_state_dict(self, state_dict: StateDict, prefix: str, *args: Any) -> None:
        rows = len(state_dict[f"{prefix}bias"])
        if rows != self.out_features:
            self.out_features = rows
            self.weight = nn.Parameter(self.weight.new_empty(rows, self.in_features))
            self.bias = nn.Parameter(self.bias.new_empty(rows))
        super()._load_from_state_dict(state_dict, prefix, *args)


class Scores(nn.Module):
    """A fixed linear map (features, classes), in float64 so that equal weights mean equal predictions."""

    def __init__(self, weights: Tensor):
        super().__init__()
        self.register_buffer("weights", weights.double())

    def forward(self, inputs: Tensor) -> Tensor:
        """(n, features) to (n, classes)."""
        return inputs.double() @ self.get_buffer("weights")


class CosineToMeans(nn.Module):
    """Cosines with class means, given as (classes, features) sums; -2, less than any, for a class whose count is 0."""

    def __init__(self, totals: Tensor, counts: Tensor):
        super().__init__()
        self.register_buffer("weights", normalize(totals.double()).T)
        self.register_buffer("unknown", counts == 0)

    def forward(self, features: Tensor) -> Tensor:
        """(n, features) to (n, classes)."""
        cosines = normalize(features.double()) @ self.get_buffer("weights")
        return cosines.masked_fill(self.get_buffer("unknown"), -2.0)


def grown(weights: StateDict, classes: int, head: str = "head") -> StateDict:
    """The same weights with head rows for ``classes`` classes: old rows untouched, new ones Kaiming-uniform, bias 0.

    >>> weights = {"head.weight": torch.ones(1, 3), "head.bias": torch.ones(1)}
    >>> grown(weights, 2)["head.bias"]
    tensor([1., 0.])
    """
    weight = weights[f"{head}.weight"]  # (rows, features)
    bias = weights[f"{head}.bias"]  # (rows,)
    missing = classes - len(bias)
    if missing <= 0:
        return weights
    bound = math.sqrt(3 / weight.shape[1])
    rows = weight.new_empty(missing, weight.shape[1]).uniform_(-bound, bound)
    return weights | {
        f"{head}.weight": torch.cat([weight, rows]),
        f"{head}.bias": torch.cat([bias, bias.new_zeros(missing)]),
    }
