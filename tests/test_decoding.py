"""Bytes that are no messages: all are refused with a reason, whatever they name."""

import importlib
import json
import random
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
import torch
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from fcl_bench import Samples, Update
from fcl_bench.client import Client
from fcl_bench.decoding import MessageError, decode
from fcl_bench.message import DEPTH, encode
from fcl_bench.message_classes import declared_classes, named
from fcl_bench.privacy.secure_sum import Neighbour, SecureSum

CLASSES = named(Update)
WHOLE = encode(Update({"w": torch.ones(2), "b": torch.zeros(1, dtype=torch.int64)}, 7))


@pytest.fixture
def damage(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The functions of ``python -m benchmarks.damage``."""
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.damage")


def split(data: bytes) -> tuple[dict[str, Any], Any, bytes]:
    """Header, structure and numbers of an encoding, by the definition of safetensors."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    return header, json.loads(header["__metadata__"]["message"]), data[8 + size :]


def joined(header: Any, content: bytes, separators: tuple[str, str] = (",", ":")) -> bytes:
    text = json.dumps(header, separators=separators).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content


def holding(structure: Any) -> bytes:
    """An encoding of this structure, without tensors."""
    text = structure if isinstance(structure, str) else json.dumps(structure)
    return joined({"__metadata__": {"message": text}}, b"")


def test_an_encoding_can_be_taken_apart_and_joined() -> None:
    header, structure, content = split(WHOLE)
    assert joined(header, content) == WHOLE
    assert holding(7) == encode(7)
    assert list(structure) == ["dataclass", "fields"]


NESTED = "[" * 100_000 + "]" * 100_000
NO_MESSAGES = {
    "nothing": (b"", "is not JSON"),
    "a length without a header": (b"\xff" * 8, "is not JSON"),
    "noise": (b"\x08\0\0\0\0\0\0\0abcdefgh", "is not JSON"),
    "a header that is no dict": (joined([], b""), "does not hold the structure"),
    "no metadata": (joined({}, b""), "does not hold the structure"),
    "other metadata": (joined({"__metadata__": {"message": "1", "x": "y"}}, b""), "does not hold the structure"),
    "a structure that is no JSON": (holding("{"), "is not JSON"),
    "a structure of many digits": (holding("9" * 5000), "is not JSON"),
    "a structure that is deep": (holding(NESTED), "is not JSON|nested too deep|unknown kind|deeper"),
    "an unknown structure": (holding({"list": []}), "unknown kind"),
    "a bare list": (holding([1]), "unknown kind"),
    "more than a tuple": (holding({"tuple": [], "x": 1}), "unknown kind"),
    "spaces": (holding("[1,  2]"), "not written as encode writes it"),
    "a number of another form": (holding("1e5"), "not written as encode writes it"),
    "a key twice in the header": (joined({"__metadata__": {"message": "1"}}, b"").replace(b" ", b""), "JSON|written"),
    "a key that is none": (holding({"dict": [[None, 1]]}), "without a proper key"),
    "a key that cannot be hashed": (holding({"dict": [[[], 1]]}), "without a proper key"),
    "a key without a value": (holding({"dict": [["a"]]}), "without a proper key"),
    "a key twice": (holding({"dict": [["a", 1], ["a", 2]]}), "a key twice"),
    "equal keys": (holding({"dict": [[1, 1], [True, 2]]}), "a key twice"),
    "half a character": (holding({"tuple": ["\ud800"]}), "not Unicode"),
    "a tensor that is not there": (holding({"tensor": "0"}), "there is no tensor '0'"),
    "a tensor with an odd name": (holding({"tensor": []}), "unknown kind"),
    "a class of another module": (holding({"dataclass": "os:system", "fields": {}}), "'os:system' is not declared"),
    "fields in another order": (
        holding({"fields": {}, "dataclass": "fcl_bench.aggregate:Update"}),
        "unknown kind",
    ),
    "fields that are missing": (
        holding({"dataclass": "fcl_bench.aggregate:Update", "fields": {"weights": None}}),
        "to have the fields weights, samples",
    ),
}


@pytest.mark.parametrize("name", NO_MESSAGES)
def test_what_is_no_message_is_refused_with_a_reason(name: str) -> None:
    data, reason = NO_MESSAGES[name]
    with pytest.raises(MessageError, match=reason):
        decode(data, CLASSES)


def altered(change: str) -> bytes:
    header, structure, content = split(WHOLE)
    match change:
        case "a tensor too many":
            content += bytes(4)
            header["2"] = {"dtype": "F32", "shape": [1], "data_offsets": [16, 20]}
        case "a tensor used twice":
            structure["fields"]["samples"] = {"tensor": "1"}
        case "tensors in another order":
            header = {name: header[name] for name in ("__metadata__", "0", "1")}
        case "an entry with more":
            header["0"]["x"] = 1
        case "another type":
            header["1"]["dtype"] = "F64"
        case "a type that does not exist":
            header["1"]["dtype"] = "F65"
        case "a shape that does not fit":
            header["0"]["shape"] = [3]
        case "a tensor cut off":
            content = content[:-1]
    header["__metadata__"]["message"] = json.dumps(structure)
    return joined(header, content)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("a tensor too many", "another order|structure does not name"),
        ("a tensor used twice", "there is no tensor '1' at this place"),
        ("tensors in another order", "another order"),
        ("an entry with more", "another order"),
        ("a type that does not exist", "tensors cannot be read"),
        ("a shape that does not fit", "tensors cannot be read"),
        ("a tensor cut off", "tensors cannot be read"),
    ],
)
def test_tensors_are_as_encode_lays_them(change: str, reason: str) -> None:
    assert altered("nothing") == WHOLE
    with pytest.raises(MessageError, match=reason):
        decode(altered(change), CLASSES)


def test_a_change_that_makes_another_message_is_that_message() -> None:
    back = decode(altered("another type"), CLASSES)
    assert back.weights["b"].dtype == torch.float64
    assert encode(back) == altered("another type")


def test_booleans_are_zero_or_one() -> None:
    data = encode(torch.tensor([True, False]))
    assert decode(data).tolist() == [True, False]
    with pytest.raises(MessageError, match="bytes that are no booleans"):
        decode(data[:-1] + b"\x02")


def test_tensors_are_shared_only_where_that_is_meant() -> None:
    once = encode((torch.ones(3), torch.ones(3)), share=True)
    one, other = decode(once, share=True)
    assert one is other
    with pytest.raises(MessageError, match="there is no tensor '0' at this place"):
        decode(once)
    twice = encode((torch.ones(3), torch.ones(3)))
    with pytest.raises(MessageError, match="the same tensor twice"):
        decode(twice, share=True)


def test_depth_is_bounded_on_both_ways() -> None:
    message: Any = 1
    for _ in range(DEPTH):
        message = (message,)
    assert decode(encode(message)) == message
    with pytest.raises(TypeError, match=f"nested at most {DEPTH} deep"):
        encode((message,))
    with pytest.raises(MessageError, match=f"nested at most {DEPTH} deep"):
        decode(holding('{"tuple": [' * (DEPTH + 1) + "1" + "]}" * (DEPTH + 1)))


DTYPES = [torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool, torch.bfloat16, torch.int8]


@given(
    st.lists(st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 2), max_size=3)), max_size=14), st.booleans()
)
@settings(max_examples=60, deadline=None)
def test_tensors_of_all_types_come_back(kinds: list[tuple[torch.dtype, list[int]]], share: bool) -> None:
    message = tuple((torch.rand(shape) * 3).to(dtype) for dtype, shape in kinds)
    data = encode(message, share)
    back = decode(data, share=share)
    assert [(tensor.dtype, tensor.shape) for tensor in back] == [(tensor.dtype, tensor.shape) for tensor in message]
    assert encode(back, share) == data


def test_a_short_campaign(damage: ModuleType) -> None:
    count = damage.encodings(2000, random.Random(5))
    assert damage.good(count), count
    assert count["refused"] > 1500
    count = damage.checkpoints(200, random.Random(5))
    assert damage.good(count), count
    assert count["refused"] == 200


@dataclass(frozen=True)
class Inner:
    value: int


@dataclass(frozen=True)
class State:
    inner: tuple[Inner, ...]


@dataclass(frozen=True)
class Sent:
    samples: Samples | None


@dataclass(frozen=True)
class Kept:
    value: int


@dataclass(frozen=True)
class Other:
    value: int


class Declaring:
    """A method, as far as its annotations go."""

    message_classes = (Kept,)

    def init(self) -> State: ...

    def train(self, client: Client, received: Sent) -> dict[str, Update]: ...

    def helper(self, other: Other) -> Other: ...


def test_annotations_and_an_attribute_declare_classes() -> None:
    assert set(declared_classes(Declaring).values()) == {State, Inner, Sent, Samples, Update, Kept}
    assert set(declared_classes(SecureSum).values()) == {Neighbour}


def test_an_error_of_a_declared_class_is_a_refusal() -> None:
    data = encode(Picky(1)).replace(b'\\"value\\": 1', b'\\"value\\": 2')
    assert decode(encode(Picky(1)), named(Picky)) == Picky(1)
    with pytest.raises(MessageError, match=r"cannot be made of these values \(Expected 1\)"):
        decode(data, named(Picky))


@dataclass(frozen=True)
class Picky:
    value: int

    def __post_init__(self) -> None:
        if self.value != 1:
            raise ValueError("Expected 1")
