"""What a method's classifiers say about the test set after a task."""

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import nn

from fcl_bench.evidence import digest, hashes
from fcl_bench.learning import Progress
from fcl_bench.method import facts, other_classifiers
from fcl_bench.run.evaluate import Answers, answer, predict
from fcl_bench.run.metrics import accuracy
from fcl_bench.run.scenario import Scenario
from fcl_bench.transport import Memories


@dataclass(frozen=True)
class TaskScores:
    """What is said about every test sample."""

    answers: Answers
    others: dict[str, Answers]  # of other classifiers, by name
    personal: tuple[float | None, ...] | None  # accuracy of each client's own classifier on the classes it has held
    server_seconds: float  # that it took to make the classifier
    evidence: dict[str, Any]  # of exact methods, after the last task


def score(method: Any, progress: Progress, memories: Memories, scenario: Scenario) -> TaskScores:
    """Score the state at the end of a task by every classifier the method has."""
    test = scenario.test.tensor
    order = scenario.stream.order
    task = scenario.stream.tasks[progress.task - 1]
    start = perf_counter()
    classifier = method.classifier(progress.state)
    seconds = perf_counter() - start
    answers = answer(classifier, test, order, task)
    return TaskScores(
        answers=answers,
        others={name: answer(other, test, order, task) for name, other in other_classifiers(method, progress.state)},
        personal=_personal_accuracies(method, progress, memories, scenario),
        server_seconds=seconds,
        evidence=_evidence(method, progress, classifier, answers, scenario),
    )


def _evidence(
    method: Any, progress: Progress, classifier: nn.Module, answers: Answers, scenario: Scenario
) -> dict[str, Any]:
    """Hashes of an exact answer; nothing before the last task, and for methods that offer no evidence."""
    last = progress.task == len(scenario.stream.tasks)
    if not last or not facts(method)["exact"] or not hasattr(method, "evidence"):
        return {}
    evidence = method.evidence(progress.state)
    predictions = {"predictions": torch.from_numpy(answers.labels)}
    return {
        **hashes(evidence, classifier, scenario.stream.order),
        "predictions": digest(predictions),
        "clipped": evidence.clipped,
    }


def _personal_accuracies(
    method: Any, progress: Progress, memories: Memories, scenario: Scenario
) -> tuple[float | None, ...] | None:
    """In percent, client by client; None for a client that has held no class, and for methods without the ability."""
    make = getattr(method, "personal_classifier", None)
    if make is None:
        return None
    accuracies: list[float | None] = []
    for client in range(scenario.stream.clients):
        own = np.flatnonzero(_held_by(client, progress.task, scenario))
        if len(own) == 0:
            accuracies.append(None)
            continue
        classifier = make(progress.state, memories.get(client, {}))
        inputs = scenario.test[torch.from_numpy(own)]
        predictions = predict(classifier, inputs, scenario.stream.order, scenario.stream.tasks[progress.task - 1])
        targets = scenario.dataset.test.labels[own]
        accuracies.append(accuracy(predictions, targets, np.ones(len(own), dtype=bool)))
    return tuple(accuracies)


def _held_by(client: int, tasks: int, scenario: Scenario) -> np.ndarray:
    """Which test samples are of a class that the client has held in the first ``tasks`` tasks."""
    task, owner, number, _ = scenario.stream.counts.T
    classes = np.unique(number[(owner == client) & (task < tasks)])
    return np.isin(scenario.dataset.test.labels, scenario.stream.order[classes])
