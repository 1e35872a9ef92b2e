import random
from contextlib import suppress

import numpy as np
import pytest
import torch

from fcl_bench.seeds import derive, generator, seeded


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), torch.rand(1).item()  # noqa: NPY002


def test_derived_seeds_have_63_bits_and_spread_over_them() -> None:
    values = [derive(seed, "client", client) for seed in range(20) for client in range(50)]
    assert len(set(values)) == 1000
    assert 0 <= min(values) < 2**55
    assert 2**62 < max(values) < 2**63


def test_derive_takes_numpy_integers_for_what_they_are_and_refuses_other_numbers() -> None:
    assert derive(np.int64(3), np.int64(4)) == derive(3, 4)
    with pytest.raises(TypeError):
        derive(3, 4.0)


def test_generators_of_different_names_differ() -> None:
    assert generator(0, "train").random() != generator(0, "test").random()


def test_seeded_decides_all_three_generators() -> None:
    with seeded(5):
        first = draws()
    with seeded(6):
        other = draws()
    with seeded(5):
        again = draws()
    assert first == again
    assert all(one != two for one, two in zip(first, other, strict=True))


def test_seeded_leaves_no_trace_even_nested_and_after_an_error() -> None:
    with seeded(1):
        expected = [draws(), draws()]
    with seeded(1):
        before = draws()
        with suppress(ZeroDivisionError), seeded(2):
            np.random.seed(0)  # noqa: NPY002 (a method may do so)
            with seeded(3):
                draws()
            1 / 0  # noqa: B018
        assert [before, draws()] == expected
