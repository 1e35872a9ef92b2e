"""A checkpoint: all that a run has gathered, and all it needs to go on."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fcl_bench.decoding import Classes, MessageError, decode
from fcl_bench.learning import Costs, Progress
from fcl_bench.message import encode
from fcl_bench.run.exchange_log import EMPTY, Mark
from fcl_bench.run.scores import TaskScores
from fcl_bench.run.seal import NO_SEAL, refuse_broken, sealed
from fcl_bench.transport import Memories

TaskCosts = dict[str, float]  # traffic, seconds and memory after a task
Accuracies = tuple[float | None, ...]  # by client
PROGRESS: dict[str, type] = {"task": int, "yielded": int, "exchanges": int, "costs": dict}
PARTS: dict[str, type] = {
    **{"progress": dict, "memories": dict, "others": dict, "other_confidences": dict, "evidence": dict},
    **{"predictions": Tensor, "confidences": Tensor, "personal": tuple, "costs": tuple, "log": tuple},
    **{"run": str, "inputs": str},
}


@dataclass(frozen=True)
class Checkpoint:
    """What is known at some point of a run; the tuples and the rows of tensors have one entry per finished task."""

    progress: Progress
    memories: Memories  # what clients keep
    predictions: Tensor  # (finished tasks, test samples), original labels
    confidences: Tensor  # (finished tasks, test samples)
    others: dict[str, Tensor]  # predictions of a method's other classifiers
    other_confidences: dict[str, Tensor]
    personal: tuple[Accuracies, ...]  # empty for methods without personal classifiers
    costs: tuple[TaskCosts, ...]
    evidence: dict[str, Any] = field(default_factory=dict)  # of an exact method, after the last task
    run: str = ""  # the run that it belongs to, by its id
    inputs: str = ""  # and by the contents of data, weights and stream
    log: Mark = EMPTY  # of the exchanges so far

    def within_task(self, progress: Progress, memories: Memories) -> "Checkpoint":
        """After one more state of the task under way."""
        return replace(self, progress=progress, memories=memories)

    def after_task(self, progress: Progress, memories: Memories, scores: TaskScores, costs: TaskCosts) -> "Checkpoint":
        """After one more task."""
        return replace(
            self,
            progress=progress,
            memories=memories,
            predictions=_appended(self.predictions, scores.answers.labels),
            confidences=_appended(self.confidences, scores.answers.confidences),
            others={name: _appended(self.others.get(name), own.labels) for name, own in scores.others.items()},
            other_confidences={
                name: _appended(self.other_confidences.get(name), own.confidences)
                for name, own in scores.others.items()
            },
            personal=(*self.personal, scores.personal) if scores.personal is not None else (),
            costs=(*self.costs, costs),
            evidence=scores.evidence,
        )

    def refuse_unfit(self, tasks: int, test_samples: int) -> None:
        """Raise a :class:`MessageError` unless its parts fit together, and a run of so many tasks and test samples."""
        done = self.progress.task
        tables = [self.predictions, self.confidences, *self.others.values(), *self.other_confidences.values()]
        if not (0 <= done <= tasks and len(self.costs) == done):
            raise MessageError("its tasks are not those of this run")
        if any(not isinstance(table, Tensor) or table.shape != (done, test_samples) for table in tables):
            raise MessageError("its predictions are not those of this run")

    def encoded(self) -> bytes:
        """As bytes; what many clients keep is stored once. No class of the harness is named, so those can move."""
        progress = {**vars(self.progress), "costs": asdict(self.progress.costs)}
        return sealed(encode({**NO_SEAL, **vars(self), "progress": progress}, share=True))


def decoded(data: bytes, classes: Classes | None = None) -> Checkpoint:
    """From bytes, whose state and memories are made of these classes; a :class:`MessageError` says what is wrong."""
    refuse_broken(data)
    content = decode(data, classes, share=True)
    _refuse_other_parts(content, PARTS)
    progress = content["progress"]
    _refuse_other_parts(progress, PROGRESS)
    content = {name: value for name, value in content.items() if name not in NO_SEAL}
    try:
        costs = Costs(**progress["costs"])
        return Checkpoint(**{**content, "progress": Progress(**{**progress, "costs": costs})})
    except TypeError as error:
        raise MessageError(f"its parts are not those of this version: {error}") from error


def _refuse_other_parts(content: Any, kinds: dict[str, type]) -> None:
    """Raise a :class:`MessageError` unless it is a dict with these parts of these types."""
    for name, kind in kinds.items():
        if not isinstance(content, dict) or not isinstance(content.get(name), kind):
            raise MessageError(f"its parts are not those of this version: {name} is no {kind.__name__}")


def first_checkpoint(progress: Progress, test_samples: int) -> Checkpoint:
    """Before the first task."""
    return Checkpoint(
        progress=progress,
        memories={},
        predictions=torch.zeros(0, test_samples, dtype=torch.int64),
        confidences=torch.zeros(0, test_samples),
        others={},
        other_confidences={},
        personal=(),
        costs=(),
    )


def _appended(rows: Tensor | None, row: np.ndarray) -> Tensor:
    new = torch.from_numpy(row)[None]
    return new if rows is None else torch.cat([rows, new])
