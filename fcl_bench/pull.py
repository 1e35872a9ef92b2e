"""What holds weights in training, whatever the samples are: the part of a loss that depends on the weights only."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from fcl_bench.message import StateDict


@dataclass(frozen=True)
class Pull:
    """Half of ``stiffness`` times the squared distance from ``anchor``, plus ``slope`` times the weights.

    A stiffness is one number for all weights or a number for each. Weights that the anchor does not have are free, see
    :func:`squared_distance`.
    """

    anchor: StateDict = field(default_factory=dict)
    stiffness: float | StateDict = 1.0
    slope: StateDict = field(default_factory=dict)

    def added_to(self, loss: Tensor, network: nn.Module) -> Tensor:
        """The loss of a batch with this; a slope changes its gradient and not its value."""
        if self.anchor:
            if isinstance(self.stiffness, dict):
                loss = loss + squared_distance(network, self.anchor, self.stiffness) / 2
            else:
                loss = loss + self.stiffness / 2 * squared_distance(network, self.anchor)
        if self.slope:
            names, parameters = zip(*network.named_parameters(), strict=True)
            slopes = [self.slope[name].to(loss.device) for name in names]
            loss = Sloped.apply(loss, slopes, *parameters)
        return loss


class Sloped(torch.autograd.Function):
    """A loss as it is, whose gradient has a constant added for every parameter."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, slopes: list[Tensor], *parameters: Tensor) -> Tensor:
        """The loss; the parameters are named only for their gradients to pass here."""
        ctx.slopes = slopes
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """What the loss is scaled by, the slopes are scaled by; on a CPU it is not, and a pass is saved."""
        if gradient.is_cpu and gradient == 1:
            return gradient, None, *ctx.slopes
        slopes = [gradient * slope for slope in ctx.slopes]
        return gradient, None, *slopes


def squared_distance(network: nn.Module, anchor: StateDict, importance: StateDict | None = None) -> Tensor:
    """Sum over parameters of (w - anchor)^2, each times its importance.

    Parameters that the anchor does not have are free; so are head rows beyond those that the anchor has.

    >>> layer = nn.Linear(1, 2, bias=False)
    >>> layer.load_state_dict({"weight": torch.tensor([[3.0], [9.0]])})
    <All keys matched successfully>
    >>> squared_distance(layer, {"weight": torch.tensor([[1.0]])}, {"weight": torch.tensor([[0.5]])}).item()
    2.0
    """
    terms = []
    for name, value in network.named_parameters():
        if name not in anchor:
            continue
        old = anchor[name].to(value.device)
        now = value if value.shape == old.shape else value[: len(old)]
        gap = now - old
        weighed = gap if importance is None else gap * importance[name].to(value.device)
        terms.append((weighed * gap).sum())
    return torch.stack(terms).sum()
