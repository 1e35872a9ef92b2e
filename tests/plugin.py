"""A package of somebody else that brings a method, as an installed one does."""

import sys
from pathlib import Path

import pytest

NEAREST_MEAN = '''"""Nearest mean: the class whose mean direction is closest.

Paper: none.
"""

from dataclasses import dataclass

import torch
from pydantic import PositiveFloat

from fcl_bench import Scores


@dataclass(frozen=True)
class Sums:
    totals: torch.Tensor


class NearestMean:
    exact = True

    def __init__(self, backbone, scale: PositiveFloat):
        self.features, self.scale = backbone.features, scale

    def init(self):
        return Sums(torch.zeros(0, self.features))

    def learn(self, state, task, clients):
        totals = torch.zeros(task.seen, self.features)
        totals[: len(state.totals)] = state.totals
        yield Sums(totals + sum(reply.totals for reply in clients.map(self.summarise, task.seen)))

    def summarise(self, client, classes):
        inputs, labels = client.data.tensors
        return Sums(torch.zeros(classes, self.features).index_add_(0, labels, inputs))

    def classifier(self, state):
        return Scores(self.scale * torch.nn.functional.normalize(state.totals.double()).T).eval()
'''
YAML = "# Nearest mean, of a third party\n_target_: third_party.nearest_mean.NearestMean\nscale: 1.0\n"


def install(site: Path, monkeypatch: pytest.MonkeyPatch, **more: str | bytes) -> Path:
    """Put the package ``third-party`` with the method ``nearest_mean`` on Python's path.

    ``more`` are further YAML files of methods, by name. Returns the folder of the package.
    """
    files = {f"configs/method/{name}.yaml": text for name, text in more.items()}
    return install_package(
        site,
        monkeypatch,
        "third_party",
        {
            "__init__.py": "",
            "nearest_mean.py": NEAREST_MEAN,
            "configs/__init__.py": "",
            "configs/method/nearest_mean.yaml": YAML,
            **files,
        },
    )


def install_package(site: Path, monkeypatch: pytest.MonkeyPatch, name: str, files: dict[str, str | bytes]) -> Path:
    """Put a package on Python's path that announces its ``configs``, as pip would."""
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)  # of another test
    metadata = {
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n",
        f"{name}-1.0.dist-info/entry_points.txt": f"[fcl_bench.configs]\nany_name = {name}.configs\n",
    }
    contents = metadata | {f"{name}/{file}": content for file, content in files.items()}
    for path, content in contents.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.syspath_prepend(site)
    return site / name
