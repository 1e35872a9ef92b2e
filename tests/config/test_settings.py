"""Where hyper-parameters come from: ``settings=tuned`` and ``settings=faithful``, alone and under a protocol."""

import re
from pathlib import Path

import plugin
import pytest
from conftest import Command, command
from omegaconf import OmegaConf

from fcl_bench.config.catalogue import config_file
from fcl_bench.config.compose import composed
from fcl_bench.config.load import load
from fcl_bench.config.protocol import published_seeds
from fcl_bench.config.run_id import run_id
from fcl_bench.config.settings import check_settings
from fcl_bench.errors import ConfigError

TUNED = """\
# @package _global_
# nearest_mean under frozen_v2: 7 trials
method:
  scale: 2.5
settings:
  name: tuned
  trials: 7
  hyperparameters: [scale]
"""
SEARCHED = """\
# A method that says what tune may search
defaults: [/training@_here_]
_target_: fcl_bench.methods.finetune.Finetune
name: searched
momentum: 3
search:
  lr: {low: 0.001, high: 1.0}
  optimizer.weight_decay: {low: 1e-6, high: 0.01}
"""
V2 = ("protocol=frozen_v2", "dataset=cifar100")
MINE = (*V2, "method=nearest_mean")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with a tuned method, and with one that was not tuned."""
    folder = plugin.install(tmp_path, monkeypatch, untuned=plugin.YAML + "name: untuned\n", searched=SEARCHED)
    tuned = folder / "configs" / "tuned" / "frozen_v2" / "nearest_mean.yaml"
    tuned.parent.mkdir(parents=True)
    tuned.write_text(TUNED)
    return folder


@pytest.mark.usefixtures("package")
def test_the_tuned_file_of_protocol_and_method_comes_with_the_protocol() -> None:
    config = composed(*MINE)
    assert config.settings == {"name": "tuned", "trials": 7, "hyperparameters": ["scale"]}
    assert (config.method.scale, config.protocol) == (2.5, "frozen_v2")
    assert composed(*MINE, "settings=tuned") == config
    assert "published" not in config
    faithful = composed(*MINE, "settings=faithful")
    assert (faithful.settings, faithful.method.scale) == ({"name": "faithful"}, 1.0)
    assert run_id(faithful) != run_id(config)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("word", ["stream.tasks=3", "partition.alpha=0.7", "seed=9", "stream=iid"])
def test_axes_of_a_comparison_stay_free(word: str) -> None:
    assert run_id(composed(*MINE, word)) != run_id(composed(*MINE))


@pytest.mark.parametrize("word", ["method.arithmetic=float64", "method.bits=9"])
def test_variants_of_a_tuned_method_stay_free(word: str) -> None:
    assert run_id(composed(*V2, "method=fedncm", word)) != run_id(composed(*V2, "method=fedncm"))


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["method.scale=3"], r"settings=tuned fixes method\.scale=2\.5, but got 3: leave this setting alone, or "),
        (["settings.trials=8"], r"settings=tuned fixes settings\.trials=7, but got 8: leave this setting alone, or "),
        (["settings.trials=many"], r"The setting settings\.trials is not as settings=tuned .*: choose one of them, "),
        (["+settings.note=x"], r"The setting settings\.note is not as settings=tuned .*: choose one of them, and "),
        (["settings=faithful", "+settings.trials=8"], r"settings=faithful fixes settings\.trials=None, but got 8: "),
        (["~settings"], r"protocol=frozen_v2 fixes settings=tuned or faithful, but got None: leave this setting alone"),
        (
            ["method=untuned"],
            r"Nothing was tuned for method=untuned under protocol=frozen_v2: run python -m fcl_bench ",
        ),
        (["+method.name=x"], r"Nothing was tuned for method=x under protocol=frozen_v2: run python -m fcl_bench tune "),
        (["settings=faithful", "+method.name=x"], r"there is none for method\.name=x: leave method\.name alone, or "),
        (["settings=best"], r"There is no settings 'best'; choose from: faithful, tuned\."),
        (["backbone.input_size=64"], r"protocol=frozen_v2 fixes backbone\.input_size=128, but got 64: leave this "),
    ],
)
def test_a_run_that_would_be_neither_is_refused(words: list[str], sentence: str) -> None:
    base = [word for word in MINE if word.partition("=")[0] not in {given.partition("=")[0] for given in words}]
    with pytest.raises(ConfigError, match=sentence):
        composed(*base, *words)


def test_tuned_settings_are_those_of_a_protocol() -> None:
    with pytest.raises(ConfigError, match="settings=tuned needs the protocol under which the method was tuned: add "):
        composed("method=fedncm", "settings=tuned")
    assert composed("method=fedncm", "settings=faithful").settings == {"name": "faithful"}


def test_the_first_protocol_stays_as_it_was() -> None:
    config = composed("protocol=frozen_v1", "method=fedncm")
    assert config.settings is None
    for choice in ("tuned", "faithful"):
        with pytest.raises(ConfigError, match=f"protocol=frozen_v1 fixes settings=null, but got {choice}: leave "):
            composed("protocol=frozen_v1", "method=fedncm", f"settings={choice}")


def test_a_method_without_hyper_parameters_is_tuned_in_no_trials() -> None:
    assert composed(*V2, "method=fedncm").settings == {"name": "tuned", "trials": 0, "hyperparameters": []}


@pytest.mark.usefixtures("package")
def test_faithful_settings_are_those_of_the_yaml_where_they_were_searched() -> None:
    words = ["method=searched", "settings=faithful"]
    check_settings(load(words))
    check_settings(load([*words, "method.optimizer.momentum=0.5"]))  # was not searched
    check_settings(load([*words, "dataset=digits", "method.lr=0.003"]))  # what the data set suggests
    with pytest.raises(ConfigError, match=r"settings=faithful fixes method\.lr=0\.01, but got 0\.003: leave this "):
        check_settings(load([*words, "dataset=cifar100", "method.lr=0.003"]))
    with pytest.raises(ConfigError, match=r"fixes method\.optimizer\.weight_decay=0\.0005, but got 0: leave this "):
        check_settings(load([*words, "method.optimizer.weight_decay=0"]))


@pytest.mark.usefixtures("package")
def test_an_experiment_does_not_outdo_what_was_tuned(package: Path) -> None:
    experiment = package / "configs" / "experiment" / "mine.yaml"
    experiment.parent.mkdir()
    experiment.write_text(
        "# @package _global_\n# An experiment of mine\ndefaults:\n  - override /method: nearest_mean\n"
        "  - override /protocol: frozen_v2\n\nmethod:\n  scale: 9.0\n"
    )
    assert composed("experiment=mine").method.scale == 2.5


def test_settings_count_in_a_run_id_only_where_they_are_chosen() -> None:
    config = composed("method=fedncm")
    before = OmegaConf.masked_copy(config, [key for key in config if key != "settings"])
    assert run_id(config) == run_id(before)
    assert run_id(composed("method=fedncm", "settings=faithful")) != run_id(config)


def test_a_protocol_names_its_seeds() -> None:
    assert published_seeds("frozen_v2") == [1, 2, 3, 4, 5]
    assert published_seeds("frozen_v1") == []
    assert published_seeds("of somebody else") == []


def test_the_second_protocol_is_the_first_one_but_for_what_its_description_names() -> None:
    first, second = (OmegaConf.create(config_file(f"protocol/{name}")) for name in ("frozen_v1", "frozen_v2"))
    for name in ("weights", "input_size", "trainable"):
        assert first.backbone[name] == second.backbone[name]
    assert list(first.defaults) == [choice for choice in second.defaults if choice in first.defaults]


def test_the_settings_are_in_the_record_and_in_the_header(tiny: Command) -> None:
    done = tiny("method=fedncm", "settings=faithful")
    assert done.code == 0, done.err
    assert done.result["config"]["settings"] == {"name": "faithful"}
    assert "faithful: as the YAML of the method has them" in done.out
    usual = tiny("method=fedncm")
    assert usual.result["config"]["settings"] is None
    assert "faithful" not in usual.out


def test_a_tuned_run_says_so_from_its_header_to_the_leaderboard(package: Path, tiny: Command) -> None:
    mine = package / "configs" / "protocol" / "mine.yaml"
    mine.parent.mkdir()
    mine.write_text(
        "# @package _global_\n# A protocol of mine\ndefaults:\n  - override /settings: tuned\n\n"
        "protocol: mine\npublished:\n  seeds: [1, 2]\n"
    )
    tuned = package / "configs" / "tuned"
    (tuned / "mine").mkdir()
    (tuned / "mine" / "nearest_mean.yaml").write_text(TUNED)
    done = tiny("method=nearest_mean", "protocol=mine")
    assert done.code == 0, done.err
    assert "tuned: scale in 7 trials" in done.out
    assert done.result["config"]["settings"] == {"name": "tuned", "trials": 7, "hyperparameters": ["scale"]}
    assert done.result["config"]["method"]["scale"] == 2.5
    table = command("leaderboard", str(done.folder)).out
    assert re.search(r"^nearest_mean tuned +1 of 2 .* 1 in 7 trials ", table, re.MULTILINE), table
    assert "mine publishes the seeds 1, 2, of which some are missing: 2 of nearest_mean tuned." in table


def test_a_sweep_may_go_over_both(tiny: Command) -> None:
    done = tiny("-m", "method=fedncm", "settings=tuned,faithful")
    assert "settings=tuned needs the protocol" in done.err
    assert "1 of 2 runs failed" in done.err
