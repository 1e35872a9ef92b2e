"""Class folders with one file that is no longer the image it was."""

import io
import shutil
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.mutations import mutated
from fcl_bench.dataset import Dataset
from fcl_bench.datasets.image_folder import image_folder

KINDS = ("png", "jpeg", "bmp", "webp", "ppm")


def prepare(sound: Path) -> Callable[[np.random.Generator, Path], str]:
    """Two classes with an image of each format."""
    rng = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (sound / label).mkdir(parents=True)
        for number, kind in enumerate(KINDS):
            suffix = {"jpeg": "jpg"}.get(kind, kind)
            noise = rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)
            Image.fromarray(noise).save(sound / label / f"{number}.{suffix}", kind)
    before = seen(sound)

    def case(rng: np.random.Generator, place: Path) -> str:
        folder = shutil.copytree(sound, place / "images")
        files = sorted(folder.rglob("*.*"))
        path = files[int(rng.integers(len(files)))]
        data = path.read_bytes()
        path.write_bytes(CRAFTED[int(rng.integers(len(CRAFTED)))](data, rng))
        return end(before, seen(folder))

    return case


def seen(folder: Path) -> tuple[str, bytes]:
    """The fingerprint and all pixels, as a run would have them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Pillow, about files that it reads all the same
        dataset = image_folder("hostile", folder.parent, folder, 0.5)
        return dataset.fingerprint, pixels(dataset)


def pixels(dataset: Dataset) -> bytes:
    halves = (dataset.train, dataset.test)
    images = [image for half in halves for image in half.read(np.arange(len(half.labels)))]
    labels = [half.labels.tobytes() for half in halves]
    return b"".join([*labels, *(image.numpy().tobytes() for image in images)])


def end(before: tuple[str, bytes], after: tuple[str, bytes]) -> str:
    """Values may change only together with the fingerprint."""
    if after == before:
        return "same"
    return "silent change" if after[0] == before[0] else "other"


def _foreign(data: bytes, rng: np.random.Generator) -> bytes:
    """A format that is not meant; EPS would be handed to another program."""
    image = Image.new("RGB", (12, 12), "red")
    buffer = io.BytesIO()
    image.save(buffer, ("eps", "tiff", "gif", "ico", "pcx", "tga")[int(rng.integers(6))])
    return buffer.getvalue()


def _bomb(data: bytes, rng: np.random.Generator) -> bytes:
    """A PNG of few bytes that declares very many pixels."""
    size = int(rng.integers(2**14, 2**31))
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


CRAFTED = (*[mutated] * 8, _foreign, _bomb)
