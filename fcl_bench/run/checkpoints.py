"""The last two checkpoints of a run, in files. The one before stands in where the last one turns out to be damaged."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path

from fcl_bench.decoding import Classes, MessageError
from fcl_bench.errors import UserError
from fcl_bench.files import refuse_what_is_no_file, sync_folder, write_atomically
from fcl_bench.run.checkpoint import Checkpoint, decoded
from fcl_bench.run.folder import BEFORE, LAST, NEXT

Refuse = Callable[[Checkpoint], None]  # raises a MessageError for one that will not do, a UserError for none will do


class Checkpoints:
    """Those in a folder of their own."""

    def __init__(self, folder: Path):
        self.last = folder / LAST
        self.before = folder / BEFORE
        self._next = folder / NEXT

    def save(self, checkpoint: Checkpoint) -> None:
        """The last one from now on; the one that was last is kept as the one before."""
        self.last.parent.mkdir(exist_ok=True)
        write_atomically(self._next, checkpoint.encoded())
        self._shift()
        sync_folder(self.last.parent)

    def load(self, classes: Classes, refuse: Refuse) -> Checkpoint | None:
        """The last one that is whole, None if there never was one; a :class:`UserError` if none of them is whole."""
        self._shift()
        there = [path for path in (self.last, self.before) if path.exists()]
        damages = []
        for path in there:
            try:
                checkpoint = read(path, classes)
                refuse(checkpoint)
            except MessageError as error:
                damages.append(str(error).rstrip("."))
                continue
            if damages:
                warnings.warn(
                    f"The checkpoint {self.last} cannot be read ({damages[0]}): the run goes on from the one before, "
                    f"{path}.",
                    stacklevel=2,
                )
            return checkpoint
        if damages:
            raise UserError(f"The checkpoint {there[0]} cannot be read ({damages[0]}): remove it, or set resume=false.")
        return None

    def _shift(self) -> None:
        """The next one becomes the last, the last the one before; a kill may have come in between."""
        if not self._next.exists():
            return
        if self.last.exists():
            os.replace(self.last, self.before)
        os.replace(self._next, self.last)

    def remove(self) -> None:
        """Both."""
        for path in (self.last, self.before, self._next):
            path.unlink(missing_ok=True)


def read(path: Path, classes: Classes) -> Checkpoint:
    """The checkpoint in a file; a :class:`MessageError` says what is wrong with it."""
    refuse_what_is_no_file(path)
    try:
        return decoded(path.read_bytes(), classes)
    except OSError as error:
        raise MessageError(error.strerror or "it cannot be read") from error
