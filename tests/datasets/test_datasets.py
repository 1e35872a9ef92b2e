"""The data sets that need no files, the fixed split, and the configurations of all."""

import importlib
import inspect
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import yaml
from hydra import compose, initialize_config_dir
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from fcl_bench.config.compose import HINTS
from fcl_bench.dataset import Dataset
from fcl_bench.datasets.digits import digits
from fcl_bench.datasets.gaussian import gaussian
from fcl_bench.datasets.ordering import hold_out
from fcl_bench.errors import ConfigError

CONFIGS = Path(__file__).parents[2] / "configs" / "dataset"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_config_fits_its_function(path: Path) -> None:
    assert path.read_text().startswith("# ")
    config = yaml.safe_load(path.read_text())
    module, _, function = config.pop("_target_").rpartition(".")
    arguments = inspect.signature(getattr(importlib.import_module(module), function)).parameters
    assert set(config) - {"defaults", *HINTS} == set(arguments)
    assert config["name"] == path.stem
    assert config["data_dir"] == "${data_dir}"
    assert "input_size" in config


def test_gaussian_config_selects_no_backbone(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("defaults: [backbone: lite, dataset: other, _self_]\ndata_dir: data\n")
    for name, text in {"backbone/lite": "name: lite", "backbone/none": "name: none", "dataset/other": "a: 1"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.yaml").write_text(text)
    shutil.copy(CONFIGS / "gaussian.yaml", tmp_path / "dataset")
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        assert compose("config").backbone.name == "lite"
        assert compose("config", ["dataset=gaussian"]).backbone.name == "none"
        assert compose("config", ["dataset=gaussian", "backbone=lite"]).backbone.name == "lite"


@given(st.lists(st.integers(0, 4), max_size=60), st.sampled_from([0.1, 0.2, 0.25, 0.29, 0.5]))
def test_hold_out_takes_the_share_of_each_class(classes: list[int], ratio: float) -> None:
    labels = np.array(classes, dtype=np.int64)
    mask = hold_out(labels, ratio)
    assert mask.sum() == int(len(labels) * round(ratio * 100) // 100)
    for label in set(classes):
        assert abs(mask[labels == label].sum() - ratio * np.sum(labels == label)) < 1


def test_digits(tmp_path: Path) -> None:
    dataset = digits(name="digits", data_dir=tmp_path)
    assert (len(dataset.train.labels), len(dataset.test.labels)) == (1438, 359)
    images, labels = load_digits(return_X_y=True)
    embedded = {(image.astype(int).tobytes(), label) for image, label in zip(images, labels, strict=True)}
    seen = []
    for half in (dataset.train, dataset.test):
        images = half.read(np.arange(len(half.labels))).numpy()
        assert images.dtype == np.uint8
        assert images.shape[1:] == (3, 8, 8)
        assert np.array_equal(images[:, 0], images[:, 1])
        assert np.array_equal(images[:, 0], images[:, 2])
        grey = np.rint(images[:, 0].reshape(-1, 64) / 255 * 16).astype(int)
        seen += [(image.tobytes(), label) for image, label in zip(grey, half.labels, strict=True)]
        assert np.ptp(np.bincount(half.labels) / len(half.labels)) < 0.01
    assert set(seen) == embedded
    assert len(seen) == 1797
    assert digits(name="digits", data_dir=tmp_path).fingerprint == dataset.fingerprint


def make_gaussian(**changes: object) -> Dataset:
    keys = {"classes": 5, "train_size": 1003, "test_size": 500, "features": 40, "separation": 6.0, "data_seed": 3}
    return gaussian(name="gaussian", data_dir=Path(), **keys | changes)


def test_gaussian_reads_the_same_values_in_any_company() -> None:
    train = make_gaussian().train
    whole = train.read(np.arange(1003))
    assert whole.shape == (1003, 40)
    assert whole.dtype.is_floating_point
    assert whole.element_size() == 4
    for indices in (np.array([1002, 0, 17, 0, 16]), np.random.default_rng(0).permutation(1003), np.array([], int)):
        assert np.array_equal(train.read(indices), whole[indices])
    assert not np.array_equal(make_gaussian().test.read(np.arange(5)), whole[:5])


def test_gaussian_clouds_have_the_stated_shape() -> None:
    dataset = make_gaussian(features=400, train_size=4000)
    features, labels = dataset.train.read(np.arange(4000)).numpy(), dataset.train.labels
    assert np.bincount(labels).tolist() == [800] * 5
    assert set(labels[:40]) == {0, 1, 2, 3, 4}
    means = np.stack([features[labels == label].mean(0) for label in range(5)])
    distances = [np.linalg.norm(means[i] - means[j]) for i in range(5) for j in range(i)]
    assert np.mean(distances) == pytest.approx(6, rel=0.1)
    assert (features - means[labels]).std() == pytest.approx(1, rel=0.01)
    test = dataset.test.read(np.arange(500)).numpy()
    nearest = np.argmin(((test[:, None] - means) ** 2).sum(2), axis=1)
    assert np.mean(nearest == dataset.test.labels) > 0.95


def test_gaussian_of_a_million_is_not_held_in_memory() -> None:
    tracemalloc.start()
    dataset = make_gaussian(train_size=1_000_000, features=512, classes=500)
    dataset.train.read(np.arange(999_000, 1_000_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6


def test_gaussian_fingerprint_and_errors() -> None:
    assert make_gaussian().fingerprint == make_gaussian().fingerprint
    assert make_gaussian().fingerprint != make_gaussian(data_seed=4).fingerprint
    with pytest.raises(ConfigError, match=r"at least dataset\.classes=5, but got 1003 and 4"):
        make_gaussian(test_size=4)
