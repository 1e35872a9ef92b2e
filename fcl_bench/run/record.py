"""Where the record of a run is written, read and resumed. Its layout is public; a file appears whole or not at all."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Literal

import numpy as np
from omegaconf import DictConfig, OmegaConf

from fcl_bench import stream as streams
from fcl_bench.decoding import Classes, MessageError
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.files import write_atomically, writing_to
from fcl_bench.learning import Costs, Progress
from fcl_bench.run.alone import alone_in, has_content
from fcl_bench.run.arrays import class_arrays, packed, prediction_arrays
from fcl_bench.run.checkpoint import Checkpoint, first_checkpoint
from fcl_bench.run.checkpoints import Checkpoints
from fcl_bench.run.digests import PREDICTIONS, digest_of_arrays, sealed, stream_digests
from fcl_bench.run.exchange_log import ExchangeLog
from fcl_bench.run.folder import RunFolder
from fcl_bench.run.pace import Pace
from fcl_bench.run.result import WHOLE_RUN, Result, whole_run_seconds
from fcl_bench.run.summary import summarise
from fcl_bench.stream import Stream
from fcl_bench.traffic import Exchange


class Record(RunFolder):
    """One run's folder, to write into."""

    def __init__(self, config: DictConfig, identity: str, command: str | None):
        """``identity`` stands for what the configuration only names: the contents of data, weights and stream."""
        super().__init__(config)
        self.identity, self.command = identity, command
        self._checkpoints = Checkpoints(self.checkpoints)
        self._log = ExchangeLog(self.folder)
        self._began = time.monotonic()
        self._spent_before = 0.0  # seconds of earlier attempts

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
                self.remove_leftovers()
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

    def restore(self, start: Checkpoint, facts: dict[str, bool], classes: Classes) -> Checkpoint:
        """The last checkpoint, or else ``start``; what the folder holds beyond it is struck.

        ``classes`` are those of the method's messages.
        """
        self._facts = facts
        found = self._last_checkpoint(classes)
        self._checkpoint = found or replace(start, run=self.run_id, inputs=self.identity)
        with writing_to(self.folder, "output_dir"):
            self._log.begin_with(self._log.until(self._checkpoint.log) or b"")
        if found:
            told = whole_run_seconds(self.result() or {}) or 0.0
            self._spent_before = max(told, found.progress.costs.wall_seconds)  # the result may be an older one
            self._write_results(found)
        else:
            self._remove_results()
        self.pace = Pace()
        return self._checkpoint

    def save_progress(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint within a task; the result is that of the finished tasks."""
        with writing_to(self.folder, "output_dir"):
            self._checkpoints.save(replace(checkpoint, log=self._log.mark()))

    def save(self, checkpoint: Checkpoint) -> Result:
        """Write all that is known after a task; the checkpoint last, so that it never runs ahead of the rest."""
        result = self._write_results(checkpoint)
        with self.pace.saving():
            self.save_progress(checkpoint)
        return result

    def complete(self) -> Result:
        """Mark the run complete, and say what it has learned class by class."""
        classes = self._stream.histogram.shape[1]
        self._write("classes.npz", packed(class_arrays(self._checkpoint, self._targets, classes)))
        return self._save_result("complete")

    def log_exchange(self, exchange: Exchange) -> None:
        """One line in ``exchanges.jsonl``."""
        with writing_to(self.folder, "output_dir"):
            self._log.add(json.dumps(asdict(exchange)))

    def _last_checkpoint(self, classes: Classes) -> Checkpoint | None:
        if not self.config.resume:
            self._checkpoints.remove()
            return None
        return self._checkpoints.load(classes, self._refuse)

    def _refuse(self, checkpoint: Checkpoint) -> None:
        """Raise an error for a checkpoint of another run, or one with exchanges that are not in the log."""
        if (checkpoint.run, checkpoint.inputs) != (self.run_id, self.identity):
            raise UserError(
                f"The checkpoints in {self.checkpoints} are those of another run, or were made from other data, "
                "weights or stream: move them away, or set resume=false."
            )
        if self._log.until(checkpoint.log) is None:
            raise MessageError(f"{self._log.path.name} is not the log that it belongs to")
        checkpoint.refuse_unfit(len(self._stream.tasks), len(self._targets))

    def _remove_results(self) -> None:
        """Those of an earlier run that is repeated; ``result.json`` says already that there are none."""
        for name in ("predictions.npz", "classes.npz"):
            (self.folder / name).unlink(missing_ok=True)

    def _write_results(self, checkpoint: Checkpoint) -> Result:
        self._checkpoint = checkpoint
        self._write("predictions.npz", packed(prediction_arrays(checkpoint, self._targets)))
        return self._save_result("interrupted")

    def _save_result(self, status: Literal["complete", "interrupted"]) -> Result:
        complete = status == "complete"
        result = summarise(self.config, self._facts, self._stream, self._targets, self._checkpoint, complete)
        result |= {"command": self.command, "inputs": self.identity, "status": status}
        result["seconds"][WHOLE_RUN] = self._spent_before + time.monotonic() - self._began
        predictions = digest_of_arrays(prediction_arrays(self._checkpoint, self._targets))
        result = sealed(result, self._digests | {PREDICTIONS: predictions})
        self._write("result.json", (json.dumps(result, indent=1) + "\n").encode())
        return result

    def _write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        with writing_to(self.folder, "output_dir"):
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, data)
