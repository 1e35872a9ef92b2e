"""Local losses shared by methods, as LightningModules for :mod:`fcl_bench.local`."""

from collections.abc import Callable

import lightning as L
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from fcl_bench.backbone import Backbone
from fcl_bench.errors import ConfigError
from fcl_bench.head import Head, masked_targets

OptimizerFactory = Callable[..., Optimizer]  # torch.optim.SGD with everything but parameters and learning rate bound


class Network(nn.Module):
    """A backbone and a growing head: from the inputs a client holds to one logit per registered class."""

    def __init__(self, backbone: Backbone):
        super().__init__()
        self.backbone, self.head = backbone.build(), Head(backbone.features)

    def forward(self, inputs: Tensor) -> Tensor:
        """(n, ...) to (n, classes)."""
        return self.head(self.backbone(inputs))


class CrossEntropy(L.LightningModule):
    """Softmax cross-entropy over ``columns`` of the head (all of them when ``None``), at learning rate ``lr``."""

    def __init__(self, network: nn.Module, optimizer: OptimizerFactory, lr: float):
        super().__init__()
        self.network, self.optimizer, self.lr = network, optimizer, lr
        self.columns: Tensor | None = None
        try:
            self.configure_optimizers()
        except ValueError as error:
            raise ConfigError(f"Expected method.optimizer to be one that torch accepts, but: {error}.") from error

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """The loss of one batch."""
        inputs, labels = batch
        logits = self.network(inputs)
        if self.columns is not None:
            logits, labels = masked_targets(logits, labels, self.columns.to(labels.device))
        return cross_entropy(logits, labels)

    def configure_optimizers(self) -> Optimizer:
        """A fresh optimizer: momentum does not outlive a client call."""
        return self.optimizer(self.network.parameters(), lr=self.lr)
