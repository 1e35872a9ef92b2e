"""A trial: a method with some values learns the stream without the held-out samples, and is scored on these."""

import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from omegaconf import DictConfig

from fcl_bench.config.compose import build
from fcl_bench.errors import UserError
from fcl_bench.interruption import interrupted
from fcl_bench.learning import beginning, learn
from fcl_bench.run.evaluate import answer
from fcl_bench.run.metrics import accuracy_curves, accuracy_matrix, average_accuracy
from fcl_bench.run.result import VIEWS
from fcl_bench.run.scenario import Scenario
from fcl_bench.run.views import memberships, registered_in
from fcl_bench.threads import threads_fixed

DIGITS = 4  # of a percentage


@dataclass(frozen=True)
class Score:
    """Accuracies on the held-out samples in percent, or why there are none."""

    average_accuracy: float | None = None  # after the last task
    anytime_accuracy: float | None = None
    failed: str | None = None


@dataclass(frozen=True)
class Done:
    """A trial that has come to its end."""

    trial: str  # its id
    score: Score
    seconds: float


def carry_out(scenario: Scenario, trial: str, config: DictConfig) -> Done:
    """Run a trial; what goes wrong in it is its outcome."""
    start = perf_counter()
    try:
        with threads_fixed(config.threads), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            score = scored(replace(scenario, config=config))
    except Exception as error:
        if interrupted():
            raise
        score = Score(failed=_sentence(error))
    return Done(trial, score, perf_counter() - start)


def scored(scenario: Scenario) -> Score:
    """Learn the whole stream, and see what the held-out samples are taken for after each task."""
    stream = scenario.stream
    targets = scenario.dataset.test.labels
    rows = np.stack(list(_predictions(scenario)))
    matrix = accuracy_matrix(rows, targets, memberships(stream, targets)[VIEWS[0]])
    anytime = accuracy_curves(rows, targets, registered_in(stream, targets))["anytime_accuracy"]
    return Score(round(float(average_accuracy(matrix)[-1]), DIGITS), round(float(anytime[-1]), DIGITS))


def _predictions(scenario: Scenario) -> Iterator[np.ndarray]:
    method = scenario.method()
    stream = scenario.stream
    with closing(build(scenario.config.transport)) as transport:
        for progress in learn(method, scenario.federation(transport), beginning(method)):
            if progress.between_tasks:
                classifier = method.classifier(progress.state)
                yield answer(classifier, scenario.test, stream.order, stream.tasks[progress.task - 1]).labels


def _sentence(error: Exception) -> str:
    text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())
