"""Archives are looked at as a whole before anything is written, and unpacked whole or not at all."""

import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from unicodedata import normalize

from filelock import FileLock

from fcl_bench.errors import UserError
from fcl_bench.files import abandoned

MOST_MEMBERS = 5_000_000
MOST_GROWTH = 100  # times the size of the archive that its contents may take; photographs do not shrink at all ...
ALWAYS_FINE = 2**30  # ... but few bytes of text may shrink more


class Refused(Exception):
    """An archive that nobody should unpack; the message goes on after "Refused to unpack FILE: "."""


@dataclass(frozen=True)
class Member:
    """What an archive declares about one of its parts."""

    name: str
    size: int
    is_plain: bool  # a file or a folder


def most_contents(archive_size: int) -> int:
    """The bytes that an archive of this size may declare to hold."""
    return max(ALWAYS_FINE, MOST_GROWTH * archive_size)


def unpack(archive: Path, target: Path) -> Path:
    """Unpack a zip or tar file to the folder ``target`` unless it is there; a top folder of that name is taken off."""
    with _in_sentences(archive, target), FileLock(f"{target}.lock"):
        for left in abandoned(target):
            shutil.rmtree(left, ignore_errors=True)
        if not target.exists():
            with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
                contents = Path(scratch, "contents")
                _extract(archive, contents)
                inner = contents / target.name
                (inner if inner.is_dir() else contents).replace(target)
    return target


@contextmanager
def _in_sentences(archive: Path, target: Path) -> Iterator[None]:
    try:
        yield
    except (Refused, tarfile.FilterError) as error:
        raise UserError(f"Refused to unpack {archive.absolute()}: {error}; get it from a source you trust.") from error
    except OSError as error:
        if error.errno is None:  # raised by a reader of archives
            raise _damaged(archive) from error
        raise UserError(f"Cannot unpack {archive.absolute()} to {target.absolute()}: {error.strerror}") from error
    except Exception as error:  # damaged archives raise anything
        raise _damaged(archive) from error


def _damaged(archive: Path) -> UserError:
    return UserError(f"{archive.absolute()} is damaged or incomplete; replace it by an intact copy.")


def _extract(archive: Path, folder: Path) -> None:
    size = archive.stat().st_size
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            infos = zipped.infolist()
            if any(info.flag_bits & 1 for info in infos):
                raise Refused("it is encrypted")
            _check(map(_zip_member, infos), size, folder)
            zipped.extractall(folder)
        return
    with tarfile.open(archive) as tarred:
        _check(map(_tar_member, tarred), size, folder)
        tarred.extractall(folder, filter="data")


def _zip_member(info: zipfile.ZipInfo) -> Member:
    mode = info.external_attr >> 16  # 0 where another system than Unix wrote the archive
    return Member(info.filename, info.file_size, stat.S_IFMT(mode) in (0, stat.S_IFREG, stat.S_IFDIR))


def _tar_member(info: tarfile.TarInfo) -> Member:
    return Member(info.name, info.size, info.isreg() or info.isdir())


def _check(members: Iterator[Member], archive_size: int, folder: Path) -> None:
    """Raise :class:`Refused` at the first member that should not be written."""
    most = min(most_contents(archive_size), shutil.disk_usage(folder.parent).free)
    total = 0
    seen: set[str] = set()
    for member in members:
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or "\\" in member.name or "\0" in member.name:
            raise Refused(f"its member {member.name} would land outside of the target folder")
        if not member.is_plain:
            raise Refused(f"its member {member.name} is a link or a device")
        name = normalize("NFC", str(path)).casefold()
        if name in seen:
            raise Refused(f"it has two members {member.name}, or two that differ only in the way they are written")
        seen.add(name)
        total += max(member.size, 0)
        if total > most or len(seen) > MOST_MEMBERS:
            raise Refused(
                f"its contents declare more than {most:,} bytes or {MOST_MEMBERS:,} files, "
                "more than there is room for or than an archive of this size may hold"
            )
