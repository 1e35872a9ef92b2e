"""What a declaration says about a reply: each rule on values that are right and wrong by hand."""

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch import Tensor

from fcl_bench import linalg
from fcl_bench.door import (
    ByClass,
    Each,
    Equal,
    Gram,
    Kind,
    Labels,
    Like,
    LikeOwn,
    Range,
    Shape,
    Total,
    Triangle,
    Within,
)
from fcl_bench.door.facts import Facts
from fcl_bench.door.reading import complaint, declared_reply, norm
from fcl_bench.errors import UserError
from fcl_bench.message import StateDict
from fcl_bench.registration import register

METHOD = SimpleNamespace(features=3, kind=torch.int64, names=["w"], own=torch.zeros(2, dtype=torch.int64))


def facts(task: int = 1, client: int = 1, message: tuple[Any, ...] = (), **settings: Any) -> Facts:
    return Facts(METHOD, message, STREAM, task, client, torch.zeros(6, 3), **settings)


def by_hand() -> Any:
    """Client 0 has two samples of class 4, then one more; client 1 two of class 7, then one of class 9."""
    tasks, order = register([[[4], [7]], [[4], [9]]])
    sizes = np.array([[2, 2], [1, 1]])
    return SimpleNamespace(tasks=tasks, sizes=sizes, clients=2, order=order)


STREAM = by_hand()
WEIGHTS = {"w": torch.zeros(2, 3), "b": torch.zeros(2)}


@dataclass(frozen=True)
class Sent:
    round: int
    weights: StateDict


MESSAGE = (Sent(1, WEIGHTS),)


@dataclass(frozen=True)
class Pair:
    rows: Annotated[Tensor, Shape("n", "features")]
    labels: Annotated[Tensor, Shape("n"), Kind(torch.int64), Labels(distinct=True)]


LIKE = Annotated[StateDict, Like("weights")]
LIKE_NAMES = Annotated[StateDict, Like("weights", only="names")]
LONGER = Annotated[StateDict, Like("weights", only="names", rows="n")]
EITHER = Annotated[Tensor, Shape(("classes", "registered"))]
ints = torch.tensor


@pytest.mark.parametrize(
    ("annotation", "good", "bad", "words"),
    [
        (int, 3, 3.0, "is a float, expected int"),
        (int, 3, True, "is a bool, expected int"),
        (float, 3, math.nan, "is nan, expected a finite number"),
        (float, 3.5, 1e200, "expected a finite number"),
        (int, 2**53, 2**53 + 1, "which is too large"),
        (None, None, 0, "is a int, expected None"),
        (Tensor, torch.zeros(2), torch.tensor([0, math.inf]), "numbers that are not finite"),
        (
            Tensor,
            torch.zeros(2),
            torch.tensor([0, 1e13]),
            r"that is too large to be computed with: 1e\+13",
        ),
        (Tensor, torch.zeros(2), torch.zeros(2).to_sparse(), "which no reply may have"),
        (Tensor, torch.zeros(2), [0.0], "is a list, expected Tensor"),
        (tuple[int, str], (1, "a"), (1,), "has 1 entries, expected 2"),
        (tuple[int, ...], (1, 2, 3), (1, "a"), r"\[1\] is a str, expected int"),
        (dict[str, int], {"a": 1}, {1: 1}, "has the key 1, expected str"),
        (float | None, 3, True, "is a bool, expected float or None"),
        (float, np.float64(2), "2", "is a str, expected float"),
        (int | None, None, "a", "is a str, expected int or None"),
        (Any, ({"a": torch.zeros(1)}, None), [1], "Expected the reply to be a tensor"),
        (Any, 1, torch.tensor(math.nan), "not finite"),
        (Annotated[Tensor, Shape("features", 2)], torch.zeros(3, 2), torch.zeros(2, 3), r"expected \(features=3, 2\)"),
        (
            Annotated[Tensor, Shape(("classes", "registered"))],
            torch.zeros(3),
            torch.zeros(2),
            "classes=3 or registered=3",
        ),
        (Annotated[Tensor, Shape(2, "sample")], torch.zeros(2, 3), torch.zeros(2, 4), r"expected \(2, 3\)"),
        (Annotated[Tensor, Triangle("features")], torch.zeros(9), torch.zeros(6), r"expected \(9,\) for features=3"),
        (Annotated[Tensor, Kind(torch.int64)], ints([1]), ints([1.0]), "float32, expected torch.int64"),
        (Annotated[Tensor, Kind("kind")], ints([1], dtype=torch.int8), ints([1.0]), "expected whole numbers"),
        (Annotated[Tensor, Kind("sample")], ints([1.0]), ints([1]), "expected torch.float32"),
        (Annotated[Tensor, LikeOwn("own")], ints([1, 2]), ints([1]), r"expected \(2\)"),
        (Annotated[int, Range(0, "samples")], 1, 2, "has the number 2, expected at most 1"),
        (Annotated[int, Range(0)], 0, -1, "has the number -1, expected at least 0"),
        (Annotated[Tensor, Range(1)], torch.zeros(0), ints([1, 0]), "expected at least 1"),
        (Annotated[Tensor, Within("held * 2")], ints([-6, 6]), ints([-7, 6]), "has the number 7, expected at most 6"),
        (Annotated[Tensor, Total("held")], ints([1, 2]), ints([2, 2]), "adds up to 4, expected at most 3"),
        (Annotated[int, Equal("client")], 1, 0, "is 0, expected 1"),
        (Annotated[Tensor, Each(Range(0), Range(0, 9))], ints([99, 9]), ints([0, 10]), "expected at most 9"),
        (
            Annotated[Tensor, Labels()],
            ints([2, 2]),
            ints([2, 1]),
            "has the class 1, which the client has not",
        ),
        (Annotated[Tensor, ByClass()], ints([0, 5, 5]), ints([1, 0, 0]), "tells of the class 0"),
        (LIKE, WEIGHTS, {"w": WEIGHTS["w"]}, "without b"),
        (LIKE, WEIGHTS, WEIGHTS | {"x": torch.zeros(1)}, "with x"),
        (
            LIKE,
            WEIGHTS,
            WEIGHTS | {"b": torch.zeros(3)},
            r"'b' that has the shape \(3,\)",
        ),
        (LIKE, WEIGHTS, WEIGHTS | {"b": torch.zeros(2).double()}, "float64, expected"),
        (LIKE_NAMES, {"w": torch.ones(2, 3)}, WEIGHTS, "with b"),
        (
            LONGER,
            {"w": torch.ones(7, 3)},
            {"w": torch.ones(7)},
            "7",
        ),
        (
            Pair,
            Pair(torch.zeros(1, 3), ints([2])),
            Pair(torch.zeros(2, 3), ints([2])),
            r"labels has the shape \(1,\)",
        ),
        (Pair, Pair(torch.zeros(1, 3), ints([2])), Pair(torch.zeros(2, 3), ints([2, 2])), "not distinct and ascending"),
        (Pair, Pair(torch.zeros(0, 3), ints([], dtype=torch.int64)), {"rows": 1}, "is a dict, expected Pair"),
    ],
)
def test_what_is_declared_is_let_in_and_what_is_not_is_named(annotation: Any, good: Any, bad: Any, words: str) -> None:
    assert complaint(annotation, good, facts(message=MESSAGE)) is None
    found = complaint(annotation, bad, facts(message=MESSAGE))
    with pytest.raises(UserError, match=words):
        raise UserError(found or "nothing was found")


def test_variances_that_batch_norm_remembers_are_not_negative() -> None:
    sent = (Sent(1, {"norm.running_var": torch.ones(2)}),)
    reply = {"norm.running_var": torch.tensor([1.0, -1.0])}
    found = complaint(LIKE, reply, facts(message=sent))
    assert "negative variance" in (found or "")


def test_a_client_without_samples_has_nothing_to_say_where_that_is_declared() -> None:
    declared = Annotated[StateDict, Like("weights", or_empty=True)]
    nothing = facts(message=MESSAGE)
    nothing.samples = 0
    assert complaint(declared, {}, nothing) is None
    assert "no samples" in (complaint(declared, WEIGHTS, nothing) or "")
    assert "without b" in (complaint(declared, {}, facts(message=MESSAGE)) or "")


def test_a_state_dict_that_is_the_message_itself_is_found() -> None:
    declared = LIKE
    assert complaint(declared, WEIGHTS, facts(message=(WEIGHTS,))) is None
    assert "without b" in (complaint(declared, {"w": torch.zeros(2, 3)}, facts(message=(WEIGHTS,))) or "")
    assert complaint(declared, {"any": torch.zeros(1)}, facts(message=(7,))) is None  # nothing to compare with


@given(some.integers(0, 2**32 - 1), some.integers(1, 200), some.booleans())
def test_no_gram_matrix_is_ever_refused(seed: int, size: int, whole_numbers: bool) -> None:
    random = np.random.default_rng(seed)
    scale = 10.0 ** random.integers(-6, 6)
    rows = (
        random.integers(-127, 128, (random.integers(0, 30), size))
        if whole_numbers
        else scale * random.normal(size=(random.integers(0, 30), size))
    )
    gram = torch.from_numpy(rows.T @ rows)
    packed = linalg.triangle_of(gram)
    method = SimpleNamespace(size=size)
    for value in (gram, packed):
        assert Gram("size").complaint(value, Facts(method, (), STREAM, 0, 0)) is None


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], "not positive semi-definite"),
        ([[1.0, -2.0], [-2.0, 1.0]], "not positive semi-definite"),
        ([[-1.0, 0.0], [0.0, 1.0]], "has the number -1, expected at least 0, on its diagonal"),
        ([[9.0, 0.0], [0.0, 1.0]], "has the number 9, expected at most 6, on its diagonal"),
        ([[1.0, 0.5], [0.25, 1.0]], "is not symmetric"),
    ],
)
def test_what_cannot_be_a_gram_matrix_is_refused(matrix: list[list[float]], words: str) -> None:
    method = SimpleNamespace(size=2)
    found = Gram("size", largest="held * 2").complaint(torch.tensor(matrix), Facts(method, (), STREAM, 1, 1))
    assert words in (found or "")


def test_a_factor_tells_what_the_diagonal_does_not() -> None:
    """All 2 x 2 minors of this matrix are positive, but an eigenvalue is 1 - 2 x 0.9 = -0.8."""
    matrix = torch.tensor([[1.0, -0.9, -0.9], [-0.9, 1.0, -0.9], [-0.9, -0.9, 1.0]], dtype=torch.float64)
    assert Gram("features").complaint(matrix, facts()) is None
    assert Gram("features", definite=True).complaint(matrix, facts()) == "is not positive definite"
    assert Gram("features", definite=True).complaint(matrix.abs() + torch.eye(3), facts()) is None


def test_of_noisy_replies_the_form_is_checked_and_of_masked_ones_also_the_type() -> None:
    declared = Annotated[Tensor, Shape(("classes", 1)), Kind(torch.float64), Range(0)]
    negative = -torch.ones(3, dtype=torch.float64)
    assert complaint(declared, negative, facts(), "noise") is None
    assert "expected at least 0" in (complaint(declared, negative, facts(), "values") or "")
    assert "shape" in (complaint(declared, negative[:2], facts(), "noise") or "")
    masked = torch.full((3,), -(2**31), dtype=torch.int32)
    assert complaint(declared, masked, facts(masked=torch.int32), "masks") is None
    assert "expected torch.int32" in (complaint(declared, masked.long(), facts(masked=torch.int32), "masks") or "")
    assert "shape" in (complaint(declared, masked[:1], facts(masked=torch.int32), "masks") or "")


def test_a_name_that_nobody_knows_is_told_to_the_author() -> None:
    with pytest.raises(UserError, match="declared with the name 'featurs', which is neither an attribute"):
        complaint(Annotated[Tensor, Shape("featurs")], torch.zeros(1), facts())


def test_a_reply_without_end_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["more"] = endless
    assert "cannot be read (RecursionError" in (complaint(Any, endless, facts()) or "")


def test_a_function_without_an_annotation_may_reply_anything() -> None:
    def bare(self, client):
        return None

    def unknown(self, client) -> "NowhereToBeFound":  # noqa: F821
        return None

    assert declared_reply(bare) is Any
    assert declared_reply(unknown) is Any


def test_the_norm_is_that_of_all_tensors_together() -> None:
    assert norm({"a": torch.tensor([3.0]), "b": (torch.tensor([[0, 4]]), 100)}) == 5.0
