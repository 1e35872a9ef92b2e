"""Whether the learning rate of a softmax head is safe on the scale of frozen features, before any training.

The curvature of softmax cross-entropy is at most half of the largest eigenvalue of E[x x^T]. Gradient descent with
momentum is stable on a curvature h for learning rates below 2 (1 + momentum) / h.
"""

from omegaconf import DictConfig
from torch import Generator, Tensor, linspace, randn
from torch.nn.functional import normalize

from fcl_bench.data.inputs import Inputs, SomeInputs

SAMPLE = 1000  # rows that the eigenvalue is estimated from
STEPS = 20  # of the power iteration
SGD = "torch.optim.SGD"


def warning(config: DictConfig, train: Inputs | SomeInputs) -> str | None:
    """A sentence where ``method.lr`` is above the limit; None where it is not, or where no limit is known.

    It is known for methods that train a softmax head (they have the setting ``ce_scope``) by SGD on features.
    """
    settings = config.method
    on_features = train.ndim == 2
    if not on_features or "ce_scope" not in settings or settings.optimizer["_target_"] != SGD:
        return None
    eigenvalue = largest_eigenvalue(sampled(train))
    momentum = settings.optimizer.get("momentum", 0.0)
    if settings.lr * eigenvalue <= 4 * (1 + momentum):
        return None
    limit = 4 * (1 + momentum) / eigenvalue
    return (
        f"method.lr={settings.lr} may be too large for the scale of these features: their largest eigenvalue of "
        f"E[x x^T] is {eigenvalue:.0f}, and a softmax trained by SGD is sure to be stable up to {limit:.2g} only, "
        "so try a smaller method.lr."
    )


def sampled(train: Inputs | SomeInputs) -> Tensor:
    """A thousand rows at equal distances, or all if there are fewer."""
    rows = min(len(train), SAMPLE)
    return train[linspace(0, len(train) - 1, rows).long()]


def largest_eigenvalue(rows: Tensor) -> float:
    """Of E[x x^T] over the rows, by power iteration: never too large, and too small by little."""
    direction = randn(rows.shape[1], generator=Generator().manual_seed(0))
    for _ in range(STEPS):
        direction = rows.T @ (rows @ normalize(direction, dim=0)) / len(rows)
    return float(direction.norm())
