"""What a tuning has chosen, as configuration: one YAML for each method, written from the file of the tuning."""

from pathlib import Path
from typing import Any

import yaml

from fcl_bench.files import write_atomically, writing_to
from fcl_bench.tuning.outcome import Outcome, Tuned


def write_configs(outcome: Outcome, folder: Path) -> list[Path]:
    """``folder/<protocol>/<method>.yaml`` of every method whose trials are complete; the paths."""
    place = folder / (outcome.protocol or "none")
    written = []
    for method, tuned in outcome.methods.items():
        if tuned.best is None and tuned.search:
            continue
        path = place / f"{method}.yaml"
        with writing_to(place, "--configs"):
            place.mkdir(parents=True, exist_ok=True)
            write_atomically(path, configuration(outcome, method).encode())
        written.append(path)
    return written


def configuration(outcome: Outcome, method: str) -> str:
    """The YAML of a method."""
    tuned = outcome.methods[method]
    under = f"under {outcome.protocol}" if outcome.protocol else "without a protocol"
    trials = len(tuned.trials)
    what = f"the best of {trials} trials on held-out training samples" if tuned.search else "there is nothing to tune"
    values = {"method": nested(_chosen(tuned))} if tuned.search else {}
    return "".join(
        [
            "# @package _global_\n",
            f"# {method} {under}: {what} (python -m fcl_bench tune)\n",
            yaml.safe_dump(values, sort_keys=False) if values else "",
            "settings:\n",
            "  name: tuned\n",
            f"  trials: {trials}\n",
            f"  hyperparameters: [{', '.join(sorted(tuned.search))}]\n",
        ]
    )


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """Settings by their dotted names as groups within groups.

    >>> nested({"lr": 0.1, "optimizer.momentum": 0.9})
    {'lr': 0.1, 'optimizer': {'momentum': 0.9}}
    """
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *groups, key = name.split(".")
        node = tree
        for group in groups:
            node = node.setdefault(group, {})
        node[key] = value
    return tree


def _chosen(tuned: Tuned) -> dict[str, Any]:
    return next(trial.values for trial in tuned.trials if trial.trial == tuned.best)
