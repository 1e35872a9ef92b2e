"""fcl_bench: the harness of a benchmark suite for federated continual learning.

A method needs little more than the names below; they are loaded when first used, so that ``import fcl_bench`` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fcl_bench.aggregate import Update, weighted_mean
    from fcl_bench.backbone import Backbone
    from fcl_bench.checks import check_method
    from fcl_bench.errors import ConfigError, UserError
    from fcl_bench.federation import Client, Clients
    from fcl_bench.head import Scores, grown
    from fcl_bench.local import Fit
    from fcl_bench.message import StateDict, snapshot
    from fcl_bench.method import Method
    from fcl_bench.stream import Task
    from fcl_bench.threads import threads_for

_HOME = {
    "Update": "aggregate",
    "weighted_mean": "aggregate",
    "Backbone": "backbone",
    "check_method": "checks",
    "ConfigError": "errors",
    "UserError": "errors",
    "Client": "federation",
    "Clients": "federation",
    "Scores": "head",
    "grown": "head",
    "Fit": "local",
    "StateDict": "message",
    "snapshot": "message",
    "Method": "method",
    "Task": "stream",
    "threads_for": "threads",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"fcl_bench.{_HOME[name]}"), name)
    raise AttributeError(f"module 'fcl_bench' has no attribute {name!r}")
