"""FedLwF: learning without forgetting, federated. The global model of the task before teaches the present one.

Paper: Li and Hoiem, "Learning without Forgetting", TPAMI 2018; federated as the baseline of Zhang et al., "TARGET",
ICCV 2023.

Followed: local loss = cross-entropy + 3 x distillation at temperature 2. Distillation is the soft cross-entropy between
teacher and student over the old classes, on the client's current samples, without a factor T^2. Both see the same
augmented images. The teacher goes to the clients once per task, as an exchange of its own, and is kept there; it
predicts in eval mode.
Deviates: ``variant: corrected`` (default) weighs clients by samples; ``variant: target_repo`` takes TARGET's plain
mean, and is otherwise the same. In a blurry stream old classes return, which TARGET does not know. ``distil: absent``
(default) distils only the classes that are absent from the task: the cross-entropy trains the others, and a teacher
that has seen a handful of their samples would contradict it. ``distil: known`` distils all classes that the teacher
knows. On disjoint streams the two are the same. On frozen features with ``ce_scope: task`` the cross-entropy does not
touch the rows of absent classes; distillation then only holds them against weight decay, and the method is nearly
Finetune. A client that was absent when a teacher was sent goes on with the one it has, or without.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, Unpack

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor, nn

from fcl_bench import (
    Backbone,
    Client,
    Clients,
    Distillation,
    FederatedAveraging,
    Round,
    StateDict,
    Task,
    Training,
    Update,
    grown,
)


@dataclass(frozen=True)
class Lesson:
    """What every client receives in a round."""

    round: Round
    columns: Tensor | None  # classes to distil, if the teacher knows them; None: all that it knows


class FedLwF:
    """``distillation`` weighs what the teacher says at ``temperature``; the state is the global model."""

    exemplar_free = True
    resumes_within_tasks = True

    def __init__(
        self,
        backbone: Backbone,
        variant: Literal["corrected", "target_repo"],
        distil: Literal["absent", "known"],
        distillation: Annotated[float, Field(ge=0, allow_inf_nan=False)],
        temperature: PositiveFloat,
        **training: Unpack[Training],
    ):
        self.variant = variant
        self.distil = distil
        self.averaging = FederatedAveraging(
            backbone,
            training,
            Distillation,
            weight=distillation,
            temperature=temperature,
        )

    def init(self) -> StateDict:
        """The backbone's own weights and a head without rows."""
        return self.averaging.start

    def learn(self, state: StateDict, task: Task, clients: Clients) -> Iterator[StateDict]:
        """Hand out the teacher, then average round after round."""
        known = len(state["head.bias"])
        if known and not task.yielded:
            clients.everyone.tell(self.keep_teacher, state)
        weights = grown(state, task.seen)
        for number in self.averaging.rounds_left(task):
            lesson = Lesson(self.averaging.round(number, weights, task), self.columns(task))
            weights = self.averaging.aggregate(clients.map(self.train, lesson), default=weights)
            yield weights

    def columns(self, task: Task) -> Tensor | None:
        """The classes to distil: those of earlier tasks that this one does not have; None for all of earlier tasks."""
        if self.distil == "known":
            return None
        absent = set(range(task.seen)) - set(task.classes)
        return torch.tensor(sorted(absent), dtype=torch.int64)

    def keep_teacher(self, client: Client, teacher: StateDict) -> None:
        """At the client: remember the model of the task before."""
        client.memory["teacher"] = teacher

    def train(self, client: Client, received: Lesson) -> Update:
        """At the client: learn the new, imitate the teacher on the old."""
        self.averaging.loss.load_teacher(client.memory.get("teacher"))
        update = self.averaging.train(client.data, received.round, distil_columns=received.columns)
        if self.variant == "target_repo":
            return update.counted_once()
        return update

    def classifier(self, state: StateDict) -> nn.Module:
        """The global model."""
        return self.averaging.classifier(state)
