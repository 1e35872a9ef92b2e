"""The choices of every configuration group, read from the YAML files alone: nothing heavy is imported."""

import sys
import warnings
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable

import yaml

GROUPS = (
    "method",
    "dataset",
    "backbone",
    "stream",
    "partition",
    "federation",
    "budget",
    "local",
    "privacy",
    "transport",
    "logger",
    "settings",
    "protocol",
    "experiment",
)


def packages() -> list[str]:
    """Packages that hold configuration: ours, and those that installed third parties announce by an entry point."""
    return ["fcl_bench.configs", *filter(_can_be_imported, _announced(tuple(sys.path)))]


@cache
def _announced(path: tuple[str, ...]) -> tuple[str, ...]:
    """What is announced on Python's ``path``, where it takes long to look."""
    return tuple(point.value for point in entry_points(group="fcl_bench.configs"))


def _can_be_imported(package: str) -> bool:
    try:
        import_module(package)
    except Exception as error:  # whatever somebody else's code does
        warnings.warn(f"The configuration in {package} is left out: it cannot be imported ({error!r}).", stacklevel=2)
        return False
    return True


def catalogue() -> dict[str, dict[str, str]]:
    """For each group, name and one-line description of every choice; that of a broken file is what is wrong with it."""
    choices: dict[str, dict[str, str]] = {group: {} for group in GROUPS}
    for group, file in _choice_files():
        text = file.read_bytes().decode("utf-8", errors="replace")
        choices[group][_name(file)] = problem(file) or _description(text)
    return choices


def names(group: str) -> list[str]:
    """The choices of a group."""
    return [_name(file) for owner, file in _choice_files() if owner == group]


def problems() -> list[str]:
    """A sentence for every YAML file that cannot be read."""
    found = (problem(file) for _, file in _choice_files())
    return [sentence for sentence in found if sentence]


def problem(file: Traversable) -> str | None:
    """What is wrong with a YAML file, in a sentence; None if it can be read."""
    try:
        yaml.safe_load(file.read_bytes().decode("utf-8"))
    except RecursionError:
        return f"{file} has too many groups within groups."
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        return f"{file} is not UTF-8 in line {line}: save it in that encoding."
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        return f"{file} is not valid YAML in line {line}: {error.problem}."
    except yaml.YAMLError as error:
        return f"{file} is not valid YAML: {' '.join(str(error).split())}."
    return None


def config_file(name: str) -> str | None:
    """The text of a YAML file, such as ``method/afcl``, in the first package that has it."""
    for package in packages():
        file = files(package) / f"{name}.yaml"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return None


def _choice_files() -> Iterator[tuple[str, Traversable]]:
    """Group and file of every choice, in the order of packages, groups and names."""
    for package in packages():
        for group in GROUPS:
            folder = files(package) / group
            if folder.is_dir():
                for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
                    if file.name.endswith(".yaml"):
                        yield group, file


def _name(file: Traversable) -> str:
    return file.name.removesuffix(".yaml")


def _description(text: str) -> str:
    r"""The first comment line that is not a directive to Hydra.

    >>> _description("# @package _global_\n# The paper's settings\nx: 1")
    "The paper's settings"
    """
    for line in text.splitlines():
        comment = line.removeprefix("#").strip()
        if line.startswith("#") and not comment.startswith("@package"):
            return comment
    return ""
