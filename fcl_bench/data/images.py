"""Images in memory, in folders and in zip files.

Listing files is cheap; they are decoded at each read, and only those asked for, so that nothing is decoded for a run
whose features are known.
"""

import os
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b, file_digest
from io import BytesIO
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from fcl_bench.data.archives import most_contents
from fcl_bench.data.file_states import Look, below
from fcl_bench.errors import UserError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm")
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM")  # Pillow's names; others, some of which start programs, stay closed
MOST_PIXELS = 2**26  # a sound photograph has fewer; a small file can declare many more than memory holds
LARGEST_FILE = 2**28  # bytes


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

    def look(self, path: str) -> Look:
        """What the file that holds this one looked like when it was listed."""
        ...

    def digest(self, path: str) -> str:
        """The digest of the contents of one file."""
        ...

    def read(self, path: str) -> bytes:
        """The contents of one file."""
        ...


@dataclass(frozen=True)
class Folder:
    """The files of a folder."""

    root: Path
    looks: Mapping[str, Look]
    sizes: Mapping[str, int]

    def look(self, path: str) -> Look:
        """Of the file itself."""
        return self.looks[path]

    def digest(self, path: str) -> str:
        """Found by reading the file."""
        try:
            with (self.root / path).open("rb") as file:
                return file_digest(file, _hasher).hexdigest()
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
    whole: Look  # of the zip file
    sizes: Mapping[str, int]

    def look(self, path: str) -> Look:
        """Of the zip file."""
        return self.whole

    def digest(self, path: str) -> str:
        """Found by reading the file, which is checked against its CRC."""
        try:
            with self._archive.open(self.prefix + path) as file:
                return file_digest(file, _hasher).hexdigest()  # type: ignore[arg-type]
        except Exception as error:  # damaged archives raise anything
            raise UserError(
                f"Cannot read {path} of {self.root} ({error}); replace the archive by an intact copy without password."
            ) from error

    def read(self, path: str) -> bytes:
        """The contents of one file, checked against its CRC."""
        return self._archive.read(self.prefix + path)

    @property
    def _archive(self) -> zipfile.ZipFile:
        return _open_zip(self.root, self.whole, os.getpid())


def open_files(path: Path) -> Files:
    """The files of a folder, or of a zip file without the one top folder that zip files often have."""
    path = path.absolute()
    try:
        if path.is_dir():
            return _folder(path)
        if path.suffix.lower() != ".zip" or not path.is_file():
            raise UserError(f"Expected {path} to be a folder or a zip file: set the setting that names it to one.")
        return _zip(path)
    except UserError:
        raise
    except Exception as error:  # damaged archives raise anything
        raise UserError(
            f"Cannot open {path} ({error}); if it is damaged or incomplete, replace it by an intact copy."
        ) from error


def _folder(path: Path) -> Folder:
    found = dict(_walk(path))
    looks = {name: look for name, look in found.items() if look}
    sizes = {name: look.size if look else 0 for name, look in found.items()}
    return Folder(path, looks, sizes)


def _zip(path: Path) -> Zip:
    whole = Look.of(path.stat())
    infos = [info for info in _open_zip(path, whole, os.getpid()).infolist() if not _hidden(info.filename)]
    name, count = Counter(info.filename for info in infos).most_common(1)[0] if infos else ("", 0)
    if count > 1:
        raise UserError(
            f"{path} has {count} files of the name {name!r}: only one of them can be meant, remove the others."
        )
    if (declared := sum(info.file_size for info in infos)) > most_contents(whole.size):
        raise UserError(
            f"{path} declares {declared:,} bytes of contents, more than a zip file of {whole.size:,} bytes may hold: "
            "get it from a source you trust."
        )
    tops = {info.filename.partition("/")[0] + "/" for info in infos}
    prefix = tops.pop() if len(tops) == 1 else ""
    sizes = {info.filename.removeprefix(prefix): info.file_size for info in infos if info.filename != prefix}
    return Zip(path, prefix, whole, sizes)


@lru_cache(maxsize=2)
def _open_zip(path: Path, whole: Look, process: int) -> zipfile.ZipFile:
    """One handle per process, as a forked one shares the position in its file; threads may share a handle."""
    return zipfile.ZipFile(path)


def _walk(folder: Path) -> Iterator[tuple[str, Look | None]]:
    """The path and look of each file; folders end in "/" and have none."""
    start = len(str(folder)) + 1
    for entry, stat in below(str(folder)):
        path = entry.path[start:].replace(os.sep, "/")
        if _hidden(path):
            continue
        if S_ISDIR(stat.st_mode):
            yield f"{path}/", None
        elif S_ISREG(stat.st_mode):
            yield path, Look.of(stat)
        else:
            raise UserError(f"{entry.path} is not a file, but a pipe, a device or a link to nothing: remove it.")


def _hidden(path: str) -> bool:
    return any(name.startswith((".", "__MACOSX")) for name in path.split("/"))


def _hasher() -> Any:
    return blake2b(digest_size=16)


@dataclass(eq=False)
class ImageFiles:
    """Samples that are decoded when they are read.

    Where ``digests`` are given, a file that no longer holds what they say is an error.
    """

    files: Files
    paths: Sequence[str]
    labels: np.ndarray
    digests: Sequence[str] | None = None

    def read(self, indices: np.ndarray) -> Tensor | list[Tensor]:
        """The images at ``indices``; one that cannot be read is an error, never left out."""
        images = [self._decode(index) for index in indices]
        return torch.stack(images) if len({image.shape for image in images}) == 1 else images

    def _decode(self, index: int) -> Tensor:
        path = self.paths[index]
        try:
            data = self.files.read(path)
            image = decode(data)
        except Exception as error:  # image decoders raise anything on damaged bytes
            raise UserError(
                f"Cannot read the image {path} of {self.files.root} ({error}); "
                "replace it by an intact copy, or remove it if the data set is your own."
            ) from error
        if self.digests is not None and blake2b(data, digest_size=16).hexdigest() != self.digests[index]:
            raise UserError(f"The image {path} of {self.files.root} was changed during the run: run it again.")
        return image


@dataclass(eq=False)
class Pixels:
    """Samples that are in memory."""

    images: np.ndarray  # (n, 3, h, w) uint8
    labels: np.ndarray

    def read(self, indices: np.ndarray) -> Tensor:
        """A copy of the images at ``indices``."""
        return torch.from_numpy(self.images[indices])


def decode(data: bytes) -> Tensor:
    """An image file as uint8 RGB (3, h, w), whatever its name says.

    Transparency is dropped, 16 bit are scaled to 8, and of several images in a file the first one counts.
    """
    with Image.open(BytesIO(data), formats=FORMATS) as image:
        if image.width * image.height > MOST_PIXELS:
            raise ValueError(f"it has {image.width} x {image.height} pixels, more than {MOST_PIXELS:,}")
        if image.mode == "F":
            raise ValueError("its numbers are fractions, which have no fixed range")
        if image.mode.startswith("I"):  # Pillow's own conversion would turn all above 255 into white
            grey = np.asarray(image) >> 8
            return torch.from_numpy(grey.astype(np.uint8)).expand(3, -1, -1).contiguous()
        opaque = image.convert("RGBA").convert("RGB") if "transparency" in image.info else image.convert("RGB")
        return torch.from_numpy(np.asarray(opaque).transpose(2, 0, 1).copy())
