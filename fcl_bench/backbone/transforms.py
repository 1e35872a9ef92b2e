"""From the images a data set reads to what a network sees: resize, augment, normalise."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn.functional import grid_sample, pad

from fcl_bench.errors import ConfigError

Colour = tuple[float, float, float]
SMALL = 64  # pixels of a side; up to here two matrix products are faster than torchvision's resize, by up to 7 times
BANDS = 4  # of rows that are resized at a time
FEW_CHANNELS = 8  # numbers that a CPU with AVX2 handles at once


@dataclass(frozen=True)
class Transform:
    """The whole image at ``size`` x ``size`` (None: as it is), then ``(x / 255 - mean) / std`` for each colour."""

    size: int | None
    interpolation: str
    mean: Colour
    std: Colour
    rounded: bool = True

    def resize(self, images: Tensor | list[Tensor]) -> Tensor:
        """(n, 3, size, size), antialiased, without a crop: uint8 as Pillow has it if ``rounded``, else float32."""
        if self.size is None:
            if isinstance(images, Tensor):
                return images
            raise ConfigError("The images of this data set differ in size: set backbone.input_size.")
        if isinstance(images, list):
            return torch.cat([self.resize(image[None]) for image in images])
        if self.rounded:  # bytes are resized faster with channels last in memory, floats with channels first
            last = images.contiguous(memory_format=torch.channels_last)
            return _resized(last, self.size, self.size, self.interpolation)
        if max(images.shape[-2:]) > SMALL:
            return _resized(images.float(), self.size, self.size, self.interpolation)
        return _resized_by_products(images.float(), self.size, self.interpolation)


def _resized(images: Tensor, height: int, width: int, interpolation: str) -> Tensor:
    from torchvision.transforms import InterpolationMode  # slow to import, and not needed when features are known
    from torchvision.transforms.v2.functional import resize

    mode = InterpolationMode("nearest-exact" if interpolation == "nearest" else interpolation)
    return resize(images, [height, width], mode)


def _resized_by_products(images: Tensor, size: int, interpolation: str) -> Tensor:
    """The same for small float images, (n, c, h, w) to (n, c, size, size) with channels last in memory."""
    n, channels, height, width = images.shape
    across = _weights(width, size, interpolation)
    down = _weights(height, size, interpolation)
    wide = images @ across.T  # (n, c, h, size)
    rows = wide.permute(0, 2, 3, 1).reshape(n, height, size * channels)
    resized = rows.new_empty(n, size, size * channels)
    for part in torch.arange(size).split(-(-size // BANDS)):  # each looks at a few neighbouring rows only
        first, last = int(part[0]), int(part[-1]) + 1
        used = down[first:last].any(dim=0).nonzero()
        band = slice(int(used[0]), int(used[-1]) + 1)
        torch.matmul(down[first:last, band].contiguous(), rows[:, band], out=resized[:, first:last])
    return resized.view(n, size, size, channels).permute(0, 3, 1, 2)


@lru_cache
def _weights(side: int, size: int, interpolation: str) -> Tensor:
    """Resizing one side is a matrix product: this matrix, (size, side), is what resizing makes of the identity."""
    return _resized(torch.eye(side)[None, None], size, side, interpolation)[0, 0]


class Normalise(nn.Module):
    """From uint8 to float32 images: ``(x / 255 - mean) / std``.

    The result has its channels last in memory, as convolutions on a CPU are up to twice as fast on these.
    ``channels_last=False`` is for networks that are not safe with it, see :func:`channels_may_be_last`.
    """

    scale: Tensor  # (3,)
    shift: Tensor  # (3,)

    def __init__(self, mean: Colour, std: Colour, channels_last: bool = True):
        super().__init__()
        self.channels_last = channels_last
        scale = 1 / (255 * torch.tensor(std, dtype=torch.float64))
        shift = -255 * torch.tensor(mean) * scale
        self.register_buffer("scale", scale.float(), persistent=False)  # not a weight: never sent
        self.register_buffer("shift", shift.float(), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to the same shape; whole rows at a time, as broadcasting over 3 colours is ten times slower."""
        n, colours, height, width = images.shape
        rows = images.permute(0, 2, 3, 1).reshape(n, height, width * colours)
        rows = torch.addcmul(self.shift.repeat(width), rows.float(), self.scale.repeat(width))
        normalised = rows.view(n, height, width, colours).permute(0, 3, 1, 2)
        return normalised if self.channels_last else normalised.contiguous()


def channels_may_be_last(network: nn.Module) -> bool:
    """Whether it is safe to train this network on images with channels last in memory.

    It is not where a 1x1 convolution has a stride and fewer than 8 input channels, as the shortcuts of a very narrow
    ResNet have. On a CPU with AVX2, oneDNN 3.13 (in torch 2.15) then computes a wrong gradient of the weights, writes
    outside of its memory, or never ends.
    """
    convolutions = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    shortcuts = [layer for layer in convolutions if layer.kernel_size == (1, 1) and max(layer.stride) > 1]
    return all(layer.in_channels >= FEW_CHANNELS for layer in shortcuts)


class CropFlip(nn.Module):
    """While training, each image moves by up to 4 pixels, black coming in, and is mirrored half of the time."""

    margin = 4

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to the same shape."""
        if not self.training:
            return images
        n, channels, height, width = images.shape
        down, right = torch.randint(2 * self.margin + 1, (2, n, 1))
        mirrored = torch.rand(n, 1) < 0.5
        rows = torch.arange(height) + down  # (n, h), in the padded image
        columns = torch.arange(width) + right  # (n, w)
        columns = torch.where(mirrored, columns.flip(1), columns)
        index = (
            torch.arange(n).view(n, 1, 1, 1),
            torch.arange(channels).view(channels, 1, 1),
            rows.view(n, 1, height, 1),
            columns.view(n, 1, 1, width),
        )
        padded = pad(images, [self.margin] * 4)
        return padded[tuple(part.to(images.device) for part in index)]


class Brightness(nn.Module):
    """While training, each image is made up to 63/255 darker or brighter."""

    spread = 63 / 255

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to the same shape; cut to whole grey levels, as torchvision's ColorJitter does."""
        if not self.training:
            return images
        factors = torch.empty(len(images), 1, 1, 1).uniform_(1 - self.spread, 1 + self.spread)
        brighter = images * factors.to(images.device)
        return brighter.clamp(0, 255).to(images.dtype)


class ResizedCropFlip(nn.Module):
    """While training, a random part of each image is enlarged to the whole, and mirrored half of the time."""

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to the same shape; bilinear, and nothing from outside the part shines in at its edges."""
        if not self.training:
            return images
        n, _, height, width = images.shape
        top, left, tall, wide = random_parts(n, height, width)
        mirrored = torch.rand(n, 1) < 0.5
        rows = _sampled(top, tall, height)  # (n, h)
        columns = _sampled(left, wide, width)  # (n, w)
        columns = torch.where(mirrored, columns.flip(1), columns)
        across = columns.view(n, 1, width).expand(n, height, width)
        down = rows.view(n, height, 1).expand(n, height, width)
        grid = torch.stack((across, down), dim=3).to(images.device)
        enlarged = grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
        return enlarged.round().to(images.dtype)


def random_parts(n: int, height: int, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Top, left, height and width of a part of each image, in whole pixels, as torchvision's RandomResizedCrop draws.

    8 to 100 % of the area, 3:4 to 4:3 (log-uniform), the first of ten attempts that fits; if none does, the first is
    cut to the image.
    """
    area = height * width * torch.empty(n, 10).uniform_(0.08, 1)  # (n, attempts), like the next three
    ratio = torch.empty(n, 10).uniform_(math.log(3 / 4), math.log(4 / 3)).exp()
    tall = (area / ratio).sqrt().round().long()
    wide = (area * ratio).sqrt().round().long()
    fits = (tall <= height) & (wide <= width)
    first = fits.int().argmax(1, keepdim=True)  # (n, 1); 0 where none fits
    tall = tall.gather(1, first)[:, 0].clamp(1, height)  # (n,)
    wide = wide.gather(1, first)[:, 0].clamp(1, width)
    down, right = torch.randint(2**31, (2, n))
    top = down % (height - tall + 1)
    left = right % (width - wide + 1)
    return top, left, tall, wide


def _sampled(start: Tensor, length: Tensor, side: int) -> Tensor:
    """Where, on grid_sample's scale from -1 to 1, ``side`` pixels lie that are spread over a part of it: (n, side)."""
    start = start[:, None]
    length = length[:, None]
    inside = (torch.arange(side) + 0.5) * length / side - 0.5  # in pixels of the part
    inside = torch.minimum(inside.clamp(min=0), length - 1)
    return (2 * (start + inside) + 1) / side - 1


AUGMENTATIONS: dict[str, Callable[[], nn.Module]] = {
    "none": nn.Identity,
    "crop_flip": CropFlip,
    "crop_flip_brightness": lambda: nn.Sequential(CropFlip(), Brightness()),
    "resized_crop_flip": ResizedCropFlip,
}
