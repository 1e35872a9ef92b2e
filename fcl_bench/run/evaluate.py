"""Predictions of a classifier on the whole test set."""

from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fcl_bench.errors import UserError
from fcl_bench.stream import Task

FEATURES_AT_ONCE = 1024
IMAGES_AT_ONCE = 64


@torch.inference_mode()
def predict(classifier: nn.Module, inputs: Tensor, order: np.ndarray, task: Task) -> np.ndarray:
    """The original label of the best score for every input; -1 for all while no class is registered.

    ``order`` gives the original label of each registered class, and ``task`` is the last one that was learned. What a
    classifier must not do is an error of its method, which the :class:`UserError` names.
    """
    if not isinstance(classifier, nn.Module):
        raise UserError(
            f"After task {task.index + 1} the method's classifier is {_description(classifier)}: "
            "classifier(state) must return a torch.nn.Module."
        )
    at_once = FEATURES_AT_ONCE if inputs.ndim == 2 else IMAGES_AT_ONCE
    device = next((tensor.device for tensor in chain(classifier.parameters(), classifier.buffers())), inputs.device)
    numbers = [torch.zeros(0, dtype=torch.int64)]
    for batch in inputs.split(at_once):
        scores = classifier(batch.to(device))
        _check(scores, len(batch), task)
        numbers.append(_best(scores).cpu())
    return np.append(order, -1)[torch.cat(numbers).numpy()]


def _best(scores: Tensor) -> Tensor:
    """The number of the best class, (n,)."""
    if scores.shape[1] == 0:
        return torch.full((len(scores),), -1)
    return scores.argmax(dim=1)


def _check(scores: Any, samples: int, task: Task) -> None:
    shape = (samples, task.seen)
    if not isinstance(scores, Tensor) or scores.shape != shape:
        raise UserError(
            f"After task {task.index + 1} the method's classifier returns {_description(scores)} for {samples} inputs: "
            f"expected scores of shape {shape}, a column for each class seen so far."
        )
    if not scores.isfinite().all():
        raise UserError(
            f"After task {task.index + 1} the method's classifier returns scores that are not finite, so the training "
            "has diverged: lower method.lr, or set local.gradient_clip=1."
        )


def _description(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return "None" if value is None else f"an object of type {type(value).__name__}"
