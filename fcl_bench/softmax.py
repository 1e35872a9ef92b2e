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


def log_frequencies(labels: Tensor, columns: Tensor, weight: float) -> Tensor | None:
    """What logit adjustment adds to the logits of ``columns``: ``weight`` times the log of how frequent each class is.

    Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, with the frequencies among these labels. Each
    class counts as if there were one more sample of it, so that one without samples still is in the softmax. None for a
    weight of 0, and where there are no classes.

    >>> log_frequencies(torch.tensor([1, 1, 1, 3]), torch.tensor([1, 3]), weight=1.0).exp()
    tensor([0.6667, 0.3333])
    """
    if weight == 0 or len(columns) == 0:
        return None
    counts = labels.bincount(minlength=int(columns[-1]) + 1)[columns] + 1
    return weight * (counts / counts.sum()).log()


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
