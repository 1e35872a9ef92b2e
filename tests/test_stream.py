import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_module
from hydra.utils import instantiate
from hypothesis import given, settings
from hypothesis import strategies as st

from fcl_bench import partition, temporal
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.stream import Stream, load, make_stream, save, without

bounded = settings(max_examples=40, deadline=None, derandomize=True)
temporals = (
    st.builds(
        temporal.SiBlurry,
        st.integers(1, 6),
        st.sampled_from([0, 0.3, 0.5, 1]),
        st.sampled_from([0, 0.1, 1]),
        st.sampled_from(["fixed", "varying", "legacy", "legacy_fixed"]),
    )
    | st.builds(temporal.Disjoint, st.integers(1, 6))
    | st.builds(temporal.IidTasks, st.integers(1, 6))
)
spatials = (
    st.builds(
        partition.Dirichlet,
        st.integers(1, 12),
        st.sampled_from([0.01, 0.5, 100]),
        st.sampled_from(["equal", "capped"]),
        st.sampled_from(["fresh", "fixed"]),
    )
    | st.builds(partition.IidClients, st.integers(1, 12))
    | st.builds(partition.Shards, st.integers(1, 12), st.integers(1, 3))
)


def data(classes: int = 8, each: int = 15) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.permutation(np.repeat(np.arange(classes), each)), np.repeat(np.arange(classes), 5)


def small(seed: int = 1) -> Stream:
    return make_stream(*data(), temporal.SiBlurry(4), partition.Dirichlet(3, 0.5), seed)


def shares(stream: Stream) -> list[list[np.ndarray]]:
    return [[stream.indices(task, client) for client in range(stream.clients)] for task in range(len(stream.tasks))]


@bounded
@given(when=temporals, where=spatials, seed=st.integers(0, 99))
def test_every_sample_is_in_exactly_one_place(when, where, seed) -> None:
    train, test = data()
    stream = make_stream(train, test, when, where, seed)
    split = when.split(train, test, seed)
    kept = np.arange(8)
    if getattr(when, "layout", "").startswith("legacy"):
        kept = np.concatenate([*split.disjoint, *split.blurry])
    dealt = np.concatenate([own for task in shares(stream) for own in task])
    assert sorted(dealt) == np.flatnonzero(np.isin(train, kept)).tolist()
    tested = np.concatenate([stream.test_indices(task) for task in range(when.tasks)])
    assert sorted(tested) == np.flatnonzero(np.isin(test, kept)).tolist()
    for task in range(when.tasks):
        assert sorted(np.concatenate(shares(stream)[task])) == sorted(split.train[task])
        assert stream.test_indices(task).tolist() == sorted(split.test[task])
    assert sorted(stream.order) == sorted(kept)
    assert [stream.number[label] for label in stream.order] == list(range(len(kept)))
    assert (stream.number >= 0).sum() == len(kept)


@bounded
@given(when=temporals, where=spatials, seed=st.integers(0, 99))
def test_registration_by_brute_force(when, where, seed) -> None:
    train, test = data()
    stream = make_stream(train, test, when, where, seed)
    assert [task.index for task in stream.tasks] == list(range(when.tasks))
    seen: list[int] = []  # labels in order of registration
    for task, clients in zip(stream.tasks, shares(stream), strict=True):
        earlier = list(seen)
        assert [registration.client for registration in task.registrations] == list(range(where.clients))
        for registration, own in zip(task.registrations, clients, strict=True):
            held = sorted(set(train[own].tolist()))
            assert registration.registered == len(seen)
            assert registration.known == tuple(sorted(seen.index(label) for label in held if label in seen))
            seen += [label for label in held if label not in seen]
            assert registration.new == tuple(range(registration.registered, len(seen)))
        present = set(train[np.concatenate(clients)].tolist())
        assert task.new == tuple(range(len(earlier), len(seen)))
        assert task.known == tuple(sorted(earlier.index(label) for label in present if label in earlier))
        assert sorted(seen[number] for number in task.classes) == sorted(present)
        assert task.seen == len(seen)
    assert stream.order.tolist() == seen


@bounded
@given(when=temporals, where=spatials, seed=st.integers(0, 99))
def test_the_hash_is_a_function_of_data_splits_and_seed(when, where, seed) -> None:
    train, test = data()
    stream = make_stream(train, test, when, where, seed)
    assert make_stream(train, test, when, where, seed).hash == stream.hash
    assert make_stream(train, test, replace(when, name="other"), where, seed).hash == stream.hash
    if when.tasks > 1:
        assert make_stream(train, test, when, where, seed + 100).hash != stream.hash
    assert make_stream((train + 1) % 8, test, when, where, seed).hash != stream.hash
    assert make_stream(train, (test + 1) % 8, when, where, seed).hash != stream.hash


def test_each_part_of_the_content_changes_the_hash() -> None:
    stream = small()
    for name in ("samples", "sizes", "test", "test_sizes", "order", "histogram", "label_digest"):
        assert replace(stream, **{name: getattr(stream, name) + 1}).hash != stream.hash
    assert replace(stream, parameters={}).hash == stream.hash


def test_parameters_name_both_splits_and_the_seed() -> None:
    assert small(seed=7).parameters == {
        "name": "si_blurry",
        "tasks": 4,
        "disjoint_ratio": 0.5,
        "blurry_ratio": 0.1,
        "layout": "fixed",
        "partition": "dirichlet",
        "clients": 3,
        "alpha": 0.5,
        "balance": "equal",
        "priors": "fresh",
        "seed": 7,
    }


def test_without_some_samples_tasks_clients_and_tests_stay_and_classes_are_registered_again() -> None:
    """Three clients and four tasks; the class that is registered first disappears, and half of another."""
    stream = small()
    train, test = data()
    gone = (train[stream.samples] == stream.order[0]) | (stream.samples % 3 == 0)
    rest = without(stream, gone, train, test)
    assert (len(rest.tasks), rest.clients) == (4, 3)
    for task in range(4):
        assert rest.test_indices(task).tolist() == stream.test_indices(task).tolist()
        for client in range(3):
            held = [
                sample for sample in stream.indices(task, client) if sample % 3 and train[sample] != stream.order[0]
            ]
            assert rest.indices(task, client).tolist() == held
    again: list[int] = []
    for task in range(4):
        for client in range(3):
            labels = sorted(set(train[rest.indices(task, client)].tolist()))
            again += [label for label in labels if label not in again]
    assert rest.order.tolist() == again
    assert stream.order[0] not in again
    assert rest.hash != stream.hash


def test_every_sample_has_its_place() -> None:
    stream = small()
    for sample, (task, client) in zip(stream.samples, stream.places, strict=True):
        assert sample in stream.indices(task, client)


def test_a_task_or_client_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(IndexError):
        small().indices(0, 3)
    with pytest.raises(IndexError):
        small().test_indices(4)


def test_a_limited_training_set_may_leave_classes_and_tasks_empty() -> None:
    train, test = np.array([5, 5, 2]), np.arange(10)
    stream = make_stream(train, test, temporal.Disjoint(5), partition.Dirichlet(3, 0.1), seed=0)
    assert stream.sizes.sum() == 3
    assert sorted(stream.order) == [2, 5]
    assert sum(len(stream.test_indices(task)) for task in range(5)) == 10
    assert stream.tasks[-1].seen == 2


def test_more_clients_than_samples_are_refused() -> None:
    with pytest.raises(
        ConfigError,
        match=r"Expected partition\.clients to be at most 120, the number of training samples, but got 121\.",
    ):
        make_stream(*data(), temporal.IidTasks(2), partition.IidClients(121), seed=0)


def test_a_manifest_of_another_kind_of_stream_is_refused(tmp_path: Path) -> None:
    save(small(), tmp_path)
    with pytest.raises(ConfigError, match="Expected stream=si_blurry with this manifest, but got iid"):
        make_stream(*data(), temporal.IidTasks(9, manifest=tmp_path), partition.IidClients(1), seed=1)


@pytest.mark.parametrize("name", ["", "stream.npz", "stream.json"])
def test_a_saved_stream_replays_exactly(tmp_path: Path, name: str) -> None:
    stream = small()
    save(stream, tmp_path / "run")
    replayed = make_stream(
        *data(), temporal.SiBlurry(9, manifest=tmp_path / "run" / name), partition.IidClients(1), seed=99
    )
    assert replayed.hash == stream.hash
    assert replayed.tasks == stream.tasks
    assert replayed.parameters == stream.parameters
    for field in fields(Stream):
        assert np.array_equal(getattr(replayed, field.name), getattr(stream, field.name))
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["stream.json", "stream.npz"]


def test_the_json_half_says_what_is_in_the_stream(tmp_path: Path) -> None:
    stream = small()
    save(stream, tmp_path)
    summary = json.loads((tmp_path / "stream.json").read_text())
    assert summary["hash"] == stream.hash
    assert summary["histogram"] == [[15] * 8, [5] * 8]
    assert summary["order"] == stream.order.tolist()
    assert [len(task) for task in summary["sizes"]] == [3] * 4
    assert sum(map(sum, summary["sizes"])) == 120


def truncate(folder: Path) -> None:
    file = folder / "stream.npz"
    file.write_bytes(file.read_bytes()[:200])


def garble(folder: Path) -> None:
    (folder / "stream.json").write_text("{")


def forget_the_hash(folder: Path) -> None:
    (folder / "stream.json").write_text('{"parameters": {}}')


def remove_an_array(folder: Path) -> None:
    np.savez(folder / "stream.npz", samples=np.arange(3))


def pickle_an_array(folder: Path) -> None:
    np.savez(folder / "stream.npz", samples=np.array([{}], dtype=object))


def swap_two_samples(folder: Path) -> None:
    with np.load(folder / "stream.npz") as saved:
        arrays = dict(saved)
    arrays["samples"][[0, 1]] = arrays["samples"][[1, 0]]
    np.savez(folder / "stream.npz", **arrays)


@pytest.mark.parametrize("damage", [truncate, garble, forget_the_hash, remove_an_array, pickle_an_array])
def test_a_damaged_manifest_is_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    save(small(), tmp_path)
    damage(tmp_path)
    with pytest.raises(UserError, match="is damaged and cannot be read") as error:
        load(tmp_path, *data())
    assert error.value.exit_code == 1


def test_an_altered_manifest_is_refused(tmp_path: Path) -> None:
    save(small(), tmp_path)
    swap_two_samples(tmp_path)
    with pytest.raises(UserError, match="was altered"):
        load(tmp_path, *data())


@pytest.mark.parametrize("missing", ["stream.npz", "stream.json"])
def test_a_missing_manifest_is_named(tmp_path: Path, missing: str) -> None:
    save(small(), tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(UserError, match=f"{missing} does not exist"):
        load(tmp_path, *data())
    with pytest.raises(UserError, match="nowhere does not exist"):
        load(tmp_path / "nowhere", *data())


def test_a_manifest_of_other_data_is_refused(tmp_path: Path) -> None:
    save(small(), tmp_path)
    train, test = data()
    for other in ((train[:-1], test), (train, test[1:]), data(classes=9), ((train + 1) % 8, test)):
        with pytest.raises(UserError, match=r"was made for other data.*limit_train"):
            load(tmp_path, *other)


@pytest.mark.parametrize("when", ["si_blurry", "disjoint", "iid"])
@pytest.mark.parametrize("where", ["dirichlet", "iid", "shards"])
def test_configs_build_streams(when: str, where: str) -> None:
    with initialize_config_module("fcl_bench.configs", version_base="1.3"):
        config = compose(overrides=[f"+stream={when}", f"+partition={where}"])
    stream = make_stream(*data(), instantiate(config.stream), instantiate(config.partition), seed=0)
    assert (len(stream.tasks), stream.clients) == (5, 5)
    assert (stream.parameters["name"], stream.parameters["partition"]) == (when, where)
