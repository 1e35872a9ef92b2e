"""Where the record of a run is written, read and resumed. Its layout is public; a file appears whole or not at all."""

import json
import math
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Literal

import numpy as np
from omegaconf import DictConfig, OmegaConf

from fcl_bench import stream as streams
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.files import write_atomically, writing_to
from fcl_bench.learning import Costs, Progress
from fcl_bench.run.alone import alone_in, has_content
from fcl_bench.run.arrays import class_arrays, packed, prediction_arrays
from fcl_bench.run.checkpoint import Checkpoint, decoded, first_checkpoint
from fcl_bench.run.digests import PREDICTIONS, digest_of_arrays, sealed, stream_digests
from fcl_bench.run.folder import RunFolder
from fcl_bench.run.result import Result
from fcl_bench.run.summary import summarise
from fcl_bench.stream import Stream
from fcl_bench.traffic import Exchange

CHECKPOINT_SECONDS = 30.0  # between checkpoints within a task


class Record(RunFolder):
    """One run's folder, to write into."""

    def __init__(self, config: DictConfig, identity: str, command: str | None):
        """``identity`` stands for what the configuration only names: the contents of data, weights and stream."""
        super().__init__(config)
        self.identity, self.command = identity, command

    @contextmanager
    def opened(self, stream: Stream, targets: np.ndarray) -> Iterator[None]:
        """Begin to write into the folder, which is this process's own until the end.

        From here on ``result.json`` says "interrupted" until the run is complete, whatever ends it.
        """
        self._stream, self._targets, self._facts = stream, targets, dict[str, bool]()
        self._checkpoint = first_checkpoint(Progress(0, 0, 0, None, Costs()), len(targets))
        self.refuse_another_run(self.identity)
        new = not has_content(self.folder)
        with alone_in(self.folder):
            try:
                self._write("config.yaml", OmegaConf.to_yaml(self.config, resolve=True).encode())
                with writing_to(self.folder, "output_dir"):
                    streams.save(stream, self.folder)
                    self._digests = stream_digests(self.folder)
                if not self.config.resume or self.result() is None:
                    self._save_result("interrupted")
                yield
            except ConfigError:
                if new:
                    shutil.rmtree(self.folder)
                raise

    def restore(self, start: Checkpoint, facts: dict[str, bool]) -> Checkpoint:
        """The last checkpoint, or else ``start``; exchanges that come after it are struck from the log."""
        path = self.folder / "checkpoint" / "checkpoint.safetensors"
        if not self.config.resume:
            path.unlink(missing_ok=True)
        elif path.exists():
            try:
                start = decoded(path.read_bytes())
            except Exception as error:
                raise UserError(
                    f"The checkpoint {path} cannot be read ({error}): remove it, or set resume=false."
                ) from error
        log = self.folder / "exchanges.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        reached = (start.progress.task, start.progress.exchanges)
        kept = [line for line in lines if _position(line) < reached]
        self._write("exchanges.jsonl", "".join(f"{line}\n" for line in kept).encode())
        self._checkpoint = start
        self._facts = facts
        self._saved = time.monotonic()
        return start

    def is_due(self) -> bool:
        """Whether it is time to save progress within a task."""
        return time.monotonic() - self._saved > CHECKPOINT_SECONDS

    def save_progress(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint within a task; the result is that of the finished tasks."""
        self._write("checkpoint/checkpoint.safetensors", checkpoint.encoded())
        self._saved = time.monotonic()

    def save(self, checkpoint: Checkpoint) -> Result:
        """Write all that is known after a task; the checkpoint last, so that it never runs ahead of the rest."""
        self._checkpoint = checkpoint
        self._write("predictions.npz", packed(prediction_arrays(checkpoint, self._targets)))
        result = self._save_result("interrupted")
        self.save_progress(checkpoint)
        return result

    def complete(self) -> Result:
        """Mark the run complete, and say what it has learned class by class."""
        classes = self._stream.histogram.shape[1]
        self._write("classes.npz", packed(class_arrays(self._checkpoint, self._targets, classes)))
        return self._save_result("complete")

    def log_exchange(self, exchange: Exchange) -> None:
        """One line in ``exchanges.jsonl``."""
        with writing_to(self.folder, "output_dir"), (self.folder / "exchanges.jsonl").open("a") as file:
            file.write(json.dumps(asdict(exchange)) + "\n")

    def _save_result(self, status: Literal["complete", "interrupted"]) -> Result:
        complete = status == "complete"
        result = summarise(self.config, self._facts, self._stream, self._targets, self._checkpoint, complete)
        result |= {"command": self.command, "inputs": self.identity, "status": status}
        predictions = digest_of_arrays(prediction_arrays(self._checkpoint, self._targets))
        result = sealed(result, self._digests | {PREDICTIONS: predictions})
        self._write("result.json", (json.dumps(result, indent=1) + "\n").encode())
        return result

    def _write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        with writing_to(self.folder, "output_dir"):
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, data)


def _position(line: str) -> tuple[float, float]:
    """Task and number of a logged exchange; a line that a full disk has cut off comes after all others."""
    try:
        exchange = json.loads(line)
        return exchange["task"], exchange["exchange"]
    except ValueError:
        return math.inf, math.inf
