"""Images in memory, in folders and in zip files.

Listing files is cheap; they are decoded at each read, and only those asked for, so that nothing is decoded for a run
whose features are known.
"""

import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from fcl_bench.errors import UserError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm")


class Files(Protocol):
    """The files of a folder or zip file; paths are relative to it and use "/"."""

    @property
    def root(self) -> Path:
        """The folder or the zip file, as an absolute path."""
        ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """The size of each file, and 0 for each folder, whose path ends in "/"; hidden ones do not count."""
        ...

    def crc(self, path: str) -> int:
        """The CRC-32 of one file."""
        ...

    def read(self, path: str) -> bytes:
        """The contents of one file."""
        ...


@dataclass(frozen=True)
class Folder:
    """The files of a folder."""

    root: Path
    sizes: Mapping[str, int]

    def crc(self, path: str) -> int:
        """Found by reading the file."""
        try:
            return zlib.crc32(self.read(path))
        except OSError as error:
            raise UserError(
                f"Cannot read {self.root / path}: {error.strerror}; replace it or set its rights."
            ) from error

    def read(self, path: str) -> bytes:
        """The contents of one file."""
        return (self.root / path).read_bytes()


@dataclass(frozen=True)
class Zip:
    """The files of a zip file below ``prefix``."""

    root: Path
    prefix: str
    sizes: Mapping[str, int]

    def crc(self, path: str) -> int:
        """As the directory of the zip file states it."""
        return _open_zip(self.root, os.getpid()).getinfo(self.prefix + path).CRC

    def read(self, path: str) -> bytes:
        """The contents of one file, checked against its CRC."""
        return _open_zip(self.root, os.getpid()).read(self.prefix + path)


def open_files(path: Path) -> Files:
    """The files of a folder, or of a zip file without the one top folder that zip files often have."""
    path = path.absolute()
    try:
        if path.suffix.lower() != ".zip":
            return Folder(path, dict(_walk(path, "")))
        infos = [info for info in _open_zip(path, os.getpid()).infolist() if not _hidden(info.filename)]
        tops = {info.filename.partition("/")[0] + "/" for info in infos}
        prefix = tops.pop() if len(tops) == 1 else ""
        sizes = {info.filename.removeprefix(prefix): info.file_size for info in infos if info.filename != prefix}
        return Zip(path, prefix, sizes)
    except (zipfile.BadZipFile, OSError) as error:
        raise UserError(
            f"Cannot open {path} ({error}); if it is damaged or incomplete, replace it by an intact copy."
        ) from error


@lru_cache(maxsize=2)
def _open_zip(path: Path, process: int) -> zipfile.ZipFile:
    """One handle per process, as a forked one shares the position in its file; threads may share a handle."""
    return zipfile.ZipFile(path)


def _walk(folder: Path | str, prefix: str) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if _hidden(entry.name):
                continue
            if entry.is_dir():
                yield f"{prefix}{entry.name}/", 0
                yield from _walk(entry.path, f"{prefix}{entry.name}/")
            else:
                yield prefix + entry.name, entry.stat().st_size


def _hidden(path: str) -> bool:
    return any(name.startswith((".", "__MACOSX")) for name in path.split("/"))


@dataclass(eq=False)
class ImageFiles:
    """Samples that are decoded when they are read."""

    files: Files
    paths: Sequence[str]
    labels: np.ndarray

    def read(self, indices: np.ndarray) -> Tensor | list[Tensor]:
        """The images at ``indices``; one that cannot be read is an error, never left out."""
        images = [self._decode(self.paths[index]) for index in indices]
        return torch.stack(images) if len({image.shape for image in images}) == 1 else images

    def _decode(self, path: str) -> Tensor:
        try:
            return decode(self.files.read(path))
        except Exception as error:  # image decoders raise anything on damaged bytes
            raise UserError(
                f"Cannot read the image {path} of {self.files.root} ({error}); "
                "replace it by an intact copy, or remove it if the data set is your own."
            ) from error


@dataclass(eq=False)
class Pixels:
    """Samples that are in memory."""

    images: np.ndarray  # (n, 3, h, w) uint8
    labels: np.ndarray

    def read(self, indices: np.ndarray) -> Tensor:
        """A copy of the images at ``indices``."""
        return torch.from_numpy(self.images[indices])


def decode(data: bytes) -> Tensor:
    """Any image file as uint8 RGB (3, h, w); transparency is dropped, 16 bit grey is scaled to 8 bit."""
    with Image.open(BytesIO(data)) as image:
        if image.mode.startswith("I"):  # Pillow's own conversion would turn all above 255 into white
            grey = np.asarray(image) >> 8
            return torch.from_numpy(grey.astype(np.uint8)).expand(3, -1, -1).contiguous()
        opaque = image.convert("RGBA").convert("RGB") if "transparency" in image.info else image.convert("RGB")
        return torch.from_numpy(np.asarray(opaque).transpose(2, 0, 1).copy())
