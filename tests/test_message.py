import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fcl_bench.decoding import MessageError, decode
from fcl_bench.message import encode, leaves, snapshot
from fcl_bench.message_classes import named
from fcl_bench.traffic import size


@dataclass(frozen=True)
class Inner:
    weights: dict
    note: str


@dataclass(frozen=True)
class Outer:
    inner: Inner
    values: tuple
    count: int


CLASSES = named(Outer, Inner)


@dataclass
class Mutable:
    value: int


scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=5)
tensors = st.builds(
    lambda shape, dtype: (100 * torch.randn(shape)).to(dtype),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from([torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.bfloat16]),
)
messages = st.recursive(
    scalars | tensors,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=3),
        st.builds(Inner, weights=st.dictionaries(st.text(max_size=3), inner, max_size=2), note=st.text(max_size=3)),
    ),
    max_leaves=8,
)


def same(one: object, other: object) -> bool:
    ours, theirs = list(leaves(one)), list(leaves(other))
    return [path for path, _ in ours] == [path for path, _ in theirs] and all(
        (a.dtype == b.dtype and torch.equal(a, b)) if isinstance(a, torch.Tensor) else (type(a) is type(b) and a == b)
        for (_, a), (_, b) in zip(ours, theirs, strict=True)
    )


@given(messages)
@settings(max_examples=100, deadline=None)
def test_decoding_what_was_encoded_is_the_identity(message):
    back = decode(encode(message), CLASSES)
    assert type(back) is type(message)
    assert same(back, message)
    assert encode(back) == encode(message)


def test_size_counts_tensors_numbers_and_text():
    message = Outer(Inner({"w": torch.zeros(2, 3), "b": torch.zeros(5, dtype=torch.int64)}, "né"), (1.0, None, True), 7)
    assert size(message) == 2 * 3 * 4 + 5 * 8 + 3 + 8 + 0 + 8 + 8


def test_views_and_shared_tensors_travel_as_what_they_show():
    weights = torch.arange(12.0).reshape(3, 4)
    first, second = decode(encode((weights[:, 1:3].T, weights)))
    assert torch.equal(first, weights[:, 1:3].T)
    assert torch.equal(second, weights)


def test_special_numbers_survive():
    nan, infinity = decode(encode((math.nan, -math.inf)))
    assert math.isnan(nan)
    assert infinity == -math.inf


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ([1, 2], r"Expected message to be a tensor, number, .* but got list"),
        ({"a": nn.Linear(1, 1)}, r"Expected message\['a'\] .* but got Linear"),
        ({(1, 2): 3}, r"Expected the keys of message to be strings or integers, but got \(1, 2\)"),
        (Outer(Inner({"x": {1, 2}}, ""), (), 0), r"message\.inner\.weights\['x'\] .* but got set"),
        (Mutable(1), "Mutable is not frozen"),
    ],
)
def test_what_cannot_travel_is_named_with_its_place(message, complaint):
    with pytest.raises(TypeError, match=complaint):
        size(message)


def test_local_dataclasses_are_refused():
    @dataclass(frozen=True)
    class Local:
        value: int

    with pytest.raises(TypeError, match="to be defined at the top level of its module"):
        encode(Local(1))


def test_only_declared_classes_are_constructed():
    data = encode(Inner({}, ""))
    assert decode(data, CLASSES) == Inner({}, "")
    with pytest.raises(MessageError, match=r"'test_message:Inner' is not declared: name it in the annotations"):
        decode(data)


def test_a_snapshot_is_not_reached_by_training():
    module = nn.BatchNorm1d(2)
    before = snapshot(module)
    module(torch.randn(8, 2))
    assert before["num_batches_tracked"] == 0
    assert set(before) == set(module.state_dict())
    assert torch.equal(before["running_mean"], torch.zeros(2))
