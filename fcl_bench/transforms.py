"""From the images a data set reads to what a network sees: resize, augment, normalise."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from fcl_bench.errors import ConfigError

Colour = tuple[float, float, float]


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
        from torchvision.transforms import InterpolationMode  # slow to import, and not needed when features are known
        from torchvision.transforms.v2.functional import resize

        mode = InterpolationMode("nearest-exact" if self.interpolation == "nearest" else self.interpolation)
        if isinstance(images, list):
            return torch.cat([self.resize(image[None]) for image in images])
        # in memory, bytes are resized faster with channels last, floats with channels first
        ready = images.contiguous(memory_format=torch.channels_last) if self.rounded else images.float()
        return resize(ready, [self.size, self.size], mode)


class Normalise(nn.Module):
    """From uint8 to float32 images, channels last in memory: convolutions on a CPU are up to twice as fast on these."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Colour, std: Colour):
        super().__init__()
        self.register_buffer("mean", 255 * torch.tensor(mean), persistent=False)  # not a weight: never sent
        self.register_buffer("std", 255 * torch.tensor(std), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to the same shape; whole rows at a time, as broadcasting over 3 colours is ten times slower."""
        n, colours, height, width = images.shape
        rows = images.permute(0, 2, 3, 1).reshape(n, height, width * colours).to(torch.float32, copy=True)
        rows.sub_(self.mean.repeat(width)).div_(self.std.repeat(width))
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
