"""Real kills of runs of every method, at several points inside tasks: they end as if nobody had killed them.

The runs are forks of this process, which start at once. ``python -m benchmarks.kills`` kills more.
"""

import importlib
import os
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from conftest import ROOT

from fcl_bench.checks.variants import BRIEF, method_node, short_settings
from fcl_bench.config.catalogue import catalogue
from fcl_bench.run import pace

KILLS = 3
DIGITS = (
    *("dataset=digits", "backbone=none", "limit_train=240", "limit_test=60", "stream.tasks=3", "partition.clients=3"),
    "logger=none",
)
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The functions of the command; every round is saved."""
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setattr(pace, "SHARE", float("inf"))
    return importlib.import_module("benchmarks.kills")


@pytest.mark.parametrize("method", sorted(catalogue()["method"]))
def test_killed_runs_end_as_if_nobody_had_killed_them(kills: ModuleType, method: str, tmp_path: Path) -> None:
    node = method_node(f"method={method}")
    settings = short_settings(node) | {name: value for name, value in BRIEF.items() if name in node}
    short = [f"method.{name}={value}" for name, value in settings.items()]
    words = (f"method={method}", *short, *DIGITS)
    tally = kills.killed_again_and_again(words, KILLS, Random(method), tmp_path)
    assert tally.kills == KILLS
    assert tally.good, str(tally)
