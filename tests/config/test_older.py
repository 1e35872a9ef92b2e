"""Settings of records that earlier versions have written."""

from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, read_json
from omegaconf import OmegaConf

from fcl_bench.config.compose import check, composed
from fcl_bench.config.older import check_recorded, present
from fcl_bench.config.run_id import settings_hash
from fcl_bench.errors import ConfigError

PUBLISHED = sorted((ROOT / "results").rglob("result.json"))


def one_of_each_form() -> list[Path]:
    """Records of the same settings, whatever their values, are alike."""
    forms: dict[Any, Path] = {}
    for path in PUBLISHED:
        result = read_json(path)
        flat = OmegaConf.create(result["config"])
        kinds = tuple(str(flat[group].get("_target_")) for group in ("method", "backbone"))
        forms.setdefault((result["method"], kinds, tuple(flat.method), tuple(flat)), path)
    return list(forms.values())


@pytest.mark.parametrize("path", one_of_each_form(), ids=lambda path: f"{path.parents[1].name}-{path.parent.name}")
def test_the_settings_of_every_published_record_say_the_same_today(path: Path) -> None:
    result = read_json(path)
    today = present(OmegaConf.create(result["config"]), result["method"])
    check_recorded(today)
    assert settings_hash(OmegaConf.to_container(today)) == settings_hash(result["config"])  # type: ignore[arg-type]


def test_a_record_counts_as_it_is_whatever_was_tuned_since() -> None:
    config = composed("method=fedncm", "protocol=frozen_v2")
    config.settings.trials = 7  # as of another tuning
    with pytest.raises(ConfigError, match=r"settings=tuned fixes settings\.trials=0, but got 7"):
        check(config)
    check_recorded(config)
    config.method.min_count = 0
    with pytest.raises(ConfigError, match=r"Expected method\.min_count to be greater than 0, but got 0"):
        check_recorded(config)


def test_the_record_that_was_given_is_not_changed() -> None:
    given = OmegaConf.create({"method": {"_target_": "fcl_bench.methods.afcl.AFCL"}})
    present(given, "afcl")
    assert given == {"method": {"_target_": "fcl_bench.methods.afcl.AFCL"}}


@pytest.mark.parametrize(
    ("group", "settings", "now"),
    [
        ("method", {"name": "afcl", "_target_": "old.place.Renamed"}, "fcl_bench.methods.afcl.AFCL"),
        (
            "backbone",
            {"name": "resnet50", "_target_": "fcl_bench.old.BackboneConfig"},
            "fcl_bench.backbone.BackboneSource",
        ),
        ("federation", {"_target_": "fcl_bench.old.Participation"}, "fcl_bench.federation.Participation"),
        ("partition", {"name": "mine", "_target_": "somewhere.Dirichlet"}, "fcl_bench.partition.Dirichlet"),
        ("partition", {"name": "mine", "_target_": "somewhere.Mine"}, "somewhere.Mine"),
    ],
)
def test_a_class_that_has_moved_is_found_by_its_name(group: str, settings: dict[str, str], now: str) -> None:
    assert present(OmegaConf.create({group: settings}), "afcl")[group]["_target_"] == now


def test_what_the_method_did_before_a_setting_existed_is_what_it_does() -> None:
    """AFCL computes with whole numbers today; before it could, it computed in float64."""
    method = {"_target_": "fcl_bench.methods.afcl.AFCL", "name": "afcl", "gamma": 1.0, "form": "statistics"}
    today = present(OmegaConf.create({"method": method}), "afcl")
    assert today.method.arithmetic == "float64"
    assert "aggregation" not in today.method
    assert (today.threads, today.privacy.name) == (None, "none")
    method["arithmetic"] = "integer"
    assert present(OmegaConf.create({"method": method}), "afcl").method.arithmetic == "integer"


def test_a_setting_that_is_not_neutral_stays_missing() -> None:
    result = read_json(PUBLISHED[0])
    del result["config"]["seed"]
    with pytest.raises(ConfigError, match="No seed was given"):
        check(present(OmegaConf.create(result["config"]), result["method"]))
