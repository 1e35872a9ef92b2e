"""Predictions of a classifier on the whole test set."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fcl_bench.data.inputs import Inputs, SomeInputs
from fcl_bench.errors import UserError
from fcl_bench.stream import Task

FEATURES_AT_ONCE = 1024
IMAGES_AT_ONCE = 64


@dataclass(frozen=True)
class Answers:
    """What a classifier says about every input."""

    labels: np.ndarray  # the original ones; -1 for all while no class is registered
    confidences: np.ndarray  # the softmax of the best score; 0 for all while no class is registered


def predict(classifier: nn.Module, inputs: Tensor, order: np.ndarray, task: Task) -> np.ndarray:
    """The labels of :func:`answer` alone."""
    return answer(classifier, inputs, order, task).labels


@torch.inference_mode()
def answer(classifier: nn.Module, inputs: Tensor | Inputs | SomeInputs, order: np.ndarray, task: Task) -> Answers:
    """The original label of the best score for every input, and the confidence in it.

    ``order`` gives the original label of each registered class, and ``task`` is the last one that was learned. What a
    classifier must not do is an error of its method, which the :class:`UserError` names.
    """
    if not isinstance(classifier, nn.Module):
        raise UserError(
            f"After task {task.index + 1} the method's classifier is {_description(classifier)}: "
            "classifier(state) must return a torch.nn.Module."
        )
    at_once = FEATURES_AT_ONCE if inputs.ndim == 2 else IMAGES_AT_ONCE
    parts = chain(classifier.parameters(), classifier.buffers())
    device = next((tensor.device for tensor in parts), torch.device("cpu"))
    numbers = [torch.zeros(0, dtype=torch.int64)]
    confidences = [torch.zeros(0)]
    for batch in inputs.split(at_once):
        scores = classifier(batch.to(device))
        _check(scores, len(batch), task)
        numbers.append(_best(scores).cpu())
        confidences.append(_confidence(scores.cpu()))
    return Answers(np.append(order, -1)[torch.cat(numbers).numpy()], torch.cat(confidences).numpy())


def _best(scores: Tensor) -> Tensor:
    """The number of the best class, (n,)."""
    if scores.shape[1] == 0:
        return torch.full((len(scores),), -1)
    return scores.argmax(dim=1)


def _confidence(scores: Tensor) -> Tensor:
    """The largest softmax, (n,)."""
    if scores.shape[1] == 0:
        return torch.zeros(len(scores))
    return scores.softmax(dim=1, dtype=torch.float64).amax(dim=1).float()


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
