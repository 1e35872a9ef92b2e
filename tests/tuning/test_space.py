"""Search spaces: what is refused, and which values trials have."""

from collections import Counter
from math import log

import numpy as np
import pytest

from fcl_bench.config.catalogue import names
from fcl_bench.errors import ConfigError
from fcl_bench.tuning.space import Choices, Range, read_space, values_of
from fcl_bench.tuning.subject import subject

RANGE = {"low": 0.1, "high": 1, "scale": "log"}
WRONG = [
    (3, r"Expected method\.search to name settings and their ranges, but got 3\."),
    ({"lr": 3}, r"Expected method\.search\.lr to have choices, or low, high and scale, but got 3\."),
    ({"lr": {}}, r"Expected method\.search\.lr to have choices, or low, high and scale, but got \{\}\."),
    ({"lr": {**RANGE, "choices": [1]}}, r"Expected method\.search\.lr to have choices, or low, high and scale"),
    ({"lr": {**RANGE, "step": 1}}, r"Expected method\.search\.lr to have choices, or low, high and scale"),
    ({"lr": {"choices": []}}, r"lr\.choices to be a list of one value or more, but got \[\]\."),
    ({"lr": {"choices": 1}}, r"lr\.choices to be a list of one value or more, but got 1\."),
    ({"lr": {"low": 0.1, "high": 1}}, r"lr\.scale to be one of linear, log, but got None\."),
    ({"lr": {**RANGE, "scale": "loq"}}, r"lr\.scale to be one of linear, log, but got 'loq'\."),
    ({"lr": {"low": 0.1, "scale": "log"}}, r"lr\.high to be a number, but got None\."),
    ({"lr": {**RANGE, "low": "a"}}, r"lr\.low to be a number, but got 'a'\."),
    ({"lr": {**RANGE, "low": True}}, r"lr\.low to be a number, but got True\."),
    ({"lr": {**RANGE, "high": float("inf")}}, r"lr\.high to be a number, but got inf\."),
    ({"lr": {**RANGE, "low": 1}}, r"lr\.low to be below method\.search\.lr\.high=1, but got 1\."),
    ({"lr": {**RANGE, "low": 0}}, r"lr\.low to be above 0, as its scale is log, but got 0\."),
]


@pytest.mark.parametrize(("search", "sentence"), WRONG)
def test_a_wrong_entry_is_told_in_one_sentence(search: object, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        read_space(search)


def test_what_is_null_is_left_alone() -> None:
    assert read_space({"lr": RANGE, "mu": None, "form": {"choices": ["a"]}}) == {
        "lr": Range(0.1, 1.0, "log"),
        "form": Choices(("a",)),
    }


@pytest.mark.parametrize(("scale", "even"), [("log", log), ("linear", float)])
def test_sixteen_points_are_spread_evenly(scale: str, even: type) -> None:
    """A net in base 2: each sixteenth of the range has one point, and each of four choices is tried four times."""
    space = {"a": Range(0.001, 10.0, scale), "b": Choices((1, 2, 3, 4))}
    points = [values_of(space, 0, "m", trial) for trial in range(1, 17)]
    low, high = even(0.001), even(10.0)
    places = [(even(point["a"]) - low) / (high - low) for point in points]
    assert sorted(np.floor(np.array(places) * 16 + 1e-3).astype(int)) == list(range(16))
    assert Counter(point["b"] for point in points) == {1: 4, 2: 4, 3: 4, 4: 4}
    assert len({(point["b"], place >= 0.5) for point, place in zip(points, places, strict=True)}) == 8


def test_a_trial_depends_on_seed_method_space_and_number_alone() -> None:
    space = {"a": Range(0.0, 1.0, "linear"), "b": Range(1.0, 9.0, "log")}
    other_order = dict(reversed(space.items()))
    for trial in (1, 2, 7, 30):
        values = values_of(space, 0, "m", trial)
        assert values == values_of(other_order, 0, "m", trial)
        assert values != values_of(space, 1, "m", trial)
        assert values != values_of(space, 0, "other", trial)
    assert len({str(values_of(space, 0, "m", trial)) for trial in range(1, 64)}) == 63


def test_a_value_has_few_digits_and_stays_within_its_bounds() -> None:
    bounds = Range(0.12345, 0.54321, "linear")
    assert [bounds.at(place) for place in (0.0, 0.5, 1.0)] == [0.12345, 0.333, 0.543]
    assert Choices(("a", "b")).at(1.0) == "b"


@pytest.mark.parametrize("method", names("method"))
def test_the_space_of_every_method_fits_it(method: str) -> None:
    """Its defaults, the ends of its ranges and its choices pass the check of the configuration."""
    found = subject(method, ["~method.search.logit_adjustment"], 0)
    assert 1 <= len(found.space) <= 3 or method == "fedncm"
    assert ("lr" in found.space) == ("lr" in found.config.method and method != "joint")
    assert "search" not in found.config.method
    trials = found.trials(3)
    assert [trial.values for trial in trials[:1]] == [found.defaults][: len(trials)]
    assert len({trial.id for trial in trials}) == len(trials)
