"""A method for the reader: its card, its hyper-parameters and what it declares about itself."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from fcl_bench.backbone import Backbone
from fcl_bench.config.catalogue import catalogue, config_file
from fcl_bench.config.compose import HYDRA_KEYS, build, composed, parameters
from fcl_bench.errors import ConfigError, choices
from fcl_bench.method import facts

FEATURES = 16  # any number: methods build on every backbone


@dataclass(frozen=True)
class Setting:
    """A hyper-parameter as the command line names it."""

    name: str
    value: str
    note: str  # where the value comes from, what is allowed, and what the YAML says about it


def described(name: str, overrides: Sequence[str] = ()) -> str:
    """All that is known of the method ``name``, with some settings."""
    if name not in (known := catalogue()["method"]):
        raise ConfigError(f"There is no method '{name}'; choose from: {choices(name, known)}.")
    node = composed(f"method={name}", *overrides).method
    target = get_object(node["_target_"])
    notes, hints = comments(f"method/{name}"), dict(parameters(target))
    rows = [*configured(node, notes, hints), *left_out(node, target, hints)]
    card = inspect.getdoc(sys.modules[target.__module__]) or known[name]
    declared = facts(build(node, Backbone(FEATURES)))
    return "\n".join(
        [
            *(f"{name}: {node['_target_']}", "", card, ""),
            *("Hyper-parameters", *(aligned(rows) if rows else ["  none"]), ""),
            *("Facts", *(f"  {fact:<22} {'yes' if value else 'no'}" for fact, value in declared.items())),
        ]
    )


def configured(node: DictConfig, notes: dict[str, str], hints: dict[str, Any], path: str = "") -> Iterator[Setting]:
    """The settings of a node, with those inside them; what is taken from another place is shown as one."""
    written: Any = OmegaConf.to_container(node, resolve=False)
    for key in (key for key in map(str, node) if key not in HYDRA_KEYS and f"{path}{key}" != "name"):
        place, value, source = f"{path}{key}", node[key], written[key]
        reference = source if isinstance(source, str) and "${" in source else ""
        nested = isinstance(value, DictConfig)
        text = _text(value.get("_target_", "") if nested else value)
        note = _note(hints.get(place), notes.get(place, ""))
        yield Setting(f"method.{place}", text, "  ".join(filter(None, (reference and f"= {reference}", note))))
        if nested and not reference:
            yield from configured(value, notes, hints, f"{place}.")


def left_out(node: DictConfig, target: Callable[..., Any], hints: dict[str, Any]) -> Iterator[Setting]:
    """Hyper-parameters that no YAML names, with the default of the signature; the first parameter is the backbone."""
    signature = inspect.signature(target).parameters
    for key in list(hints)[1:]:
        parameter = signature.get(key)
        if key not in node and not (parameter and parameter.kind is parameter.VAR_KEYWORD):
            default = parameter.default if parameter else inspect.Parameter.empty
            yield Setting(f"method.{key}", _text(default), _note(hints[key], ""))


def aligned(rows: Sequence[Setting]) -> list[str]:
    """One line each, in columns."""
    name, value = max(len(row.name) for row in rows), max(len(row.value) for row in rows)
    return [f"  {row.name:<{name}}  {row.value:<{value}}  {row.note}".rstrip() for row in rows]


def comments(name: str) -> dict[str, str]:
    """What stands behind each setting in a YAML file and in those its defaults name; its own words come first."""
    text = config_file(name) or ""
    found: dict[str, str] = {}
    written: Any = OmegaConf.to_container(OmegaConf.create(text))
    for entry in written.get("defaults", []):
        if isinstance(entry, str) and entry.startswith("/"):
            found |= comments(entry.strip("/").partition("@")[0])
    return found | dict(commented(text))


def commented(text: str) -> Iterator[tuple[str, str]]:
    r"""Settings with a comment on their line, by dotted names.

    >>> dict(commented("rounds: 3  # per task\noptimizer:\n  lr: 1  # of SGD\nseed: 2"))
    {'rounds': 'per task', 'optimizer.lr': 'of SGD'}
    """
    parents: list[tuple[int, str]] = []
    for line in text.splitlines():
        if match := re.match(r"( *)(\w+):(?:.*?\s#\s*(.*))?", line):
            depth, key, comment = len(match[1]), match[2], match[3]
            parents = [parent for parent in parents if parent[0] < depth] + [(depth, key)]
            if comment:
                yield ".".join(name for _, name in parents), comment


def _note(annotation: Any, comment: str) -> str:
    """The comment, after the allowed values unless it begins with them."""
    allowed = " | ".join(map(_text, get_args(annotation))) if get_origin(annotation) is Literal else ""
    if not comment or comment.startswith(allowed):
        return comment or allowed
    return f"{allowed}: {comment}"


def _text(value: Any) -> str:
    """A value as it would be written on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "none given" if value is inspect.Parameter.empty else str(value)
