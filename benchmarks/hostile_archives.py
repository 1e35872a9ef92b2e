"""Archives of class folders that want to write elsewhere, to fill the disk, or that are damaged."""

import io
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import hostile_images
from benchmarks.hostile_images import end, seen
from benchmarks.mutations import mutated
from fcl_bench.data.archives import unpack
from fcl_bench.errors import UserError

NAMES = (
    "../evil.png",
    "/tmp/fcl_bench_evil.png",
    "set/../../evil.png",
    "cat/0.png",
    "CAT/0.PNG",
    "c\\..\\..\\evil.png",
    "cat",
)
TYPES = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE)
LINKS = ("..", "/etc", "../../evil", "cat")


def prepare(sound: Path) -> Callable[[np.random.Generator, Path], str]:
    """The images of :mod:`benchmarks.hostile_images` in a zip file and a tar file."""
    hostile_images.prepare(sound / "set")
    before = seen(sound / "set")
    files = {str(path.relative_to(sound / "set")): path.read_bytes() for path in sorted((sound / "set").rglob("*.*"))}

    def case(rng: np.random.Generator, place: Path) -> str:
        kind = ("zip", "tar", "tar.gz")[int(rng.integers(3))]
        archive = place / f"set.{kind}"
        archive.write_bytes(_archive(kind, files, rng))
        inside = place / "inside"
        inside.mkdir()
        in_place = kind == "zip" and rng.integers(2)
        try:
            found = end(before, seen(archive if in_place else unpack(archive, inside / "set")))
        except UserError:
            found = "refused"
        return "write outside" if _outside(place, archive) else found

    return case


def _outside(place: Path, archive: Path) -> bool:
    """Whether anything lies where nothing should, or half of something where only a whole one may."""
    evil = Path("/tmp/fcl_bench_evil.png")
    strange = {path.name for path in place.iterdir()} - {archive.name, "inside"}
    strange |= {path.name for path in (place / "inside").iterdir()} - {"set", "set.lock"}
    found = evil.exists() or bool(strange)
    evil.unlink(missing_ok=True)
    return found


def _archive(kind: str, files: dict[str, bytes], rng: np.random.Generator) -> bytes:
    buffer = io.BytesIO()
    crafted = bool(rng.integers(2))
    if kind == "zip":
        _write_zip(buffer, files, rng if crafted else None)
    else:
        _write_tar(buffer, kind, files, rng if crafted else None)
    data = buffer.getvalue()
    return data if crafted else mutated(data, rng)


def _write_zip(buffer: io.BytesIO, files: dict[str, bytes], rng: np.random.Generator | None) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # of Python, about two files of one name
        for name, data in files.items():
            archive.writestr(name, data)
        if rng is None:
            return
        info = zipfile.ZipInfo(NAMES[int(rng.integers(len(NAMES)))])
        link = rng.integers(4) == 0
        info.external_attr = (stat.S_IFLNK if link else stat.S_IFREG) << 16
        archive.writestr(info, LINKS[int(rng.integers(len(LINKS)))])
        info.flag_bits |= int(rng.integers(2))  # encrypted
        if rng.integers(4) == 0:
            info.file_size = 2**31  # a size that is not true


def _write_tar(buffer: io.BytesIO, kind: str, files: dict[str, bytes], rng: np.random.Generator | None) -> None:
    with tarfile.open(fileobj=buffer, mode="w:gz" if kind == "tar.gz" else "w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        if rng is None:
            return
        member = tarfile.TarInfo(NAMES[int(rng.integers(len(NAMES)))])
        if rng.integers(2):
            member.type = TYPES[int(rng.integers(len(TYPES)))]
            member.linkname = LINKS[int(rng.integers(len(LINKS)))]
        elif rng.integers(2):
            member.size = 2**40  # there are not so many bytes
            archive.fileobj.write(member.tobuf())  # type: ignore[union-attr]
            return
        archive.addfile(member)
