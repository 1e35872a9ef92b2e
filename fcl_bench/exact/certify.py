"""To certify a record: the answer is computed again in one place, without clients or tasks, and compared with it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fcl_bench.errors import ConfigError, UserError
from fcl_bench.exact.answers import Answer, answer_of, joint_answer
from fcl_bench.exact.certificate import FILE, Certificate, encoded, fingerprint, worst
from fcl_bench.exact.comparison import compared, hashes_of, sentence
from fcl_bench.exact.finished import FinishedRun, opened
from fcl_bench.files import write_atomically
from fcl_bench.message import StateDict
from fcl_bench.run.environment import environment
from fcl_bench.run.metrics import accuracy_matrix
from fcl_bench.run.result import VIEWS
from fcl_bench.run.scenario import Scenario
from fcl_bench.run.views import memberships

HASHED = ("statistics", "weights", "predictions")  # in the evidence of a record


def certify(path: Path, overrides: Sequence[str] = ()) -> Certificate:
    """Write ``certificate.json`` beside a record, whatever it says."""
    run = opened(path, overrides)
    run.refuse_unless_exact("evidence", "joint")
    certificate = certificate_of(run)
    place = run.path.with_name(FILE)
    try:
        write_atomically(place, encoded(certificate))
    except OSError as error:
        raise UserError(f"Cannot write {place}: {error.strerror}; make room, or make its folder writable.") from error
    return certificate


def certificate_of(run: FinishedRun) -> Certificate:
    """What there is to say of a record."""
    scenario = run.scenario
    method = scenario.method()
    expected = joint_answer(method, scenario)
    expected["accuracies"] = _accuracies_of(expected["predictions"]["predictions"].numpy(), scenario)
    recorded, found = _recorded(run, method, expected)
    parts = compared(recorded, found, expected)
    samples = len(scenario.stream.samples)
    return Certificate(
        record=fingerprint(run.path),
        run_id=run.result["run_id"],
        verdict=worst(parts),
        sentence=sentence(parts, f"one place with all {samples:,} samples", len(scenario.test)),
        parts=parts,
        samples=samples,
        classes=len(scenario.stream.order),
        environment=environment(run.config.method["_target_"]),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _recorded(run: FinishedRun, method: Any, expected: Answer) -> tuple[dict[str, str], Answer]:
    """The hashes of the record, and what they stand for as far as it is known: the state, where it matters."""
    accuracies: Answer = {"accuracies": _accuracies_in(run)}
    evidence = run.result.get("evidence", {})
    hashes = {name: evidence[name] for name in HASHED if name in evidence}
    wanted = hashes_of({name: expected[name] for name in HASHED})
    if hashes == wanted:
        return hashes | hashes_of(accuracies), accuracies
    if not run.has_checkpoint:
        _refuse_to_guess(run, hashes, expected)
        return hashes | hashes_of(accuracies), accuracies
    found = answer_of(method, run.checkpoint().progress.state, run.scenario)
    return hashes_of(found) | hashes | hashes_of(accuracies), found | accuracies


def _refuse_to_guess(run: FinishedRun, hashes: dict[str, str], expected: Answer) -> None:
    """Without a state, hashes have to do: they must be there, and be those of whole numbers."""
    if not hashes:
        raise ConfigError(f"The record {run.path} has neither evidence nor a checkpoint to be compared: run it again.")
    if any(tensor.is_floating_point() for tensor in expected["statistics"].values()):
        raise ConfigError(
            f"The record {run.path} has no checkpoint, and by hashes alone rounded sums cannot be compared: run it "
            "again, or with method.arithmetic=integer."
        )


def _accuracies_of(predictions: np.ndarray, scenario: Scenario) -> StateDict:
    """On the tests of all tasks after the last one, and their mean, which is the headline."""
    targets = scenario.dataset.test.labels
    members = memberships(scenario.stream, targets)[VIEWS[0]]
    (row,) = accuracy_matrix(predictions[None], targets, members)
    return _row([*row, np.nanmean(row)])


def _accuracies_in(run: FinishedRun) -> StateDict:
    """The same, as the record says it."""
    values = [*run.result["matrix"][-1], run.result["metrics"]["average_accuracy"]]
    return _row([np.nan if value is None else value for value in values])


def _row(values: Sequence[float]) -> StateDict:
    """A task without test samples has no accuracy: -1 stands for it."""
    return {"accuracies": torch.tensor(values, dtype=torch.float64).nan_to_num(-1.0)}
