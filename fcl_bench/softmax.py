"""Where the columns of a softmax are chosen: over which classes a cross-entropy goes, the setting ``ce_scope``."""

from typing import Literal

import torch
from torch import Tensor

from fcl_bench.registration import Task

Scope = Literal["task", "seen", "local"]  # classes of the task, all seen so far, or those that a client holds


def columns_for_all(scope: Scope, task: Task) -> Tensor | None:
    """The classes in the softmax of every client, ascending; None where each client takes its own."""
    match scope:
        case "task":
            return torch.tensor(sorted(task.classes))
        case "seen":
            return torch.arange(task.seen)
    return None


def columns_at_client(columns: Tensor | None, labels: Tensor) -> Tensor:
    """The classes in the softmax of one client: those for all, or else those among its labels.

    >>> columns_at_client(None, torch.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    return labels.unique() if columns is None else columns


def masked_targets(logits: Tensor, labels: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Logits of ``columns`` only, and the labels as positions among them, for a softmax over part of the classes.

    ``columns`` must be sorted and contain every label.

    >>> logits, labels = masked_targets(torch.arange(4.0)[None], torch.tensor([3]), torch.tensor([1, 3]))
    >>> logits, labels
    (tensor([[1., 3.]]), tensor([1]))
    """
    if len(columns) == logits.shape[1]:  # nothing to leave out
        return logits, labels
    return logits.index_select(1, columns), torch.searchsorted(columns, labels)
