"""fcl_bench: the harness of a benchmark suite for federated continual learning.

A method needs no names but those below; docs/adding-a-method.md says what each of them is for. They are loaded when
first used, so that ``import fcl_bench`` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fcl_bench import linalg
    from fcl_bench.aggregate import Update, weighted_mean
    from fcl_bench.averaging import FederatedAveraging, Round, Training
    from fcl_bench.backbone import Backbone
    from fcl_bench.checks import check_method, configured
    from fcl_bench.client_data import ClientData
    from fcl_bench.door import (
        ByClass,
        Each,
        Equal,
        Gram,
        Kind,
        Labels,
        Like,
        LikeOwn,
        Range,
        Shape,
        Total,
        Triangle,
        Within,
    )
    from fcl_bench.errors import ConfigError, UserError
    from fcl_bench.evidence import Evidence
    from fcl_bench.federation import Client, Clients
    from fcl_bench.head import CosineToMeans, Head, Scores, grown
    from fcl_bench.held_back import released
    from fcl_bench.local import Fit, shuffled
    from fcl_bench.losses import (
        CrossEntropy,
        Distillation,
        Network,
        OptimizerFactory,
        Replayed,
        distillation,
        outputs,
    )
    from fcl_bench.message import StateDict, snapshot
    from fcl_bench.method import Method
    from fcl_bench.moments import Moments, Numbers, arithmetic_of, grid_for
    from fcl_bench.noisy_sums import Prepared, random_projection, restored, sensitivity, with_noise
    from fcl_bench.pull import Pull, squared_distance
    from fcl_bench.replay import Reservoir, Samples
    from fcl_bench.revealed import ClassSums
    from fcl_bench.softmax import Scope, columns_at_client, columns_for_all, log_frequencies, masked_targets
    from fcl_bench.stream import Task
    from fcl_bench.threads import numbers_per_sample, threads_for
    from fcl_bench.whole_numbers import Grid

_NAMES = {
    "aggregate": ("Update", "weighted_mean"),
    "averaging": ("FederatedAveraging", "Round", "Training"),
    "backbone": ("Backbone",),
    "checks": ("check_method", "configured"),
    "client_data": ("ClientData",),
    "door": (
        "ByClass",
        "Each",
        "Equal",
        "Gram",
        "Kind",
        "Labels",
        "Like",
        "LikeOwn",
        "Range",
        "Shape",
        "Total",
        "Triangle",
        "Within",
    ),
    "errors": ("ConfigError", "UserError"),
    "evidence": ("Evidence",),
    "federation": ("Client", "Clients"),
    "head": ("CosineToMeans", "Head", "Scores", "grown"),
    "held_back": ("released",),
    "local": ("Fit", "shuffled"),
    "losses": (
        "CrossEntropy",
        "Distillation",
        "Network",
        "OptimizerFactory",
        "Replayed",
        "distillation",
        "outputs",
    ),
    "message": ("StateDict", "snapshot"),
    "method": ("Method",),
    "moments": ("Moments", "Numbers", "arithmetic_of", "grid_for"),
    "noisy_sums": ("Prepared", "random_projection", "restored", "sensitivity", "with_noise"),
    "pull": ("Pull", "squared_distance"),
    "replay": ("Reservoir", "Samples"),
    "revealed": ("ClassSums",),
    "softmax": ("Scope", "columns_at_client", "columns_for_all", "log_frequencies", "masked_targets"),
    "stream": ("Task",),
    "threads": ("numbers_per_sample", "threads_for"),
    "whole_numbers": ("Grid",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [*_HOME, "linalg"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"fcl_bench.{_HOME[name]}"), name)
    raise AttributeError(f"module 'fcl_bench' has no attribute {name!r}")
