"""The stream: who holds which sample when. A temporal split of the data, each task of it split over the clients."""

import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from fcl_bench.bounded import read_whole_numbers
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.files import write_atomically
from fcl_bench.partition import Dirichlet, IidClients, Shards, Spatial
from fcl_bench.registration import Registration, Task, register
from fcl_bench.seeds import generator
from fcl_bench.stream_arrays import check_whole, limits, number_of_labels
from fcl_bench.strict_json import read_json
from fcl_bench.temporal import Disjoint, IidTasks, SiBlurry, Temporal

__all__ = ["Registration", "Stream", "Task", "load", "make_stream", "manifest_files", "save"]

# What is saved, and hashed in this order; ``reserved`` only where samples are reserved, as older streams have none.
ARRAYS = ("samples", "sizes", "test", "test_sizes", "order", "histogram", "label_digest")
SUMMARY = ("sizes", "test_sizes", "order", "histogram", "counts")  # for people and tools, in ``stream.json``
TEMPORAL: dict[str, type] = {"si_blurry": SiBlurry, "disjoint": Disjoint, "iid": IidTasks}
SPATIAL: dict[str, type] = {"dirichlet": Dirichlet, "iid": IidClients, "shards": Shards}
PER_NUMBER = 12  # bytes of a number in ``stream.json``, at most


@dataclass(frozen=True, eq=False)
class Stream:
    """Sample indices of every task and client, kept flat: ``samples`` task by task, within a task client by client."""

    samples: np.ndarray  # training indices
    sizes: np.ndarray  # (tasks, clients): how many of them are whose
    test: np.ndarray  # test indices, task by task
    test_sizes: np.ndarray  # (tasks,)
    order: np.ndarray  # the label of every registered class
    histogram: np.ndarray  # (2, labels): training and test samples of every label, dealt or not
    label_digest: np.ndarray  # (4,): a digest of all labels, to tell other data apart
    reserved: np.ndarray  # training indices that no client gets, ascending
    counts: np.ndarray  # (shares, 4): task, client, registered class and number of training samples, where not 0
    tasks: tuple[Task, ...]
    parameters: dict[str, Any]

    @property
    def clients(self) -> int:
        """Number of clients."""
        return self.sizes.shape[1]

    def indices(self, task: int, client: int) -> np.ndarray:
        """Training indices of one client's share of one task, in order of arrival."""
        stop = self._stops[task, client]
        return self.samples[stop - self.sizes[task, client] : stop]

    def test_indices(self, task: int) -> np.ndarray:
        """Test indices of one task, ascending."""
        stop = self.test_sizes.cumsum()[task]
        return self.test[stop - self.test_sizes[task] : stop]

    @cached_property
    def number(self) -> np.ndarray:
        """The registered number of every label, -1 for one that no client ever holds."""
        number = np.full(self.histogram.shape[1], -1)
        number[self.order] = np.arange(len(self.order))
        return number

    @property
    def places(self) -> np.ndarray:
        """Task and client of every one of the ``samples``, (samples, 2)."""
        shares = np.indices(self.sizes.shape).reshape(2, -1)
        return shares.repeat(self.sizes.ravel(), axis=1).T

    @cached_property
    def hash(self) -> str:
        """Equal for streams that deal the same data to the same places, whatever their names."""
        return _hash(self.arrays.values())

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """What a manifest holds."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        return arrays | {"reserved": self.reserved} if len(self.reserved) else arrays

    @cached_property
    def _stops(self) -> np.ndarray:
        return self.sizes.cumsum().reshape(self.sizes.shape)


def make_stream(
    train_labels: np.ndarray, test_labels: np.ndarray, temporal: Temporal, spatial: Spatial, seed: int
) -> Stream:
    """Split the data over tasks and clients, or replay ``temporal.manifest`` where one is given."""
    if temporal.manifest:
        stream = load(temporal.manifest, train_labels, test_labels)
        if stream.parameters["name"] != temporal.name:
            raise ConfigError(
                f"Expected stream={stream.parameters['name']} with this manifest, but got {temporal.name}."
            )
        return stream
    if spatial.clients > len(train_labels):
        raise ConfigError(
            f"Expected partition.clients to be at most {len(train_labels)}, the number of training samples, "
            f"but got {spatial.clients}."
        )
    reserved = _reserve(train_labels, temporal.reserved, seed)
    dealt = np.setdiff1d(np.arange(len(train_labels)), reserved)
    split = temporal.split(train_labels[dealt], test_labels, seed)
    shares = []
    for task, positions_in_dealt in enumerate(split.train):
        samples = dealt[positions_in_dealt]
        for positions in spatial.split(train_labels[samples], seed, task):
            shares.append(samples[positions])
    arrays = {
        "reserved": reserved,
        "samples": np.concatenate(shares),
        "sizes": np.reshape([len(share) for share in shares], (temporal.tasks, spatial.clients)),
        "test": np.concatenate([np.sort(indices) for indices in split.test]),
        "test_sizes": np.array([len(indices) for indices in split.test]),
    }
    parameters = {**vars(temporal), "partition": spatial.name, **vars(spatial), "name": temporal.name, "seed": seed}
    del parameters["manifest"]
    if not temporal.reserved:
        del parameters["reserved"]
    return _build(arrays, train_labels, test_labels, parameters)


def without(stream: Stream, forgotten: np.ndarray, train_labels: np.ndarray, test_labels: np.ndarray) -> Stream:
    """The same tasks and clients without some of the ``samples``, told by a mask; tests stay as they are.

    Classes are registered again, so their numbers may be others, and one that nobody holds any more has none.
    """
    kept = ~forgotten
    task, client = stream.places[kept].T
    sizes = np.zeros_like(stream.sizes)
    np.add.at(sizes, (task, client), 1)
    arrays = stream.arrays | {"samples": stream.samples[kept], "sizes": sizes}
    return _build(arrays, train_labels, test_labels, stream.parameters)


def save(stream: Stream, folder: Path) -> None:
    """Write the manifest: ``stream.npz``, and ``stream.json`` with all but the indices for people and tools."""
    summary = {
        "schema": 1,
        "hash": stream.hash,
        "parameters": stream.parameters,
        "parameters_hash": _parameters_hash(stream.hash, stream.parameters),
        **{name: getattr(stream, name).tolist() for name in SUMMARY},
    }
    arrays = io.BytesIO()
    np.savez_compressed(arrays, allow_pickle=False, **stream.arrays)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "stream.npz", arrays.getvalue())
    write_atomically(folder / "stream.json", (json.dumps(summary) + "\n").encode())


def load(path: Path, train_labels: np.ndarray, test_labels: np.ndarray) -> Stream:
    """Read the manifest at ``path`` (its folder or either file), make sure that it is whole and fits the data."""
    arrays, summary = _read(Path(path), limits(train_labels, test_labels))
    if _hash(arrays.values()) != summary["hash"]:
        raise UserError(f"The stream manifest {path} was altered: it does not match its own hash. Use an intact copy.")
    if not np.array_equal(arrays["label_digest"], _digest(train_labels, test_labels)):
        raise UserError(
            f"The stream manifest {path} was made for other data: the labels differ. "
            "Use the data set, limit_classes, limit_train and limit_test it was made with."
        )
    try:
        check_whole(arrays, len(train_labels), len(test_labels))
        stream = _build(arrays, train_labels, test_labels, summary["parameters"])
        _check_summary(stream, summary)
        if "parameters_hash" not in summary:  # a manifest of an earlier version
            _check_origin(stream, train_labels, test_labels)
    except ValueError as error:
        raise UserError(f"The stream manifest {path} is no stream: {error}. Use an intact copy.") from error
    return stream


def read_parameters(path: Path) -> dict[str, Any]:
    """What the manifest at ``path`` says of how its stream was made."""
    try:
        return dict(read_json(manifest_files(path)[1], most=2**28)["parameters"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, error) from error


def manifest_files(path: Path) -> tuple[Path, Path]:
    """``stream.npz`` and ``stream.json`` of the manifest at ``path``, its folder or either file."""
    base = path / "stream.npz" if path.is_dir() else path
    return base.with_suffix(".npz"), base.with_suffix(".json")


def _read(path: Path, most: dict[str, int]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the summary of a manifest, in memory that is bounded by the numbers of samples."""
    files = manifest_files(path)
    for file in (path, *files):
        if not file.exists():
            raise UserError(f"The stream manifest {file} does not exist: it takes stream.npz and stream.json together.")
    try:
        arrays = read_whole_numbers(files[0], most)
        numbers = sum(most.values()) + 4 * most["samples"]  # the last ones for the counts
        summary = read_json(files[1], most=2**20 + PER_NUMBER * numbers)
        if missing := set(ARRAYS) - set(arrays):
            raise ValueError(f"there is no {min(missing)}")
        if not isinstance(summary["parameters"], dict) or not isinstance(summary["hash"], str):
            raise ValueError("its parameters or its hash are of another kind")
        return {name: arrays[name] for name in (*ARRAYS, "reserved") if name in arrays}, summary
    except Exception as error:  # damaged archives raise anything
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> UserError:
    return UserError(f"The stream manifest {path} is damaged and cannot be read ({error}). Use an intact copy.")


def _check_summary(stream: Stream, summary: dict[str, Any]) -> None:
    """Raise a ValueError unless all that was saved beside the samples follows from them, or was saved with them."""
    if stream.hash != summary["hash"]:
        raise ValueError("its classes are not those of its samples")
    for name in SUMMARY:
        if summary.get(name) != getattr(stream, name).tolist():
            raise ValueError(f"its {name} in stream.json are not those of its samples")
    expected = _parameters_hash(stream.hash, stream.parameters)
    if summary.get("parameters_hash", expected) != expected:
        raise ValueError("its parameters were altered")
    for name, number in zip(("tasks", "clients"), stream.sizes.shape, strict=True):
        if stream.parameters.get(name, number) != number:
            raise ValueError(f"its parameters name {stream.parameters[name]} {name}, but it has {number}")


def _check_origin(stream: Stream, train_labels: np.ndarray, test_labels: np.ndarray) -> None:
    """Raise a ValueError unless the parameters, which no hash binds, lead to the very stream."""
    try:
        if stream.parameters.get("shards_per_client", 1) > len(train_labels) / stream.clients + 1000:
            raise ValueError("nearly all shards would be empty")
        temporal = _split(TEMPORAL[stream.parameters["name"]], stream.parameters)
        spatial = _split(SPATIAL[stream.parameters["partition"]], stream.parameters)
        again = make_stream(train_labels, test_labels, temporal, spatial, stream.parameters["seed"])
    except Exception as error:  # parameters may be anything
        raise ValueError(f"its parameters make no stream ({error})") from error
    if again.hash != stream.hash:
        raise ValueError("its parameters lead to another one")


def _split(kind: Any, parameters: dict[str, Any]) -> Any:
    names = [field.name for field in fields(kind) if field.name != "name"]
    return TypeAdapter(kind).validate_python({name: parameters[name] for name in names if name in parameters})


def _parameters_hash(stream_hash: str, parameters: dict[str, Any]) -> str:
    """Binds parameters to a stream; the hash of a stream itself is equal for streams of other names."""
    return sha256(f"{stream_hash}{json.dumps(parameters, sort_keys=True)}".encode()).hexdigest()


def _build(
    arrays: dict[str, np.ndarray], train_labels: np.ndarray, test_labels: np.ndarray, parameters: dict[str, Any]
) -> Stream:
    """Add what follows from the labels: the classes every client declares, in their order of registration."""
    sizes = arrays["sizes"]
    shares = np.split(train_labels[arrays["samples"]], sizes.cumsum()[:-1])
    held = [np.unique(labels, return_counts=True) for labels in shares]
    declared = [labels.tolist() for labels, _ in held]
    tasks, order = register(declared[start : start + sizes.shape[1]] for start in range(0, len(held), sizes.shape[1]))
    derived = {
        "reserved": arrays.get("reserved", np.zeros(0, dtype=np.int64)),
        "order": np.array(order, dtype=np.int64),
        "counts": _counts(held, sizes.shape[1], order),
        "histogram": _histogram(train_labels, test_labels),
        "label_digest": _digest(train_labels, test_labels),
    }
    return Stream(**(arrays | derived), tasks=tasks, parameters=parameters)


def _reserve(labels: np.ndarray, per_class: int, seed: int) -> np.ndarray:
    """``per_class`` random training samples of every class, ascending."""
    smallest = int(np.bincount(labels)[np.unique(labels)].min(initial=len(labels)))
    if per_class >= max(smallest, 1):
        raise ConfigError(
            f"Expected stream.reserved to be less than {smallest}, the training samples of the smallest class, "
            f"but got {per_class}."
        )
    shuffled = generator(seed, "stream", "reserved").permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]  # random order within each class
    rank = np.arange(len(labels)) - np.searchsorted(labels[by_class], labels[by_class])  # position within its class
    return np.sort(by_class[rank < per_class])


def _counts(held: list[tuple[np.ndarray, np.ndarray]], clients: int, order: tuple[int, ...]) -> np.ndarray:
    """How many samples of which class are whose, from the labels and counts of every share."""
    number = {label: number for number, label in enumerate(order)}
    rows = [
        (*divmod(share, clients), number[label], count)
        for share, pair in enumerate(held)
        for label, count in zip(*map(np.ndarray.tolist, pair), strict=True)
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _histogram(train_labels: np.ndarray, test_labels: np.ndarray) -> np.ndarray:
    labels = number_of_labels(train_labels, test_labels)
    return np.array([np.bincount(half, minlength=labels) for half in (train_labels, test_labels)])


def _digest(train_labels: np.ndarray, test_labels: np.ndarray) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(_hash((train_labels, test_labels))), dtype="<i8")


def _hash(arrays: Iterable[np.ndarray]) -> str:
    digest = sha256()
    for array in arrays:
        digest.update(np.array(array.shape, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()
