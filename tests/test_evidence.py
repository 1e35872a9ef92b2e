"""Evidence: equal hashes mean equal answers, in whatever order classes were registered."""

import hashlib

import numpy as np
import torch

from fcl_bench import Evidence, Scores
from fcl_bench.evidence import digest, hashes

CROSS = torch.tensor([[1, 2], [3, 4], [5, 6]])
WEIGHTS = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])


def of_order(order: list[int]) -> dict[str, str]:
    """Of the same three classes, numbered in another order; ``order`` are their labels."""
    evidence = Evidence({"gram": torch.ones(3)}, {"cross": CROSS[order]})
    return hashes(evidence, Scores(WEIGHTS[:, order]), np.array(order))


def test_the_order_of_registration_does_not_matter() -> None:
    assert of_order([0, 1, 2]) == of_order([2, 0, 1])


def test_every_number_matters() -> None:
    expected = of_order([0, 1, 2])
    other = hashes(Evidence({"gram": torch.ones(3)}, {"cross": CROSS}), Scores(WEIGHTS + 1e-7), np.arange(3))
    assert other["statistics"] == expected["statistics"]
    assert other["weights"] != expected["weights"]
    swapped = hashes(Evidence({"gram": torch.ones(3)}, {"cross": CROSS}), Scores(WEIGHTS), np.array([1, 0, 2]))
    assert swapped["statistics"] != expected["statistics"]


def test_a_digest_is_the_sha256_of_names_types_shapes_and_numbers() -> None:
    content = b"n torch.int64 (2,)" + np.array([1, -2]).astype("<i8").tobytes()
    assert digest({"n": torch.tensor([1, -2], dtype=torch.int16)}) == hashlib.sha256(content).hexdigest()


def test_zero_has_no_sign() -> None:
    assert digest({"w": torch.tensor([-0.0])}) == digest({"w": torch.tensor([0.0])})
