"""The choices of every configuration group, read from the YAML files alone: nothing heavy is imported."""

from importlib.metadata import entry_points
from importlib.resources import files

GROUPS = (
    *("method", "dataset", "backbone", "stream", "partition", "local", "transport", "logger"),
    *("protocol", "experiment"),
)


def packages() -> list[str]:
    """Packages that hold configuration: ours, and those installed third parties announce by an entry point."""
    return ["fcl_bench.configs", *(point.value for point in entry_points(group="fcl_bench.configs"))]


def catalogue() -> dict[str, dict[str, str]]:
    """For each group, name and one-line description of every choice."""
    found: dict[str, dict[str, str]] = {group: {} for group in GROUPS}
    for package in packages():
        for group in GROUPS:
            folder = files(package) / group
            if folder.is_dir():
                for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
                    if file.name.endswith(".yaml"):
                        found[group][file.name.removesuffix(".yaml")] = _description(file.read_text())
    return found


def config_file(name: str) -> str | None:
    """The text of a YAML file, such as ``method/afcl``, in the first package that has it."""
    found = (files(package) / f"{name}.yaml" for package in packages())
    return next((file.read_text() for file in found if file.is_file()), None)


def _description(text: str) -> str:
    r"""The first comment line that is not a directive to Hydra.

    >>> _description("# @package _global_\n# The paper's settings\nx: 1")
    "The paper's settings"
    """
    lines = (line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    return next((line for line in lines if not line.startswith("@package")), "")
