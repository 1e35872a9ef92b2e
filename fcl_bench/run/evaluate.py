"""Predictions of a classifier on the whole test set."""

from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

FEATURES_AT_ONCE, IMAGES_AT_ONCE = 1024, 64


@torch.inference_mode()
def predict(classifier: nn.Module, inputs: Tensor, order: np.ndarray) -> np.ndarray:
    """The original label of the best score for every input; -1 for all while no class is registered.

    ``order`` gives the original label of each registered class. Scores that are not finite are an error of the method.
    """
    at_once = FEATURES_AT_ONCE if inputs.ndim == 2 else IMAGES_AT_ONCE
    device = next((tensor.device for tensor in chain(classifier.parameters(), classifier.buffers())), inputs.device)
    best = [_best(classifier(batch.to(device)), len(order)) for batch in inputs.split(at_once)]
    numbers = torch.cat(best).cpu().numpy() if best else np.zeros(0, dtype=np.int64)
    return np.append(order, -1)[numbers]


def _best(scores: Tensor, classes: int) -> Tensor:
    if scores.shape[1] == 0:
        return torch.full((len(scores),), -1)
    if scores.shape[1] > classes or not scores.isfinite().all():
        raise ValueError(
            f"Expected finite scores for at most {classes} classes, but the classifier gave {scores.shape[1]} "
            f"with {int((~scores.isfinite()).sum())} not finite."
        )
    return scores.argmax(dim=1)
