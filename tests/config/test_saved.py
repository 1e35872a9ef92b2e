"""Settings in run folders: plain values, whoever wrote them."""

import time
from pathlib import Path

import pytest
from conftest import command
from omegaconf import OmegaConf

from fcl_bench.config.compose import composed
from fcl_bench.config.saved import saved_settings


def test_settings_come_back_as_they_were_written(tmp_path: Path) -> None:
    config = composed("method=finetune", "dataset=gaussian", "method.lr=1e-5")
    path = tmp_path / "config.yaml"
    path.write_text(OmegaConf.to_yaml(config, resolve=True))
    assert OmegaConf.to_container(saved_settings(path)) == OmegaConf.to_container(config, resolve=True)


BOMB = "\n".join(["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 20))])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "links within itself"),
        ("a: ${b}${b}\nb: 1", "references to other settings"),
        ("a: ${oc.env:HOME}", "references to other settings"),
        ("a: " + "[" * 10_000, "more than 20 groups within groups"),
        ("a: " + "{b: " * 10_000, "more than 20 groups within groups"),
        ("a: !!python/object/apply:os.system [exit]", "asks for an object .*os.system"),
        ("a: !!python/object/apply:pathlib.Path [x]", "asks for an object .*pathlib.Path"),
        ("- 1", "a list instead of settings"),
        ("7", "not valid YAML"),
        ("a: [", "not valid YAML"),
        ("a: 1\na: 2", "not valid YAML.*duplicate key"),
        ("a: " + "x" * 2**20, "bytes, more than"),
    ],
    ids=["links", "references", "environment", "deep lists", "deep groups", "call", "path", "list", "number", "cut",
         "twice", "large"],
)  # fmt: skip
def test_anything_else_is_refused_at_once(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    began = time.monotonic()
    with pytest.raises(ValueError, match=message):
        saved_settings(path)
    assert time.monotonic() - began < 3


def test_a_setting_of_very_many_brackets_is_told_in_a_sentence() -> None:
    refused = command("method=afcl", "dataset=gaussian", f"+x={'[' * 300}{']' * 300}")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "fcl_bench: There are too many brackets within brackets: write fewer.\n"
