"""The run folder: write, read, resume. Its layout is public; every file appears whole or not at all."""

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import numpy as np
from omegaconf import DictConfig, OmegaConf

from fcl_bench import stream as streams
from fcl_bench.config import method_name, run_id
from fcl_bench.errors import UserError
from fcl_bench.federation import Exchange
from fcl_bench.files import write_atomically, writing_to
from fcl_bench.message import decode, encode
from fcl_bench.stream import Stream
from fcl_bench.summary import SCHEMA, Checkpoint, Result, summarise

class Record:
    """One run's folder, ``<output_dir>/<dataset>/<backbone>/<stream>/<method>/<run_id>``."""

    def __init__(self, config: DictConfig):
        self.config, self.run_id, self.method = config, run_id(config), method_name(config)
        names = (config.dataset.name, config.backbone.name, config.stream.name, self.method, self.run_id)
        self.folder = Path(config.output_dir, *names)

    def open(self) -> None:
        """Make the folder, or make sure that what it holds is this very run."""
        with writing_to(self.folder, "output_dir"):
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / "config.yaml"
            if path.exists() and run_id(_read_config(path)) != self.run_id:
                raise UserError(
                    f"{self.folder} holds a different run: its config.yaml is not that of {self.run_id}; "
                    "move it away, or set output_dir= to another folder."
                )
            self._write("config.yaml", OmegaConf.to_yaml(self.config, resolve=True).encode())

    def finished(self) -> Result | None:
        """The result, if the run was completed before."""
        path = self.folder / "result.json"
        result: Result | None = read_result(path) if path.exists() else None
        return result if result and result["status"] == "complete" else None

    def begin(self, stream: Stream, targets: np.ndarray, facts: dict[str, bool]) -> None:
        """Write the manifest, and remember what every result is computed from."""
        with writing_to(self.folder, "output_dir"):
            streams.save(stream, self.folder)
        self._stream, self._targets, self._facts = stream, targets, facts

    def save(self, checkpoint: Checkpoint) -> Result:
        """Write all that is known after a task; the checkpoint last, so that it never runs ahead of the rest."""
        predictions = io.BytesIO()
        np.savez_compressed(predictions, predictions=checkpoint.predictions.numpy(), targets=self._targets)
        self._write("predictions.npz", predictions.getvalue())
        result = self.save_result(checkpoint, "interrupted")
        self._write("checkpoint/checkpoint.safetensors", encode(checkpoint))
        return result

    def save_result(self, checkpoint: Checkpoint, status: Literal["complete", "interrupted"]) -> Result:
        """Write ``result.json``."""
        result = summarise(self.config, self._facts, self._stream, self._targets, checkpoint, status)
        self._write("result.json", (json.dumps(result, indent=1) + "\n").encode())
        return result

    def restore(self, start: Checkpoint) -> Checkpoint:
        """The last checkpoint, or else ``start``; exchanges of an unfinished task are struck from the log."""
        path = self.folder / "checkpoint" / "checkpoint.safetensors"
        if self.config.resume and path.exists():
            try:
                start = decode(path.read_bytes())
            except Exception as error:
                raise UserError(f"The checkpoint {path} cannot be read ({error}): remove it, or set resume=false.") from error
        log = self.folder / "exchanges.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        kept = [line for line in lines if json.loads(line)["task"] < len(start.costs)]
        self._write("exchanges.jsonl", "".join(f"{line}\n" for line in kept).encode())
        return start

    def log_exchange(self, exchange: Exchange) -> None:
        """One line in ``exchanges.jsonl``."""
        with writing_to(self.folder, "output_dir"), (self.folder / "exchanges.jsonl").open("a") as file:
            file.write(json.dumps(asdict(exchange)) + "\n")

    def _write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        with writing_to(self.folder, "output_dir"):
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, data)


def read_result(path: Path) -> Result:
    """A ``result.json`` of the present schema."""
    try:
        result = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"The record {path} cannot be read ({error}): remove it and run again.") from error
    if result.get("schema") != SCHEMA:
        raise UserError(f"The record {path} has schema {result.get('schema')}, but this version reads schema {SCHEMA}.")
    return result


def _read_config(path: Path) -> DictConfig:
    try:
        config = OmegaConf.load(path)
        assert isinstance(config, DictConfig)
        run_id(config)
        return config
    except Exception as error:
        raise UserError(f"{path} is not the configuration of a run ({error}): move that folder away.") from error
