"""To unlearn: samples are taken out of the last state of a run, which then is as if it had never seen them."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from fcl_bench.errors import ConfigError
from fcl_bench.exact.answers import answer_of, samples_of
from fcl_bench.exact.certificate import fingerprint, worst
from fcl_bench.exact.comparison import compared, hashes_of, sentence
from fcl_bench.exact.finished import FinishedRun, opened
from fcl_bench.exact.forgotten import Selectors, name_of
from fcl_bench.exact.new_record import write
from fcl_bench.learning import Costs, beginning, learn
from fcl_bench.run.checkpoint import Checkpoint
from fcl_bench.run.environment import peak_memory_mb
from fcl_bench.run.result import Result
from fcl_bench.run.scenario import Scenario
from fcl_bench.run.scores import score
from fcl_bench.stream import without
from fcl_bench.transport.in_process import InProcess


@dataclass(frozen=True)
class Unlearned:
    """What has come of it."""

    folder: Path  # of the new record
    result: Result


def unlearn(path: Path, what: Selectors, overrides: Sequence[str], command: str, proof: bool = True) -> Unlearned:
    """Write a new record beside that of the run, of the model without the selected samples."""
    run = opened(path, overrides)
    run.refuse_unless_exact("evidence", "unlearn")
    chosen = what.selected(run.planned.stream, run.planned.dataset)
    run_id = f"{run.result['run_id']}-without-{name_of(chosen)}"
    folder = run.path.absolute().parent.with_name(run_id)
    if folder.exists():
        raise ConfigError(f"These samples were forgotten before, in {folder}: remove it to do so again.")
    scenario = remaining(run.scenario, chosen)
    checkpoint = _forgetting(run, _last_checkpoint(run), scenario, chosen)
    number = int(chosen.sum())
    added = {
        "run_id": run_id,
        "command": command,
        "parent": {"run_id": run.result["run_id"], "record": fingerprint(run.path)},
        "forgotten": {**what.described(), "number": number},
        "unlearned": _proof(checkpoint, scenario, number) if proof else {"verdict": None},
    }
    return Unlearned(folder, write(folder, run, scenario, checkpoint, added))


def remaining(scenario: Scenario, chosen: np.ndarray) -> Scenario:
    """The same without the chosen samples of its stream."""
    dataset = scenario.dataset
    stream = without(scenario.stream, chosen, dataset.train.labels, dataset.test.labels)
    return replace(scenario, stream=stream)


def state_without(method: Any, state: Any, old: Scenario, new: Scenario, chosen: np.ndarray) -> Any:
    """The method's own answer to the question; ``new`` is what :func:`remaining` gives."""
    forgotten = samples_of(old, old.stream.samples[chosen])
    classes = torch.from_numpy(old.stream.number[new.stream.order])
    return method.unlearn(state, forgotten, classes)


def learned_from_scratch(scenario: Scenario) -> Any:
    """The last state of the ordinary learning loop."""
    method = scenario.method()
    progress = beginning(method)
    with closing(InProcess()) as transport:
        for progress in learn(method, scenario.federation(transport), progress):
            pass
    return progress.state


def _last_checkpoint(run: FinishedRun) -> Checkpoint:
    """That of the run, all of whose knowledge must be at the server."""
    checkpoint = run.checkpoint()
    if checkpoint.memories:
        raise ConfigError(
            f"In the run of {run.path} clients keep something of their own, which unlearning at the server does not "
            "reach: run it again without these samples."
        )
    return checkpoint


def _forgetting(run: FinishedRun, before: Checkpoint, scenario: Scenario, chosen: np.ndarray) -> Checkpoint:
    """The checkpoint in which the model without these samples stands in place of the one after the last task."""
    method = scenario.method()
    start = perf_counter()
    state = state_without(method, before.progress.state, run.scenario, scenario, chosen)
    seconds = perf_counter() - start
    progress = before.progress.at(state)
    scores = score(method, progress, {}, scenario)
    spent = Costs(server_seconds=seconds + scores.server_seconds, wall_seconds=seconds)
    progress = progress.plus(spent)
    costs = before.costs[-1] | asdict(progress.costs)
    costs["runtime_seconds"] = progress.costs.client_seconds + progress.costs.server_seconds
    costs["peak_memory_mb"] = peak_memory_mb()
    return _without_last_task(before).after_task(progress, {}, scores, costs)


def _without_last_task(checkpoint: Checkpoint) -> Checkpoint:
    return replace(
        checkpoint,
        predictions=checkpoint.predictions[:-1],
        confidences=checkpoint.confidences[:-1],
        others={name: rows[:-1] for name, rows in checkpoint.others.items()},
        other_confidences={name: rows[:-1] for name, rows in checkpoint.other_confidences.items()},
        personal=checkpoint.personal[:-1],
        costs=checkpoint.costs[:-1],
    )


def _proof(checkpoint: Checkpoint, scenario: Scenario, number: int) -> dict[str, Any]:
    """The state beside that of a run that never saw the samples, for the record."""
    method = scenario.method()
    found = answer_of(method, checkpoint.progress.state, scenario)
    expected = answer_of(method, learned_from_scratch(scenario), scenario)
    parts = compared(hashes_of(found), found, expected)
    other = f"a run that never saw these {number:,} samples"
    return {
        "verdict": worst(parts),
        "sentence": sentence(parts, other, len(scenario.test)),
        "parts": {name: part.model_dump() for name, part in parts.items()},
    }
