"""Manifests whose hash fits but which are no stream, or not the one they say; and what they may take of memory."""

import hashlib
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command
from omegaconf import OmegaConf
from test_stream import data, small

from fcl_bench.errors import ConfigError, UserError
from fcl_bench.partition import Dirichlet
from fcl_bench.run.replayed import refuse_contradictions
from fcl_bench.stream import Stream, _hash, load, make_stream, save
from fcl_bench.temporal import SiBlurry

Arrays = dict[str, np.ndarray]


def altered(folder: Path, change: Callable[[Arrays, dict[str, Any]], None]) -> Path:
    """A manifest of :func:`small` after a change, with the hash of what is then in it."""
    save(small(), folder)
    with np.load(folder / "stream.npz") as saved:
        arrays = dict(saved)
    summary = json.loads((folder / "stream.json").read_text())
    change(arrays, summary)
    summary["hash"] = _hash(arrays.values())
    np.savez_compressed(folder / "stream.npz", **arrays)
    (folder / "stream.json").write_text(json.dumps(summary))
    return folder


def put(name: str, place: Any, value: int) -> Callable[[Arrays, dict[str, Any]], None]:
    def change(arrays: Arrays, summary: dict[str, Any]) -> None:
        arrays[name][place] = value

    return change


def repeat(name: str) -> Callable[[Arrays, dict[str, Any]], None]:
    def change(arrays: Arrays, summary: dict[str, Any]) -> None:
        arrays[name][1] = arrays[name][0]

    return change


def shaped(name: str, *shape: int) -> Callable[[Arrays, dict[str, Any]], None]:
    def change(arrays: Arrays, summary: dict[str, Any]) -> None:
        arrays[name] = np.zeros(shape, np.int64)

    return change


def move_sizes(arrays: Arrays, summary: dict[str, Any]) -> None:
    """More than all in one share, less than none in another: the sum fits."""
    arrays["sizes"][0, 0] += 500
    arrays["sizes"][0, 1] -= 500


def overflow_sizes(arrays: Arrays, summary: dict[str, Any]) -> None:
    """2**64 more than there are, which a sum of 64 bits does not show."""
    arrays["sizes"][0, :2] += 2**62
    arrays["sizes"][1, :2] += 2**62


def reserve_a_dealt_sample(arrays: Arrays, summary: dict[str, Any]) -> None:
    arrays["reserved"] = arrays["samples"][:1].copy()


def other_order(arrays: Arrays, summary: dict[str, Any]) -> None:
    arrays["order"] = arrays["order"][::-1].copy()
    summary["order"] = arrays["order"].tolist()


def said(key: str, value: object) -> Callable[[Arrays, dict[str, Any]], None]:
    return lambda arrays, summary: summary.update({key: value})


def parameter(key: str, value: object, bound: bool = True) -> Callable[[Arrays, dict[str, Any]], None]:
    def change(arrays: Arrays, summary: dict[str, Any]) -> None:
        summary["parameters"][key] = value
        if not bound:
            del summary["parameters_hash"]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("samples", 0, -1), "names training samples other than 0 to 119"),
        (put("samples", 0, 120), "names training samples other than 0 to 119"),
        (put("test", 0, 2**62), "names test samples other than 0 to 39"),
        (repeat("samples"), "gives a training sample to two places"),
        (repeat("test"), "gives a test sample to two places"),
        (reserve_a_dealt_sample, "gives a training sample to two places"),
        (put("sizes", (0, 0), 119), "its sizes do not add up to its 120 samples"),
        (move_sizes, "its sizes do not add up to its 120 samples"),
        (overflow_sizes, "one of its sizes is larger than all together"),
        (put("test_sizes", 0, 39), "its test_sizes do not add up to its 40 test"),
        (shaped("sizes", 12), "sizes is not a table"),
        (shaped("sizes", 0, 3), "sizes is not a table"),
        (shaped("samples", 12, 10), "samples is not one row"),
        (shaped("test_sizes", 5), "different numbers of tasks"),
        (other_order, "its classes are not those of its samples"),
        (put("histogram", (0, 0), 16), "its classes are not those of its samples"),
        (said("counts", []), r"its counts in stream\.json are not those of its samples"),
        (said("sizes", None), r"its sizes in stream\.json are not those of its samples"),
        (parameter("alpha", 0.1), "its parameters were altered"),
        (parameter("seed", 2, bound=False), "its parameters lead to another one"),
        (parameter("alpha", "x", bound=False), "its parameters make no stream"),
        (parameter("name", [], bound=False), "its parameters make no stream"),
    ],
)
def test_a_manifest_that_is_no_stream_is_refused(
    tmp_path: Path, change: Callable[[Arrays, dict[str, Any]], None], message: str
) -> None:
    with pytest.raises(UserError, match=f"stream manifest {tmp_path} is no stream: .*{message}"):
        load(altered(tmp_path, change), *data())


def test_a_manifest_of_an_earlier_version_is_replayed(tmp_path: Path) -> None:
    """Its parameters are bound by no hash, but they lead to the stream."""
    stream = make_stream(*data(), SiBlurry(4, reserved=2), Dirichlet(3, 0.5), 1)
    save(stream, tmp_path)
    summary = json.loads((tmp_path / "stream.json").read_text())
    del summary["parameters_hash"]
    (tmp_path / "stream.json").write_text(json.dumps(summary))
    assert load(tmp_path, *data()).hash == stream.hash


def declares_more(arrays: Arrays, summary: dict[str, Any]) -> None:
    arrays["sizes"] = np.zeros((10, 1_000_000), np.int64)


def test_a_manifest_takes_no_more_memory_than_its_data_can_need(tmp_path: Path) -> None:
    folder = altered(tmp_path, declares_more)
    assert (folder / "stream.npz").stat().st_size < 2**20
    tracemalloc.start()
    with pytest.raises(
        UserError, match="its array sizes has 80,000,128 bytes, more than the 2,200 numbers it can need"
    ):
        load(folder, *data())
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()


def test_a_header_that_declares_more_than_there_is_takes_no_memory(tmp_path: Path) -> None:
    folder = altered(tmp_path, lambda arrays, summary: None)
    data_of = {}
    with np.load(folder / "stream.npz") as saved:
        data_of.update(saved)
    np.savez(folder / "stream.npz", **data_of)  # not compressed, so that its bytes can be changed
    content = (folder / "stream.npz").read_bytes()
    (folder / "stream.npz").write_bytes(content.replace(b"(120,), ", b"(9**9,),", 1))
    with pytest.raises(UserError, match="is damaged and cannot be read"):
        load(folder, *data())


@pytest.mark.parametrize("text", ["[" * 100_000, '{"hash": "' + "x" * 2**22 + '"}', "[]", "\0"])
def test_a_summary_that_is_too_deep_or_too_large_is_refused(tmp_path: Path, text: str) -> None:
    save(small(), tmp_path)
    (tmp_path / "stream.json").write_text(text)
    with pytest.raises(UserError, match="is damaged and cannot be read"):
        load(tmp_path, *data())


def test_the_hash_of_a_stream_is_what_it_was() -> None:
    """Published records name streams by it; computed by hand from the documented parts."""
    stream: Stream = small()
    digest = hashlib.sha256()
    for name in ("samples", "sizes", "test", "test_sizes", "order", "histogram", "label_digest"):
        array = getattr(stream, name)
        digest.update(np.array(array.shape, "<i8").tobytes() + array.astype("<i8").tobytes())
    assert stream.hash == digest.hexdigest()


def test_a_setting_that_contradicts_the_manifest_is_refused(tiny: Command, tmp_path: Path) -> None:
    save(small(), tmp_path)
    refused = tiny("method=afcl", f"stream.manifest={tmp_path}")  # with three tasks, as all runs on tiny data
    assert refused.code == 2
    assert refused.err == (
        f"fcl_bench: Expected stream.tasks=4, as the stream in {tmp_path} was made, but got 3: "
        "leave stream.tasks out, or stream.manifest.\n"
    )


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("stream=disjoint", "Expected stream=si_blurry"),
        ("stream.reserved=7", r"Expected stream\.reserved=0"),
        ("partition=shards", "Expected partition=dirichlet"),
        ("partition.clients=7", r"Expected partition\.clients=3"),
        ("partition.alpha=7", r"Expected partition\.alpha=0\.5"),
    ],
)
def test_every_setting_that_was_given_must_agree_with_the_manifest(tmp_path: Path, word: str, message: str) -> None:
    save(small(), tmp_path)
    other = {
        "stream": {"name": "disjoint", "tasks": 7, "reserved": 7, "manifest": str(tmp_path)},
        "partition": {"name": "shards", "clients": 7, "alpha": 7},
    }
    config = OmegaConf.create(other)
    refuse_contradictions(config, ["method=afcl", f"stream.manifest={tmp_path}", "seed=7"])
    with pytest.raises(ConfigError, match=message):
        refuse_contradictions(config, ["seed=7", word])
    config.stream.manifest = None
    refuse_contradictions(config, [word])
