"""Digests of a record: over its text, its stream and its predictions. Nothing heavy is imported.

They show damage and edits, and say which file is concerned. They do not say who wrote a record: whoever changes it on
purpose can compute them again.
"""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fcl_bench.errors import UserError
from fcl_bench.run.result import Result
from fcl_bench.strict_json import read_json

KEY = "digests"  # of a record
RECORD, STREAM, SAMPLES, PREDICTIONS = "result.json", "stream.json", "stream.npz", "predictions.npz"
FILES = (RECORD, STREAM, SAMPLES, PREDICTIONS)
REMEDY = "take an intact copy, or run again with resume=false."
MOST_BYTES = 2**28  # of arrays in one file, unpacked
DAMAGED_ARRAYS = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, MemoryError, NotImplementedError, RuntimeError),
    *(OverflowError, SyntaxError, zipfile.BadZipFile, zlib.error),
)
Digests = dict[str, str]  # by name of the file
Arrays = dict[str, np.ndarray]


def sealed(result: Result, others: Digests) -> Result:
    """The record with the digests of ``others`` beside it, and then with its own."""
    content = json.loads(json.dumps({**result, KEY: others}))  # as it will be read: all names are texts
    return {**result, KEY: {**others, RECORD: digest_of_json(content)}}


def stream_digests(folder: Path) -> Digests:
    """Of the manifest in a folder."""
    return {
        STREAM: digest_of_json(read_json(folder / STREAM)),
        SAMPLES: digest_of_arrays(read_arrays(folder / SAMPLES)),
    }


def check_record(result: Result, path: Path) -> bool:
    """Whether the record has digests; a :class:`UserError` if its own one is not that of its content."""
    if KEY not in result:
        return False
    digests = result[KEY]
    texts = isinstance(digests, dict) and all(isinstance(value, str) for value in digests.values())
    if not texts or set(digests) != set(FILES):
        raise UserError(f"The record {path} has damaged digests: {REMEDY}")
    others = {name: value for name, value in digests.items() if name != RECORD}
    if digest_of_json({**result, KEY: others}) != digests[RECORD]:
        raise UserError(
            f"The record {path} was changed: its content has another digest than it says. Take an intact copy of it, "
            "or run again with resume=false."
        )
    return True


def check_beside(result: Result, name: str, digest: str, path: Path) -> None:
    """Raise a :class:`UserError` where a file beside the record at ``path`` is not the one that it was sealed with."""
    if KEY in result and result[KEY][name] != digest:
        raise UserError(
            f"The record {path} and {name} beside it do not belong together: the digest is another one. Take intact "
            "copies of both, or run again with resume=false."
        )


def digest_of_json(content: Any) -> str:
    """The SHA-256 of the canonical text: names sorted, no space, ASCII only, numbers as Python writes them.

    >>> digest_of_json({"b": 1, "a": (0.1,)}) == hashlib.sha256(b'{"a":[0.1],"b":1}').hexdigest()
    True
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """The SHA-256 of names, types, shapes and numbers (little-endian, row by row), whatever packs them.

    >>> digest_of_arrays({"a": np.array([1, 2])}) == digest_of_arrays({"a": np.array([1, 2], dtype=">i8")})
    True
    """
    sha = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        sha.update(f"{name} {plain.dtype.str} {array.shape}\n".encode())
        sha.update(plain.tobytes())
    return sha.hexdigest()


def read_arrays(path: Path) -> Arrays:
    """The arrays of an npz file; a :class:`UserError` where it is damaged, or too large to be read."""
    try:
        if not path.is_file():
            raise ValueError("it is not a file")
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > MOST_BYTES:
            raise ValueError(f"it unpacks to {size / 2**20:,.0f} MB")
        with np.load(path, allow_pickle=False) as saved:
            return {name: saved[name] for name in saved.files}
    except DAMAGED_ARRAYS as error:
        raise UserError(f"The arrays {path} cannot be read ({error}): {REMEDY}") from error
