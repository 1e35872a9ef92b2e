"""The log of exchanges of a run, ``exchanges.jsonl``: a line is added after each. A checkpoint knows what was in it."""

import os
from hashlib import blake2b
from pathlib import Path

Mark = tuple[int, str]  # the length of a log in bytes, and its hash
EMPTY: Mark = (0, blake2b().hexdigest())


class ExchangeLog:
    """The file in the folder of a run."""

    def __init__(self, folder: Path):
        self.path = folder / "exchanges.jsonl"
        self._length = 0
        self._hash = blake2b()

    def add(self, line: str) -> None:
        """One line more."""
        data = f"{line}\n".encode()
        with self.path.open("ab") as file:
            file.write(data)
        self._length += len(data)
        self._hash.update(data)

    def mark(self) -> Mark:
        """What there is so far; from now on it is on the disk, whatever happens to the machine."""
        if self._length:
            with self.path.open("rb+") as file:
                os.fsync(file.fileno())
        return self._length, self._hash.hexdigest()

    def until(self, mark: Mark) -> bytes | None:
        """What was in the log at this mark; None if it is no longer there."""
        if list(map(type, mark)) != [int, str]:
            return None
        data = self.path.read_bytes()[: mark[0]] if self.path.exists() else b""
        return data if (len(data), blake2b(data).hexdigest()) == mark else None

    def begin_with(self, data: bytes) -> None:
        """Go on after these lines, which the file begins with."""
        with self.path.open("ab") as file:
            file.truncate(len(data))
        self._length = len(data)
        self._hash = blake2b(data)
