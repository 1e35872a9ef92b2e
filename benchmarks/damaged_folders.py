"""Damage to one file of a run folder: what disks, editors, copies and other people do to it."""

import os
import random
import shutil
from pathlib import Path

from benchmarks.damaged_encodings import damaged, flipped

FILES = (
    *("config.yaml", "stream.npz", "stream.json", "result.json", "predictions.npz", "exchanges.jsonl", ".lock"),
    *("metrics.csv", "exchanges.csv", "checkpoint/checkpoint.safetensors", "checkpoint/before.safetensors"),
    "checkpoint",
)
LINES = (b"foreign\n", b'{"task": 0, "exchange": 0}\n', b"[]\n", b"\xff\xfe\n", b'{"task": "a"}\n', b"null\n")


def damage(folder: Path, random: random.Random) -> str:
    """Damage one of the files, or two; what was done, in words."""
    done = [_damage_one(folder, random)]
    if random.random() < 0.2:
        done.append(_damage_one(folder, random))
    return ", ".join(done)


def _damage_one(folder: Path, random: random.Random) -> str:
    name = random.choice(FILES)
    path = folder / name
    kind = random.choice(["bytes", "bytes", "bit", "bit", "lines", "gone", "empty", "folder", "link", "pipe", "lost"])
    if kind in ("bytes", "bit", "lines") and path.is_file():
        path.write_bytes(_other(path.read_bytes(), kind, random))
    elif kind in ("folder", "link", "pipe", "empty"):
        _replace(path, kind)
    else:
        _remove(path)
    return f"{name}: {kind}"


def _other(data: bytes, kind: str, random: random.Random) -> bytes:
    if kind == "bit":
        return flipped(data, random)
    if kind == "bytes":
        return damaged(data, random)
    lines = data.splitlines(keepends=True)
    lines.insert(random.randrange(len(lines) + 1), random.choice(LINES))
    return b"".join(lines)


def _replace(path: Path, kind: str) -> None:
    """Something else in the place of a file; a link leads to the same content elsewhere."""
    elsewhere = path.with_name("elsewhere")
    if kind == "link" and path.exists():
        os.replace(path, elsewhere)
    _remove(path)
    match kind:
        case "folder":
            (path / "inner").mkdir(parents=True)
        case "link":
            path.symlink_to(elsewhere)
        case "pipe":
            os.mkfifo(path)
        case "empty":
            path.write_bytes(b"")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
