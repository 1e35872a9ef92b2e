from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fcl_bench.backbone import BackboneSource
from fcl_bench.config.compose import composed
from fcl_bench.data.feature_scale import factor_for
from fcl_bench.data.inputs import Inputs
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.run.scenario import Scenario, materialise, plan

TINY = ("method=afcl", "dataset=gaussian", "limit_train=300", "limit_test=50", "stream.tasks=2")


def scenario(cache: Path, *overrides: str) -> Scenario:
    config = composed(*TINY, f"cache_dir={cache}", *overrides)
    return materialise(config, plan(config), lambda what: lambda done, total: None)


def test_features_of_both_halves_have_the_scale_of_those_for_training(tmp_path: Path) -> None:
    raw = scenario(tmp_path)
    scaled = scenario(tmp_path, "backbone.mean_norm=2.5")
    factor = 2.5 / np.linalg.norm(raw.train.tensor.numpy().astype(np.float64), axis=1).mean()
    for half in ("train", "test"):
        before = getattr(raw, half).tensor.numpy()
        np.testing.assert_allclose(getattr(scaled, half).tensor.numpy(), factor * before, rtol=0.005)
    norms = np.linalg.norm(scaled.train.tensor.numpy(), axis=1)
    assert norms.mean() == pytest.approx(2.5, rel=0.005)


def test_the_factor_has_three_digits_and_the_known_range_of_features_is_scaled_too(tmp_path: Path) -> None:
    rows = torch.tensor([[3.0, 4.0], [6.0, 8.0]])  # norms 5 and 10
    path = tmp_path / "rows.bin"
    path.write_bytes(rows.numpy().tobytes())
    inputs = Inputs(path, torch.float32, (2, 2))
    assert factor_for(inputs, 1.0) == 0.133
    source = BackboneSource("efficientnet_lite0", "bundled")
    assert source.for_methods((1280,), 0.5).inputs.high == 3.0
    assert source.for_methods((1280,)).inputs.high == 6.0
    assert replace(source, feature_range=8.0).for_methods((1280,), 0.5).inputs.low == -4.0


def test_what_has_no_scale_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"backbone.mean_norm=1 is the scale of features, but clients hold images"):
        BackboneSource("resnet18", mean_norm=1.0, trainable=True)
    path = tmp_path / "zeros.bin"
    path.write_bytes(bytes(16))
    with pytest.raises(UserError, match=r"cannot scale features that are all zero: set backbone.mean_norm=null"):
        factor_for(Inputs(path, torch.float32, (2, 2)), 1.0)
