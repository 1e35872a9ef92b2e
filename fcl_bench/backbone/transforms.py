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
            return _resized(
                images.contiguous(memory_format=torch.channels_last), self.size, self.size, self.interpolation
            )
        height, width = images.shape[-2:]
        if max(height, width) > SMALL:
            return _resized(images.float(), self.size, self.size, self.interpolation)
        down, across = (_weights(side, self.size, self.interpolation) for side in (height, width))
        rows = (images.float() @ across.T).permute(0, 2, 3, 1).reshape(len(images), height, -1)
        return (down @ rows).view(len(images), self.size, self.size, -1).permute(0, 3, 1, 2)  # channels last in memory


def _resized(images: Tensor, height: int, width: int, interpolation: str) -> Tensor:
    from torchvision.transforms import InterpolationMode  # slow to import, and not needed when features are known
    from torchvision.transforms.v2.functional import resize

    mode = InterpolationMode("nearest-exact" if interpolation == "nearest" else interpolation)
    return resize(images, [height, width], mode)


@lru_cache
def _weights(side: int, size: int, interpolation: str) -> Tensor:
    """Resizing one side is a matrix product: this matrix, (size, side), is what resizing makes of the identity."""
    return _resized(torch.eye(side)[None, None], size, side, interpolation)[0, 0]


class Normalise(nn.Module):
    """From uint8 to float32 images, channels last in memory: convolutions on a CPU are up to twice as fast on these."""

    scale: Tensor
    shift: Tensor

    def __init__(self, mean: Colour, std: Colour):
        super().__init__()
        scale = 1 / (255 * torch.tensor(std, dtype=torch.float64))
        self.register_buffer("scale", scale.float(), persistent=False)  # not a weight: never sent
        self.register_buffer("shift", (-255 * torch.tensor(mean) * scale).float(), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to the same shape; whole rows at a time, as broadcasting over 3 colours is ten times slower."""
        n, colours, height, width = images.shape
        rows = images.permute(0, 2, 3, 1).reshape(n, height, width * colours).float()
        rows = torch.addcmul(self.shift.repeat(width), rows, self.scale.repeat(width))
        return rows.view(n, height, width, colours).permute(0, 3, 1, 2)


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
        rows = torch.arange(height) + down
        columns = torch.arange(width) + right
        columns = torch.where(mirrored, columns.flip(1), columns)
        place = (
            torch.arange(n)[:, None, None, None],
            torch.arange(channels)[:, None, None],
            rows[:, None, :, None],
            columns[:, None, None, :],
        )
        return pad(images, [self.margin] * 4)[tuple(index.to(images.device) for index in place)]


class Brightness(nn.Module):
    """While training, each image is made up to 63/255 darker or brighter."""

    spread = 63 / 255

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to the same shape; cut to whole grey levels, as torchvision's ColorJitter does."""
        if not self.training:
            return images
        factors = torch.empty(len(images), 1, 1, 1).uniform_(1 - self.spread, 1 + self.spread)
        return (images * factors.to(images.device)).clamp(0, 255).to(images.dtype)


class ResizedCropFlip(nn.Module):
    """While training, a random part of each image is enlarged to the whole, and mirrored half of the time."""

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to the same shape; bilinear, and nothing from outside the part shines in at its edges."""
        if not self.training:
            return images
        n, _, height, width = images.shape
        top, left, tall, wide = random_parts(n, height, width)
        mirrored = torch.rand(n, 1) < 0.5
        rows, columns = _sampled(top, tall, height), _sampled(left, wide, width)
        columns = torch.where(mirrored, columns.flip(1), columns)
        shape = (n, height, width)
        grid = torch.stack((columns[:, None, :].expand(shape), rows[:, :, None].expand(shape)), dim=3)
        made = grid_sample(images.float(), grid.to(images.device), padding_mode="border", align_corners=False)
        return made.round().to(images.dtype)


def random_parts(n: int, height: int, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Top, left, height and width of a part of each image, in whole pixels, as torchvision's RandomResizedCrop draws.

    8 to 100 % of the area, 3:4 to 4:3 (log-uniform), the first of ten attempts that fits; if none does, the first is
    cut to the image.
    """
    area = height * width * torch.empty(n, 10).uniform_(0.08, 1)
    ratio = torch.empty(n, 10).uniform_(math.log(3 / 4), math.log(4 / 3)).exp()
    tall, wide = (area / ratio).sqrt().round().long(), (area * ratio).sqrt().round().long()
    first = ((tall <= height) & (wide <= width)).int().argmax(1, keepdim=True)
    tall, wide = tall.gather(1, first)[:, 0].clamp(1, height), wide.gather(1, first)[:, 0].clamp(1, width)
    down, right = torch.randint(2**31, (2, n))
    return down % (height - tall + 1), right % (width - wide + 1), tall, wide


def _sampled(start: Tensor, length: Tensor, side: int) -> Tensor:
    """Where, on grid_sample's scale from -1 to 1, ``side`` pixels lie that are spread over a part of it: (n, side)."""
    inside = (torch.arange(side) + 0.5) * length[:, None] / side - 0.5
    inside = torch.minimum(inside.clamp(min=0), length[:, None] - 1)
    return (2 * (start[:, None] + inside) + 1) / side - 1


AUGMENTATIONS: dict[str, Callable[[], nn.Module]] = {
    "none": nn.Identity,
    "crop_flip": CropFlip,
    "crop_flip_brightness": lambda: nn.Sequential(CropFlip(), Brightness()),
    "resized_crop_flip": ResizedCropFlip,
}
