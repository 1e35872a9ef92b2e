"""Classifiers beside the global one: what is recorded of them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Command

from fcl_bench.methods.fedncm import FedNCM


class Loyal(torch.nn.Module):
    """Always the same class."""

    def __init__(self, number: int, classes: int):
        super().__init__()
        self.scores = torch.nn.functional.one_hot(torch.tensor(number), classes).double()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.scores.expand(len(inputs), -1)


class Personal(FedNCM):
    """Every client predicts the first class it has ever held."""

    def summarise(self, client, classes):
        if len(client.data):
            client.memory.setdefault("first", int(client.data.labels[0]))
        return super().summarise(client, classes)

    def personal_classifier(self, state, memory):
        return Loyal(memory["first"], len(state.counts))


def test_personal_classifiers_are_scored_on_the_classes_of_their_clients(
    tiny: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcl_bench.methods.fedncm.FedNCM", Personal)
    done = tiny("method=fedncm", "resume=false")
    assert done.code == 0, done.err
    stream = np.load(done.folder / "stream.npz")
    targets = np.load(done.folder / "predictions.npz")["targets"]
    counts = np.array(json_of(done.folder / "stream.json")["counts"])
    for tasks, accuracies in enumerate(done.result["personal_accuracies"], start=1):
        expected = []
        for client in range(3):
            own = counts[(counts[:, 1] == client) & (counts[:, 0] < tasks)]
            classes = set(stream["order"][own[:, 2]])
            samples = [target for target in targets if target in classes]
            (first,) = {done_first(done.folder, client)}
            expected.append(100 * samples.count(first) / len(samples))
        assert accuracies == pytest.approx(expected)
    curve = done.result["curves"]["personal_accuracy"]
    assert curve == pytest.approx([np.mean(row) for row in done.result["personal_accuracies"]])
    assert done.result["metrics"]["personal_accuracy"] == curve[-1]


def json_of(path: Path) -> dict:
    import json

    return json.loads(path.read_text())


def done_first(folder: Path, client: int) -> int:
    """The original label of the first class a client has held, from its memory in the checkpoint."""
    from fcl_bench.message_classes import declared_classes
    from fcl_bench.methods.fedncm import FedNCM
    from fcl_bench.run.checkpoints import read

    memory = read(folder / "checkpoint" / "checkpoint.safetensors", declared_classes(FedNCM)).memories[client]
    return int(np.load(folder / "stream.npz")["order"][memory["first"]])


def test_methods_without_personal_classifiers_have_no_such_metric(afcl_run) -> None:
    assert "personal_accuracy" not in afcl_run.result["metrics"]
    assert "personal_accuracies" not in afcl_run.result
