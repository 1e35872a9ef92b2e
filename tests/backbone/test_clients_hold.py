"""A frozen backbone may stay with the clients: they hold images, and the method computes the features."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Outcome, command

SMALL = ("backbone=timm", "backbone.name=test_efficientnet", "backbone.weights=none", "backbone.input_size=32")
SHORT = ("limit_train=60", "limit_test=40", "stream.tasks=2", "partition.clients=2")


def run(tmp_path: Path, *words: str) -> Outcome:
    folders = (f"output_dir={tmp_path / 'runs'}", f"cache_dir={tmp_path / 'cache'}")
    return command(*SMALL, *SHORT, *folders, *words)


def test_a_method_learns_the_same_from_images_as_from_features(tmp_path: Path) -> None:
    words = ("method=finetune", "method.rounds=1", "method.epochs=1", "method.lr=0.1")
    features = run(tmp_path, *words)
    images = run(tmp_path, *words, "backbone.clients_hold=images")
    assert (features.code, images.code) == (0, 0), features.err + images.err
    assert "inputs 3x32x32\n" in images.out
    assert images.result["track"] == "frozen"
    assert features.result["run_id"] != images.result["run_id"]
    np.testing.assert_array_equal(features.predictions, images.predictions)
    assert len(np.unique(images.predictions)) > 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("method=afcl", "backbone.clients_hold=images"),
            "Expected clients to hold features for method=afcl, which learns on them, "
            "but got backbone.clients_hold=images: set backbone.clients_hold=features.",
        ),
        (
            ("method=finetune", "backbone.trainable=true", "backbone.clients_hold=features"),
            "backbone.trainable=true trains on images, but backbone.clients_hold=features: "
            "set backbone.clients_hold=images, or backbone.trainable=false.",
        ),
        (
            ("method=finetune", "backbone.clients_hold=pixels"),
            "Expected backbone.clients_hold to be one of images, features, but got 'pixels'.",
        ),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_what_clients_cannot_hold_is_refused(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    refused = run(tmp_path, *words)
    assert (refused.code, refused.err) == (2, f"fcl_bench: {message}\n")
    assert not (tmp_path / "runs").exists()
