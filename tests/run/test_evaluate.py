"""Predictions, and what is said of a classifier that does not keep the contract."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fcl_bench.errors import UserError
from fcl_bench.run.evaluate import answer, predict
from fcl_bench.stream import Task

TASK = Task(index=1, registrations=(), known=(), new=(2,), seen=3)
ORDER = np.array([7, 5, 9, 4])  # the last class comes in a later task


class Returns(nn.Module):
    """A classifier that gives the same answer to all inputs, one row for each."""

    def __init__(self, row: Any):
        super().__init__()
        self.row = row

    def forward(self, inputs: torch.Tensor) -> Any:
        return self.row.expand(len(inputs), -1) if isinstance(self.row, torch.Tensor) else self.row


def test_the_best_score_gives_the_original_label() -> None:
    inputs = torch.eye(3).repeat(700, 1)  # more than one batch
    predicted = predict(nn.Identity(), inputs, ORDER, TASK)
    np.testing.assert_array_equal(predicted, np.tile([7, 5, 9], 700))


def test_without_classes_and_without_inputs() -> None:
    nothing_seen = Task(index=0, registrations=(), known=(), new=(), seen=0)
    np.testing.assert_array_equal(predict(nn.Identity(), torch.zeros(4, 0), ORDER, nothing_seen), [-1] * 4)
    assert predict(nn.Identity(), torch.zeros(0, 3), ORDER, TASK).shape == (0,)


def test_the_confidence_is_the_softmax_of_the_best_score() -> None:
    scores = torch.tensor([[0.0, 0.0, 0.0], [3.0, 1.0, -1.0], [900.0, 0.0, 0.0]])
    expected = [1 / 3, math.exp(3) / (math.exp(3) + math.exp(1) + math.exp(-1)), 1.0]
    for kind in (torch.float32, torch.float64, torch.int64):
        given = scores.to(kind)
        assert answer(nn.Identity(), given, ORDER, TASK).confidences == pytest.approx(expected)
    nothing_seen = Task(index=0, registrations=(), known=(), new=(), seen=0)
    np.testing.assert_array_equal(answer(nn.Identity(), torch.zeros(4, 0), ORDER, nothing_seen).confidences, [0] * 4)


@pytest.mark.parametrize(
    ("classifier", "sentence"),
    [
        (None, "the method's classifier is None: classifier(state) must return a torch.nn.Module."),
        (torch.zeros(2, 3), "the method's classifier is a tensor of shape (2, 3): classifier(state) must return a "),
        (len, "the method's classifier is an object of type builtin_function_or_method: classifier(state) must return"),
        (
            Returns(None),
            "the method's classifier returns None for 5 inputs: expected scores of shape (5, 3), a column ",
        ),
        (Returns([0]), "the method's classifier returns an object of type list for 5 inputs: expected scores of shape"),
        (
            Returns(torch.zeros(1, 2)),
            "the method's classifier returns a tensor of shape (5, 2) for 5 inputs: expected scores of shape (5, 3), "
            "a column for each class seen so far.",
        ),
        (Returns(torch.zeros(1, 4)), "the method's classifier returns a tensor of shape (5, 4) for 5 inputs: expected"),
        (
            Returns(torch.tensor([[0.0, torch.inf, 1.0]])),
            "the method's classifier returns scores that are not finite, so the training has diverged: lower "
            "method.lr, or set local.gradient_clip=1.",
        ),
    ],
)
def test_a_classifier_that_breaks_the_contract_is_named(classifier: Any, sentence: str) -> None:
    with pytest.raises(UserError) as raised:
        predict(classifier, torch.zeros(5, 8), ORDER, TASK)
    assert str(raised.value).startswith(f"After task 2 {sentence}")
    assert raised.value.exit_code == 1
