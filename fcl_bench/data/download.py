"""Published archives: found in ``data_dir`` or fetched once, checked, and never visible half-written."""

import hashlib
import shutil
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from ssl import SSLError
from typing import BinaryIO, cast
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from filelock import FileLock
from rich.progress import wrap_file

from fcl_bench.errors import ConfigError, UserError
from fcl_bench.files import abandoned

DEFAULT = Path("data")  # what data_dir is if it is not set; a download creates this folder, but no other one
ATTEMPTS = 5
PAUSE = 1.0  # seconds before the second attempt, doubled for each further one
TIMEOUT = 30.0  # seconds without a byte until a connection counts as dropped


@dataclass(frozen=True)
class Source:
    """Where a data set is published, and the forms of it that are taken from ``data_dir`` instead."""

    url: str
    md5: str
    accepts: tuple[str, ...]  # file names or patterns, the preferred one first; a folder ends in "/"

    def places(self, data_dir: Path) -> tuple[Path, ...]:
        """Where :meth:`find` looks, whether anything is there or not."""
        paths: list[Path] = []
        for form in self.accepts:
            name = form.rstrip("/")
            paths += sorted(data_dir.glob(name)) or [data_dir / name]
        return tuple(paths)

    def find(self, data_dir: Path, download: bool) -> Path:
        """The first accepted form in ``data_dir``, else the archive, downloaded to there."""
        if not data_dir.is_dir() and data_dir != DEFAULT:
            raise ConfigError(
                f"There is no folder {data_dir.absolute()}: set data_dir to where the data are, "
                "or create this folder to have them downloaded to it."
            )
        for form in self.accepts:
            for path in sorted(data_dir.glob(form.rstrip("/"))):
                if path.is_dir() == form.endswith("/"):
                    return path
        problem = f"downloads are off (dataset.download=false; it is published at {self.url})"
        if download:
            try:
                return fetch(self.url, data_dir / PurePosixPath(self.url).name, self.md5)
            except UserError as error:
                problem = f"the download failed ({error})"
        raise UserError(
            f"Found none of {', '.join(self.accepts)} in {data_dir.absolute()}, and {problem}. "
            "Put one of them there, or point data_dir to where it is."
        ) from None


def fetch(url: str, target: Path, md5: str) -> Path:
    """Download to ``target`` unless it is there; a partial download is continued, by one process at a time."""
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{target}.lock"):
            if target.exists():
                return verify(target, md5)
            if part.exists() and checksum(part) != md5:
                _transfer(url, part)
                if checksum(part) != md5:
                    part.unlink()
            if not part.exists():
                _transfer(url, part)
            if checksum(part) != md5:
                part.unlink()
                raise UserError(f"what {url} delivers has a wrong checksum, expected md5 {md5}")
            return part.replace(target)
    except OSError as error:
        raise UserError(f"cannot save {url} as {target.absolute()}: {error.strerror or error}") from error


def verify(path: Path, md5: str) -> Path:
    """``path`` itself, if its contents are the published ones."""
    try:
        found = checksum(path)
    except OSError as error:
        raise UserError(f"Cannot read {path.absolute()}: {error.strerror}; put an intact copy there.") from error
    if found != md5:
        raise UserError(
            f"{path.absolute()} has a wrong checksum (md5 {found}, expected {md5}): it is incomplete or altered. "
            "Delete it, then run again to download it or put an intact copy there."
        )
    return path


def checksum(path: Path) -> str:
    """The md5 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def unpack(archive: Path, target: Path) -> Path:
    """Unpack a zip or tar file to the folder ``target`` unless it is there; a top folder of that name is taken off."""
    try:
        with FileLock(f"{target}.lock"):
            for left in abandoned(target):
                shutil.rmtree(left, ignore_errors=True)
            if not target.exists():
                with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
                    contents = Path(scratch, "contents")
                    _extract(archive, contents)
                    inner = contents / target.name
                    (inner if inner.is_dir() else contents).replace(target)
    except tarfile.FilterError as error:
        raise UserError(f"Refused to unpack {archive.absolute()}: {error}; get it from a source you trust.") from error
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UserError(f"{archive.absolute()} is damaged or incomplete; replace it by an intact copy.") from error
    except OSError as error:
        raise UserError(
            f"Cannot unpack {archive.absolute()} to {target.absolute()}: {error.strerror or error}"
        ) from error
    return target


def _extract(archive: Path, folder: Path) -> None:
    """Stop at the first member that would land outside of ``folder``."""

    def check(name: str) -> None:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise tarfile.FilterError(f"its member {name} would land outside of the target folder")

    def contained(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        check(member.name)
        return tarfile.data_filter(member, path)

    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for name in zipped.namelist():
                check(name)
            zipped.extractall(folder)
    else:
        with tarfile.open(archive) as tarred:
            tarred.extractall(folder, filter=contained)


def _transfer(url: str, part: Path) -> None:
    """Bring ``part`` to its full length, taking up dropped connections again; being offline is final at once."""
    for attempt in range(ATTEMPTS):
        try:
            _receive(url, part)
            return
        except HTTPError as error:
            problem = f"{url} answers {error.code} {error.reason}"
            if error.code == 416:  # the part is longer than the file
                part.unlink(missing_ok=True)
            elif error.code < 500:
                break
        except URLError as error:
            problem = f"{url} is out of reach: {getattr(error.reason, 'strerror', None) or error.reason}"
            break
        except (ConnectionError, TimeoutError, SSLError, HTTPException) as error:
            problem = f"the connection to {url} dropped {ATTEMPTS} times: {error}"
        if attempt < ATTEMPTS - 1:
            time.sleep(PAUSE * 2**attempt)
    raise UserError(problem)


def _receive(url: str, part: Path) -> None:
    """One request for what ``part`` still lacks; a server that cannot continue sends all from the start."""
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "fcl-bench"} | ({"Range": f"bytes={start}-"} if start else {})
    with urlopen(Request(url, headers=headers), timeout=TIMEOUT) as response:
        continued = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        length = int(response.headers.get("Content-Length", 0))
        with (
            part.open("ab" if continued else "wb") as file,
            wrap_file(
                cast(BinaryIO, response), length, description=part.stem, disable=not sys.stdout.isatty()
            ) as reader,
        ):
            shutil.copyfileobj(reader, file, 2**20)
            received = file.tell() - (start if continued else 0)
    if received < length:
        raise ConnectionError(f"it closed after {received:,} of {length:,} bytes")
