"""From the images a data set reads to what a network sees: resize, augment, normalise."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

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
        return down @ (images.float() @ across.T)


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
