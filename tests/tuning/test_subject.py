"""What a method is tuned with: words about its space, seeds, and what a protocol fixes."""

import pytest
from omegaconf import OmegaConf

from fcl_bench.config.compose import composed
from fcl_bench.config.protocol import check_protocol
from fcl_bench.config.run_id import run_id
from fcl_bench.errors import ConfigError
from fcl_bench.tuning.space import Choices, Range
from fcl_bench.tuning.subject import subject

NO_ADJUSTMENT = "~method.search.logit_adjustment"
WRONG = {
    "seed=1": "Tuning has seeds of its own, which no result is reported on: give --seed K instead of seed=",
    "limit_test=9": "Tuning never reads the test set: leave out limit_test=",
    "output_dir=a": "Tuning writes no run folders: give --out FOLDER instead of output_dir=",
    "method.search.lt.choices=[1]": "There is no setting 'method.lt' to search; method has: lr, ",
    "method.search.optimizer.momentu.choices=[1]": "There is no setting 'method.optimizer.momentu' to search; method.",
    "method.search.rounds.a.choices=[1]": "There is no setting 'method.rounds.a' to search; ",
    "method.search.lr.low=-1": "Expected method.search.lr.low to be above 0, as its scale is log, but got -1.",
    "method.search.lr.choices=[-1]": "Expected method.lr to be greater than 0, but got -1.",
    "method.search.lr.choices=1,2": "Expected one value in method.search.lr.choices=1,2: put several of them in ",
    "method.search.epochs={low: 1, high: 2, scale: linear}": "Expected method.epochs to be a valid integer, but ",
    "method.search.lr.choices=[": "Cannot read 'method.search.lr.choices=[': expected key=value, ",
}


@pytest.mark.parametrize(("word", "sentence"), WRONG.items())
def test_a_wrong_word_is_told_in_one_sentence(word: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        subject("finetune", [NO_ADJUSTMENT, word], 0)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize("seed", [-1, 1_000_000])
def test_seeds_stay_in_their_range(seed: int) -> None:
    with pytest.raises(ConfigError, match=f"Expected --seed to be a number from 0 to 999999, but got {seed}"):
        subject("afcl", [], seed)


def test_streams_have_seeds_of_their_own() -> None:
    assert [subject("afcl", [], seed).config.seed for seed in (0, 5)] == [1_000_000, 1_000_005]


@pytest.mark.parametrize(
    ("words", "space"),
    [
        (["method.search.gamma.low=1"], {"gamma": Range(1.0, 1000.0, "log")}),
        (["method.search.gamma.choices=[1,10]"], {"gamma": Choices((1, 10))}),
        (["method.search.gamma={choices: [2]}"], {"gamma": Choices((2,))}),
        (["method.search={arithmetic: {choices: [integer]}}"], {"arithmetic": Choices(("integer",))}),
        (["~method.search", "method.search.bits.choices=[7,16]"], {"bits": Choices((7, 16))}),
        (["~method.search.gamma"], {}),
        (["method.search.gamma=null"], {}),
        (
            [f"method.search.gamma.{word}" for word in ("choices=[1]", "low=1", "high=2", "scale=linear")],
            {"gamma": Range(1.0, 2.0, "linear")},
        ),
    ],
)
def test_words_change_the_space(words: list[str], space: object) -> None:
    assert subject("joint", words, 0).space == space


def test_a_setting_within_a_group_can_be_searched() -> None:
    words = ["~method.search", "method.search.optimizer.momentum.choices=[0.5]"]
    found = subject("finetune", words, 0)
    assert found.defaults == {"optimizer.momentum": 0.9}
    assert found.trials(2)[1].config.method.optimizer.momentum == 0.5
    assert found.config.method.optimizer.momentum == 0.9


def test_where_values_are_searched_is_no_setting_of_a_run() -> None:
    config = composed("method=afcl")
    assert "search" not in config.method
    written = OmegaConf.to_container(config, resolve=True)
    assert run_id(config) == run_id(OmegaConf.create(written))
    with pytest.raises(ConfigError, match=r"Only python -m fcl_bench tune reads method\.search\.gamma\.low: leave it "):
        composed("method=afcl", "method.search.gamma.low=1")


def test_a_protocol_fixes_the_budget_but_not_what_is_searched() -> None:
    words = ["protocol=frozen_v1", NO_ADJUSTMENT]
    assert subject("finetune", words, 0).config.protocol == "frozen_v1"
    with pytest.raises(ConfigError, match=r"protocol=frozen_v1 fixes method\.rounds=20, but got 3"):
        subject("finetune", [*words, "method.rounds=3"], 0)
    with pytest.raises(ConfigError, match=r"protocol=frozen_v1 fixes method\.epochs=5, but got 7"):
        subject("finetune", [*words, "method.epochs=7"], 0)
    with pytest.raises(ConfigError, match=r"protocol=frozen_v1 fixes method\.epochs=5, but got 7"):
        subject("finetune", [*words, "method.search.epochs.choices=[5,7]"], 0)


def test_what_is_free_is_a_setting_or_all_of_a_group() -> None:
    config = composed("method=afcl", "protocol=frozen_v1")
    config.backbone.input_size = 64
    for free in ([], ["back"], ["backbone.input"], ["backbone.weights"]):
        with pytest.raises(ConfigError, match=r"fixes backbone\.input_size=128, but got 64"):
            check_protocol(config, free)
    check_protocol(config, ["backbone"])
    check_protocol(config, ["backbone.input_size"])
