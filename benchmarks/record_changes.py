"""One change to the folder of a record: of its content, of its text, or of the files beside it."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Generator = np.random.Generator
Change = Callable[[Generator, Path, Path], str]  # of a folder, with another one at hand; it says what it has done
Place = tuple[Any, Any]  # a list or an object, and where in it
RECORD = "result.json"
NASTY = (
    *(
        "\x1b[2J\x1b[31mred",
        '=HYPERLINK("http://x")',
        "<script>alert(1)</script>",
        "a\nb\rc",
        "\u202egnp.exe",
        "|x|`y`",
    ),
    *("$\\frac{$", "\\input{/etc/passwd}", "%{x} & _", "@SUM(A1)", "[x](javascript:alert(1))", "\u200b\ufeff\x00"),
    *("x" * 5000, "../../etc/passwd", "${oc.env:HOME}", "\ud800"),
)
OTHER_TYPES = (None, True, [], {}, "12", [1.0], {"a": 1}, 5, -1.5, 10**24, 1e308, -0.0, "")


def places(content: Any) -> Iterator[Place]:
    """Every place in some JSON."""
    keys = content if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in list(keys):
        yield content, key
        yield from places(content[key])


def drawn(rng: Generator, folder: Path, wanted: Callable[[Any], bool] = lambda value: True) -> tuple[Any, Any, Any]:
    """The content of the record, and a random place in it."""
    content = json.loads((folder / RECORD).read_text())
    found = [(holder, key) for holder, key in places(content) if wanted(holder[key])]
    holder, key = found[rng.integers(len(found))]
    return content, holder, key


def written(folder: Path, content: Any) -> None:
    (folder / RECORD).write_text(json.dumps(content))


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def scale(rng: Generator, folder: Path, other: Path) -> str:
    content, holder, key = drawn(rng, folder, is_number)
    before = holder[key]
    holder[key] = [before * 1.1, before + 1, before - 1, before * (1 + 1e-6), -before - 0.5][rng.integers(5)]
    written(folder, content)
    return f"{key} was {before}, is {holder[key]}"


def retype(rng: Generator, folder: Path, other: Path) -> str:
    content, holder, key = drawn(rng, folder)
    holder[key] = OTHER_TYPES[rng.integers(len(OTHER_TYPES))]
    written(folder, content)
    return f"{key} is {holder[key]!r}"


def remove(rng: Generator, folder: Path, other: Path) -> str:
    content, holder, key = drawn(rng, folder)
    del holder[key]
    written(folder, content)
    return f"{key} removed"


def add(rng: Generator, folder: Path, other: Path) -> str:
    content, holder, key = drawn(rng, folder)
    value = OTHER_TYPES[rng.integers(len(OTHER_TYPES))]
    if isinstance(holder, dict):
        holder[f"{key}_more"] = value
    else:
        holder.append(value)
    written(folder, content)
    return f"beside {key}: {value!r}"


def rename(rng: Generator, folder: Path, other: Path) -> str:
    content, holder, key = drawn(rng, folder)
    name = NASTY[rng.integers(len(NASTY))]
    if isinstance(holder, dict):
        holder[name] = holder.pop(key)
    else:
        holder[key] = name
    written(folder, content)
    return f"{key} named {name[:20]!r}"


def swap(rng: Generator, folder: Path, other: Path) -> str:
    content, holder, key = drawn(rng, folder, is_number)
    numbers = [(one, place) for one, place in places(content) if is_number(one[place])]
    second, place = numbers[rng.integers(len(numbers))]
    holder[key], second[place] = second[place], holder[key]
    written(folder, content)
    return f"{key} and {place} exchanged"


def text(rng: Generator, folder: Path, other: Path) -> str:
    content, holder, key = drawn(rng, folder, lambda value: isinstance(value, str))
    holder[key] = NASTY[rng.integers(len(NASTY))]
    written(folder, content)
    return f"{key} is {holder[key][:20]!r}"


def cut(rng: Generator, folder: Path, other: Path) -> str:
    path = _some_file(rng, folder)
    data = path.read_bytes()
    path.write_bytes(data[: rng.integers(len(data))])
    return f"{path.name} cut"


def flip(rng: Generator, folder: Path, other: Path) -> str:
    path = _some_file(rng, folder)
    data = bytearray(path.read_bytes())
    place = rng.integers(len(data))
    data[place] ^= 1 << int(rng.integers(8))
    path.write_bytes(bytes(data))
    return f"a bit of {path.name} flipped at {place}"


def encode(rng: Generator, folder: Path, other: Path) -> str:
    path = folder / RECORD
    words = path.read_text()
    forms = {
        "BOM": b"\xef\xbb\xbf" + words.encode(),
        "UTF-16": words.encode("utf-16"),
        "Latin-1": words.replace("fedicarl", "f\xe9dicarl").encode("latin-1"),
        "name twice": b'{"method": "other", ' + words.strip()[1:].encode(),
        "deep": b'{"a": ' + b"[" * 3000 + b"]" * 3000 + b"," + words.strip()[1:].encode(),
        "deeper": b"[" * 200_000,
        "NaN": words.replace("1.0", "NaN").encode(),
        "1e400": words.replace("1.0", "1e400").encode(),
        "5,000 digits": words.replace("1.0", "9" * 5000).encode(),
        "30 digits": words.replace("1.0", "9" * 30).encode(),
        "nothing": b"",
        "no object": b"[1, 2]",
        "noise": rng.bytes(1000),
    }
    name = list(forms)[rng.integers(len(forms))]
    path.write_bytes(forms[name])
    return name


def replace(rng: Generator, folder: Path, other: Path) -> str:
    """Something that is not a file, or not a readable one, in place of one."""
    path = _some_file(rng, folder)
    kinds = ("folder", "pipe", "loop", "broken link", "large")
    kind = kinds[rng.integers(len(kinds))]
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "broken link":
        path.symlink_to(folder / "missing")
    else:
        with path.open("wb") as file:
            file.truncate(200 * 2**20)
    return f"{path.name} is a {kind}"


def exchange(rng: Generator, folder: Path, other: Path) -> str:
    """A whole record in place of another one is sound, so it is one of the files beside it that is exchanged."""
    path = _some_file(rng, folder, RECORD)
    shutil.copy(other / path.name, path)
    return f"{path.name} of another run"


def lose(rng: Generator, folder: Path, other: Path) -> str:
    path = _some_file(rng, folder)
    path.unlink()
    return f"{path.name} lost"


def arrays(rng: Generator, folder: Path, other: Path) -> str:
    """A number in the predictions or in the manifest; only where there are such files."""
    paths = sorted(folder.glob("*.npz"))
    if not paths:
        return scale(rng, folder, other)
    path = paths[rng.integers(len(paths))]
    with np.load(path) as saved:
        content = {name: saved[name].copy() for name in saved.files}
    name = list(content)[rng.integers(len(content))]
    flat = content[name].reshape(-1)
    flat[rng.integers(len(flat))] += 1
    np.savez_compressed(path, **content)
    return f"a number of {name} in {path.name}"


CHANGES: dict[str, Change] = {
    change.__name__: change
    for change in (
        *(scale, retype, remove, add, rename, swap, text, cut, flip, encode, replace, exchange, lose, arrays),
    )
}


def _some_file(rng: Generator, folder: Path, *but: str) -> Path:
    """The record as often as all that it rests on."""
    names = ("stream.json", "stream.npz", "predictions.npz")
    beside = [folder / name for name in names if (folder / name).exists()]
    every = [folder / RECORD] * len(beside) + beside
    allowed = [path for path in every if path.name not in but]
    return allowed[rng.integers(len(allowed))]
