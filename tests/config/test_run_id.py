"""The identity of a run, and the name of its method."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, Command
from omegaconf import DictConfig, OmegaConf

from fcl_bench.config.catalogue import catalogue
from fcl_bench.config.compose import build, composed
from fcl_bench.config.run_id import method_name, run_id
from fcl_bench.errors import ConfigError

BASE = composed("method=finetune", *TINY)
Add = Callable[[str, str], str]

MODULE = """
class A:
    def __init__(self, backbone, scale: float = 1.0):
        self.scale = scale


class B(A):
    def __init__(self, backbone, name: str = "none"):
        self.name = name
"""


@pytest.fixture
def add_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Add:
    """Give an installed package, which has the classes A and B in one module, a YAML ``method/FILE.yaml``."""
    package = f"lab_{tmp_path.name}"
    files = {
        f"{package}/__init__.py": "",
        f"{package}/classes.py": MODULE,
        f"{package}/configs/__init__.py": "",
        f"{package}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
        f"{package}-1.0.dist-info/entry_points.txt": f"[fcl_bench.configs]\nany_name = {package}.configs\n",
    }

    def add(file: str, text: str) -> str:
        path = tmp_path / package / "configs" / "method" / f"{file}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# A method of another package\n{text.replace('CLASSES', f'{package}.classes')}\n")
        return f"method={file}"

    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    return add


def changed(place: str, value: Any) -> DictConfig:
    """The configuration with another value, or with a setting more."""
    config = OmegaConf.create(OmegaConf.to_container(BASE, resolve=True))
    OmegaConf.update(config, place, value, force_add=True)
    return config


@pytest.mark.parametrize("node", ["dataset", "backbone", "stream", "partition", "method", "federation"])
def test_a_class_may_move(node: str) -> None:
    assert run_id(changed(f"{node}._target_", "other.place.Class")) == run_id(BASE)


@pytest.mark.parametrize("place", ["method.optimizer._target_", "method.fit._target_", "local._target_"])
def test_a_class_without_a_name_counts(place: str) -> None:
    assert run_id(changed(place, "other.place.Class")) != run_id(BASE)


@pytest.mark.parametrize("node", ["dataset", "backbone", "stream", "partition", "method"])
def test_a_name_counts(node: str) -> None:
    assert run_id(changed(f"{node}.name", "another")) != run_id(BASE)


@pytest.mark.parametrize(
    ("place", "usual", "other"),
    [
        ("stream.reserved", 0, 20),
        ("backbone.clients_hold", None, "images"),
        ("federation.timeout", None, 5.0),
        ("federation.max_norm", None, 100.0),
        ("method.distil", "known", "absent"),
        ("method.share", "equal", "whole"),
        ("method.aggregation", "mean", "median"),
        ("method.liars", 1, 2),
        ("method.look_ahead", False, True),
        ("method.look_ahead_epochs", 100, 50),
        ("federation.late", 0.0, 0.3),
        ("federation.delay", 2, 1),
    ],
)
def test_a_new_setting_counts_where_it_changes_what_was_done_before(place: str, usual: Any, other: Any) -> None:
    assert run_id(changed(place, usual)) == run_id(BASE)
    assert run_id(changed(place, other)) != run_id(BASE)


def test_whether_a_run_goes_on_is_not_what_its_result_is() -> None:
    assert run_id(changed("federation.on_bad_reply", "stop")) == run_id(BASE)


def test_a_suggested_learning_rate_counts_where_it_is_taken() -> None:
    assert run_id(changed("dataset.lr", 0.5)) == run_id(BASE)
    assert run_id(changed("method.lr", 0.5)) != run_id(BASE)


@pytest.mark.parametrize("file", catalogue()["method"])
def test_a_method_is_named_as_it_is_chosen(file: str) -> None:
    assert method_name(composed(f"method={file}")) == file


def test_a_name_in_the_yaml_or_on_the_command_line_is_the_name(add_method: Add) -> None:
    word = add_method("typed", "_target_: CLASSES.A\nname: written\nscale: 2.0")
    config = composed(word)
    assert method_name(config) == "written"
    assert build(config.method, None).scale == 2.0
    assert method_name(composed(word, "method.name=mine")) == "mine"


def test_a_yaml_without_a_name_gives_the_name_of_its_file(add_method: Add) -> None:
    first = composed(add_method("first", "_target_: 'CLASSES.A'"))
    second = composed(add_method("second", "_target_: CLASSES.B  # in the same module"))
    assert [method_name(first), method_name(second)] == ["first", "second"]
    assert run_id(first) != run_id(second)


def test_a_class_that_no_yaml_names_has_the_name_of_its_module() -> None:
    config = composed("method=afcl")
    config.method = {"_target_": "my_lab.methods.A"}
    assert method_name(config) == "methods"


def test_a_constructor_that_takes_a_name_gets_it(add_method: Add) -> None:
    config = composed(add_method("knowing", "_target_: CLASSES.B\nname: knowing"))
    assert build(config.method, None).name == "knowing"


def test_the_name_of_another_method_is_refused(add_method: Add) -> None:
    word = add_method("copied", "_target_: CLASSES.A\nname: finetune")
    with pytest.raises(ConfigError) as refused:
        composed(word)
    assert str(refused.value).startswith(
        "The name 'finetune' belongs to fcl_bench.methods.finetune.Finetune, but this method is "
    )
    assert str(refused.value).endswith(".classes.A: give it a name of its own, method.name=NAME.")


@pytest.mark.parametrize("value", ["''", "3", "null"])
def test_a_name_is_a_text(value: str) -> None:
    with pytest.raises(ConfigError, match=r"Expected method\.name to be .*, but got "):
        composed("method=afcl", f"method.name={value}")


def test_folder_and_record_bear_the_name(tiny: Command) -> None:
    done = tiny("method=afcl", "method.name=my_afcl")
    assert done.code == 0, done.err
    assert (done.result["method"], done.folder.parent.name) == ("my_afcl", "my_afcl")
