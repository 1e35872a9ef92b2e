"""Files that others may have written, read within limits: what is too large, too deep or no file is a ValueError."""

import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Literal

import numpy as np
from numpy.lib import format as npy

NUMBER = 8  # bytes of an int64
HEADER = 10_000  # bytes before the numbers of one array, at most


def read_bytes(path: Path, most: int) -> bytes:
    """The contents of a plain file of at most ``most`` bytes; a pipe or device would be waited for without end."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is not a file")
    if found.st_size > most:
        raise ValueError(f"it has {found.st_size:,} bytes, more than the {most:,} that it can need")
    with path.open("rb") as file:
        return file.read(most)


def read_whole_numbers(path: Path, most: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Those arrays of an .npz file that ``most`` names, as int64; each may have so many numbers at most.

    What a file declares is looked at before memory is taken for it.
    """
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    with zipfile.ZipFile(path) as archive:
        members = archive.namelist()
        if len(set(members)) < len(members):
            raise ValueError(f"{path} has two arrays of one name")
        names = [name for name in most if f"{name}.npy" in members]
        return {name: _array(archive, name, most[name]) for name in names}


def _array(archive: zipfile.ZipFile, name: str, most: int) -> np.ndarray:
    declared = archive.getinfo(f"{name}.npy").file_size
    if declared > most * NUMBER + HEADER:
        raise ValueError(f"its array {name} has {declared:,} bytes, more than the {most:,} numbers it can need")
    with archive.open(f"{name}.npy") as file:
        shape, in_columns, dtype = _header(file)
        if dtype.kind not in "iu":
            raise ValueError(f"its array {name} is {dtype}, not whole numbers")
        data = file.read()
    order: Literal["C", "F"] = "F" if in_columns else "C"
    return np.frombuffer(data, dtype).reshape(shape, order=order).astype(np.int64)  # a wrong size is a ValueError


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(file)
    if version not in readers:
        raise ValueError(f"it has version {version} of the format of arrays")
    return readers[version](file, max_header_size=HEADER)
