"""What a loss must be like to be trained quickly: told in parts, of a linear head on its inputs, in steps of SGD."""

from functools import cache, lru_cache

import torch
from torch import Tensor, nn
from torch.optim import SGD

from fcl_bench.head import Head
from fcl_bench.losses import CrossEntropy, Network, OptimizerFactory
from fcl_bench.quick.coasting import Descent, Hold, coasted, hold


class Training:
    """A loss that can be trained quickly, and the rows of its head that take part in products."""

    def __init__(self, module: CrossEntropy, descent: Descent):
        self.module = module
        self.descent = descent
        self.head = module.network.head
        self.rows = self._rows()
        self.draws = module.replays()
        pull = module.pull()
        self.weight_hold = hold("head.weight", self.head.weight, pull, descent.weight_decay)
        self.bias_hold = hold("head.bias", self.head.bias, pull, descent.weight_decay)

    def _rows(self) -> Tensor | None:
        """None for all."""
        rows = self.module.rows()
        if rows is None or len(rows) == self.head.out_features:
            return None
        return rows.to(self.head.bias.device)

    def narrowed(self) -> CrossEntropy:
        """The loss for a head that has no other rows."""
        return self.module if self.rows is None else self.module.narrowed(self.rows.cpu())

    @property
    def features(self) -> int:
        """Of a sample."""
        return self.head.in_features

    @property
    def classes(self) -> int:
        """How many rows take part."""
        return self.head.out_features if self.rows is None else len(self.rows)

    @property
    def uniform(self) -> bool:
        """Whether all numbers that take part decay alike."""
        weight = self.weight_hold.decay
        bias = self.bias_hold.decay
        return isinstance(weight, float) and isinstance(bias, float) and weight == bias

    def weight(self) -> tuple[Tensor, Hold]:
        """Of the rows that take part, and what holds it."""
        return taken(self.head.weight, self.rows), self.weight_hold.at(self.rows)

    def bias(self) -> tuple[Tensor, Hold]:
        """Of the rows that take part, and what holds it."""
        return taken(self.head.bias, self.rows), self.bias_hold.at(self.rows)

    def finish(self, weight: Tensor, bias: Tensor, steps: int) -> None:
        """Write the rows that took part, and let the others follow their formula for as many steps."""
        parts = ((self.head.weight, weight, self.weight_hold), (self.head.bias, bias, self.bias_hold))
        if self.rows is not None:
            others = complement(self.rows, self.head.out_features)
        for parameter, trained, held in parts:
            if self.rows is None:
                parameter.copy_(trained)
                continue
            rest = coasted(taken(parameter, others), held.at(others), steps, self.descent)
            parameter.index_copy_(0, others, rest)
            parameter.index_copy_(0, self.rows, trained)


def complement(rows: Tensor, number: int) -> Tensor:
    """The rows of so many that are not among these.

    >>> complement(torch.tensor([1, 3]), 5)
    tensor([0, 2, 4])
    """
    left = torch.ones(number, dtype=torch.bool, device=rows.device)
    left[rows] = False
    return left.nonzero().flatten()


def taken(value: Tensor, rows: Tensor | None) -> Tensor:
    """A copy of some rows."""
    return value.detach().clone() if rows is None else value.detach().index_select(0, rows)


def quick_training(module: nn.Module) -> Training | None:
    """How to train it quickly; None where something about it is not as it must be."""
    kind: type = type(module)
    if not isinstance(module, CrossEntropy) or not told_in_parts(kind):
        return None
    if not head_on_inputs(module.network):
        return None
    descent = plain_descent(module.optimizer, float(module.lr))
    return None if descent is None else Training(module, descent)


@cache
def told_in_parts(kind: type) -> bool:
    """Whether its step is made of its parts, and its ``rows`` are said no earlier than what looks at them."""
    own = [name for name in ("training_step", "configure_optimizers") if holder(kind, name) is not CrossEntropy]
    order = kind.__mro__.index
    said = order(holder(kind, "rows"))
    return not own and all(said <= order(holder(kind, name)) for name in ("loss_of_logits", "cross_entropy"))


def holder(kind: type, name: str) -> type:
    """The class that an attribute of a class comes from."""
    return next(parent for parent in kind.__mro__ if name in vars(parent))


def head_on_inputs(network: Network) -> bool:
    """Whether there is nothing to the network but a head whose weights are all trained, in single precision."""
    weights = (network.head.weight, network.head.bias)
    return (
        type(network) is Network
        and type(network.backbone) is nn.Identity
        and type(network.augment) is nn.Identity
        and type(network.head) is Head
        and all(value.requires_grad and value.dtype == torch.float32 for value in weights)
    )


@lru_cache(maxsize=256)
def plain_descent(factory: OptimizerFactory, lr: float) -> Descent | None:
    """The settings of SGD with or without momentum and weight decay; None for all else.

    They are read off an optimizer of one number, once for each rate: to make one takes longer than a step.
    """
    optimizer = factory([nn.Parameter(torch.zeros(1))], lr=lr)
    if type(optimizer) is not SGD:
        return None
    (group,) = optimizer.param_groups
    if any(group[name] for name in ("dampening", "nesterov", "maximize", "differentiable")):
        return None
    return Descent(float(group["lr"]), float(group["momentum"]), float(group["weight_decay"]))
