"""The stack of rooms: what a module may import, whether at its top, in a function or for types only."""

import ast
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT

STACK = (  # from the ground up; a room may import its own and those below it
    ("errors",),
    ("bounded", "client_data", "files", "interruption", "message", "new_processes"),
    ("seeds", "stream_arrays", "strict_json", "threads", "visible"),
    ("decoding", "linalg", "revealed", "traffic"),
    ("backbone", "config", "dataset", "partition", "registration", "temporal"),
    ("client",),
    ("message_classes", "privacy"),
    ("stream",),
    ("transport",),
    ("door",),
    ("faults",),
    ("data", "federation"),
    ("aggregate", "evidence", "head", "learning", "method", "pull", "replay", "softmax"),
    ("held_back", "robust", "whole_numbers"),
    ("moments",),
    ("noisy_sums",),
    ("local", "losses"),
    ("averaging", "quick"),
    ("checks",),
    ("run",),
    ("exact", "loggers", "metrics", "reproduce", "tuning"),
    ("leaderboard",),
    ("cli",),
    ("__init__", "__main__", "pytest_plugin"),
)
FLOOR = {room: floor for floor, rooms in enumerate(STACK) for room in rooms}


def imported(path: Path) -> set[str]:
    """The rooms of fcl_bench that a module imports anywhere in its text."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "fcl_bench" else [f"fcl_bench.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("fcl_bench.")}
    return rooms


def modules() -> list[Path]:
    return sorted((ROOT / "fcl_bench").rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "fcl_bench").parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_nothing_from_above(path: Path) -> None:
    own = room_of(path)
    above = {room for room in imported(path) if FLOOR[room] >= FLOOR[own] and room != own}
    assert not above, f"{own} may not import {', '.join(sorted(above))}"


def test_every_room_has_a_place_and_says_what_may_go_in() -> None:
    assert {room_of(path) for path in modules()} == set(FLOOR)
    for path in modules():
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path} says nothing about itself"


def test_every_folder_with_modules_is_part_of_a_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {".".join(path.relative_to(ROOT).parent.parts) for path in modules()}
    assert folders | set(settings["package-dir"]) == set(settings["packages"])
