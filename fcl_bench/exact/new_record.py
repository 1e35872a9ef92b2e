"""The record of a run that has unlearned: complete, beside that of its parent, and there as a whole or not at all."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from fcl_bench import stream as streams
from fcl_bench.errors import UserError
from fcl_bench.exact.finished import FinishedRun, settings_of
from fcl_bench.run.arrays import class_arrays, packed, prediction_arrays
from fcl_bench.run.checkpoint import Checkpoint
from fcl_bench.run.digests import PREDICTIONS, digest_of_arrays, sealed, stream_digests
from fcl_bench.run.identity import content_identity
from fcl_bench.run.result import Result
from fcl_bench.run.scenario import Scenario
from fcl_bench.run.summary import summarise


def write(
    folder: Path, parent: FinishedRun, scenario: Scenario, checkpoint: Checkpoint, added: dict[str, Any]
) -> Result:
    """Write the record; ``added`` is what it says beside the results of an ordinary run."""
    targets = scenario.dataset.test.labels
    config = settings_of(parent.result)  # with the paths of the parent, not those of today
    result = summarise(config, parent.result["facts"], scenario.stream, targets, checkpoint, complete=True)
    identity = content_identity(scenario.dataset, scenario.stream, parent.planned.backbone)
    result |= {"inputs": identity, "status": "complete", **added}
    predictions = prediction_arrays(checkpoint, targets)
    checkpoint = replace(checkpoint, run=result["run_id"], inputs=identity)
    files = {
        "config.yaml": OmegaConf.to_yaml(config).encode(),
        PREDICTIONS: packed(predictions),
        "classes.npz": packed(class_arrays(checkpoint, targets, scenario.stream.histogram.shape[1])),
        "checkpoint/checkpoint.safetensors": checkpoint.encoded(),
    }
    exchanges = parent.path.with_name("exchanges.jsonl")
    if exchanges.exists():
        files["exchanges.jsonl"] = exchanges.read_bytes()
    try:
        with _whole(folder) as unfinished:
            streams.save(scenario.stream, unfinished)
            result = sealed(result, stream_digests(unfinished) | {PREDICTIONS: digest_of_arrays(predictions)})
            files["result.json"] = (json.dumps(result, indent=1) + "\n").encode()
            _write(unfinished, files)
    except OSError as error:
        raise UserError(f"Cannot write {folder}: {error.strerror}; make room, or make its folder writable.") from error
    return result


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """A new folder beside it, to write into, which then moves to its place."""
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".unlearning-"))
    try:
        yield unfinished
        unfinished.chmod(0o755)
        os.replace(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
