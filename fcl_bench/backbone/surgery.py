"""Changes to a network of timm before it is trained: a first layer for small images, another normalisation."""

from torch import nn

from fcl_bench.errors import ConfigError

GROUPS = 32  # at most; the number of the paper on GroupNorm


def cifar_stem(network: nn.Module, name: str) -> None:
    """In place: a fresh 3x3 convolution of stride 1 at the start and no pooling after it, so that 32 pixels stay 32."""
    first = getattr(network, "conv1", None)
    pool = getattr(network, "maxpool", None)
    if not isinstance(first, nn.Conv2d) or not isinstance(pool, nn.MaxPool2d):
        raise ConfigError(
            f"Expected a ResNet with one first convolution and a max-pool for backbone.stem=cifar, but {name} is built "
            "otherwise: set backbone.stem=standard, or backbone.name to resnet18, resnet34, resnet50, ..."
        )
    fresh = nn.Conv2d(first.in_channels, first.out_channels, kernel_size=3, padding=1, bias=False)
    nn.init.kaiming_normal_(fresh.weight, mode="fan_out", nonlinearity="relu")
    network.add_module("conv1", fresh)
    network.add_module("maxpool", nn.Identity())


def change_norm(network: nn.Module, norm: str, name: str) -> None:
    """In place: ``gn`` normalises each sample by itself, ``frozen_bn`` by statistics and weights that stay fixed."""
    from timm.layers import freeze_batch_norm_2d

    if not any(isinstance(layer, nn.BatchNorm2d) for layer in network.modules()):
        raise ConfigError(f"backbone.norm={norm} replaces BatchNorm2d, but {name} has none: set backbone.norm=bn.")
    if norm == "frozen_bn":
        freeze_batch_norm_2d(network)
        return
    for parent in list(network.modules()):
        for key, layer in list(parent.named_children()):
            if isinstance(layer, nn.BatchNorm2d):
                parent.add_module(key, _group_norm(layer))


def groups(channels: int) -> int:
    """As many groups of equal size as 32 allows, each of two channels or more.

    >>> [groups(channels) for channels in (512, 64, 48, 16, 3)]
    [32, 32, 24, 8, 1]
    """
    for number in range(GROUPS, 1, -1):
        if channels % number == 0 and channels >= 2 * number:
            return number
    return 1


def _group_norm(norm: nn.BatchNorm2d) -> nn.GroupNorm:
    """With the affine weights of ``norm``, and what timm's variant of it does next: dropout and activation."""
    from timm.layers import BatchNormAct2d, GroupNormAct

    channels = norm.num_features
    group_norm: nn.GroupNorm
    if isinstance(norm, BatchNormAct2d):
        group_norm = GroupNormAct(channels, groups(channels), norm.eps, norm.affine)
        group_norm.add_module("drop", norm.drop)
        group_norm.add_module("act", norm.act)
    else:
        group_norm = nn.GroupNorm(groups(channels), channels, norm.eps, norm.affine)
    group_norm.weight = norm.weight
    group_norm.bias = norm.bias
    return group_norm
