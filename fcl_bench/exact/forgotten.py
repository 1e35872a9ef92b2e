"""What is to be forgotten: selectors that combine by "and", as a mask over the samples of a stream."""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fcl_bench.dataset import Dataset
from fcl_bench.errors import ConfigError, choices
from fcl_bench.evidence import digest
from fcl_bench.stream import Stream


@dataclass(frozen=True)
class Selectors:
    """As a user counts: tasks from 1, clients and training samples from 0; None selects all."""

    client: int | None = None
    task: int | None = None
    label: str | None = None  # the number of a class as the data set has it, or its name
    samples: Path | None = None  # a file of training sample numbers

    def selected(self, stream: Stream, dataset: Dataset) -> np.ndarray:
        """Which of the ``samples`` of the stream are selected: some, and not all."""
        task, client = stream.places.T
        chosen = np.ones(len(stream.samples), dtype=bool)
        if self.client is not None:
            chosen &= client == _numbered("client", self.client, 0, stream.clients)
        if self.task is not None:
            chosen &= task == _numbered("task", self.task, 1, len(stream.tasks))
        if self.label is not None:
            chosen &= dataset.train.labels[stream.samples] == _label(self.label, dataset)
        if self.samples is not None:
            chosen &= np.isin(stream.samples, _numbers_in(self.samples, stream))
        if not chosen.any():
            raise ConfigError("There is nothing to forget: no client has such samples in the stream of this run.")
        if chosen.all():
            raise ConfigError("All samples of the stream would be forgotten, and nothing be left to know.")
        return chosen

    def described(self) -> dict[str, int | str | None]:
        """For the record, by the names of the options."""
        file = None if self.samples is None else self.samples.name
        return {"client": self.client, "task": self.task, "class": self.label, "samples": file}


def name_of(chosen: np.ndarray) -> str:
    """Eight letters that stand for what is forgotten of a stream."""
    return digest({"forgotten": torch.from_numpy(chosen.nonzero()[0])})[:8]


def _numbered(what: str, number: int, first: int, count: int) -> int:
    """The position of a client or task that a user counts from ``first`` on."""
    if not first <= number < first + count:
        last = first + count - 1
        raise ConfigError(f"There is no {what} {number}: those of this run are {first} to {last}.")
    return number - first


def _label(text: str, dataset: Dataset) -> int:
    """A name comes before a number."""
    if text in dataset.classes:
        return dataset.classes.index(text)
    if text.isdecimal() and int(text) < len(dataset.classes):
        return int(text)
    near = choices(text, dataset.classes).split(", ")[0]
    raise ConfigError(
        f"There is no class '{text}' in {dataset.name}: name one of its {len(dataset.classes)} classes, such as "
        f"'{near}', or its number from 0 on."
    )


def _numbers_in(file: Path, stream: Stream) -> np.ndarray:
    """The numbers in a file, all of which are in the stream."""
    try:
        values = np.load(file, allow_pickle=False) if file.suffix == ".npy" else np.loadtxt(file, ndmin=1)
        numbers = values.astype(np.int64)
        readable = values.ndim == 1 and np.array_equal(numbers, values)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ConfigError(f"Cannot read sample numbers from {file} ({error}).") from error
    if not readable:
        raise ConfigError(f"Cannot read sample numbers from {file}: expected whole numbers, one per line.")
    unknown = np.setdiff1d(numbers, stream.samples)
    if len(unknown):
        raise ConfigError(
            f"No client has training sample {unknown[0]}, which {file} names: samples are counted from 0, as in the "
            "stream.npz of the run."
        )
    return numbers
