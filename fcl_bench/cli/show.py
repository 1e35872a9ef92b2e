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
from fcl_bench.config.catalogue import catalogue, config_file, names
from fcl_bench.config.compose import HYDRA_KEYS, SEARCH, build, composed, parameters
from fcl_bench.errors import ConfigError, choices
from fcl_bench.method import FACTS, facts

FEATURES = 16  # any number: methods build on every backbone


@dataclass(frozen=True)
class Setting:
    """A hyper-parameter as the command line names it."""

    name: str
    value: str
    note: str  # where the value comes from, what is allowed, and what the YAML says about it


def described(name: str, overrides: Sequence[str] = ()) -> str:
    """All that is known of the method ``name``, with some settings."""
    if name not in names("method"):
        raise ConfigError(f"There is no method '{name}'; choose from: {choices(name, names('method'))}.")
    node = composed(f"method={name}", *overrides).method
    target = get_object(node["_target_"])
    return "\n".join(
        [
            f"{name}: {node['_target_']}",
            "",
            inspect.getdoc(sys.modules[target.__module__]) or catalogue()["method"][name],
            "",
            "Hyper-parameters",
            *_hyper_parameters(name, node, target),
            "",
            "Facts",
            *_facts(node),
        ]
    )


def _hyper_parameters(name: str, node: DictConfig, target: Callable[..., Any]) -> list[str]:
    hints = dict(parameters(target))
    rows = [*configured(node, comments(f"method/{name}"), hints), *left_out(node, target, hints)]
    return aligned(rows) if rows else ["  none"]


def _facts(node: DictConfig) -> list[str]:
    declared = facts(build(node, Backbone(FEATURES)))
    return [f"  {fact:<22} {'yes' if value else 'no':<4} {FACTS[fact]}" for fact, value in declared.items()]


def configured(node: DictConfig, notes: dict[str, str], hints: dict[str, Any], path: str = "") -> Iterator[Setting]:
    """The settings of a node, with those inside them; what another part of the configuration sets is shown as one."""
    written: Any = OmegaConf.to_container(node, resolve=False)
    for key in map(str, node):
        name = f"{path}{key}"
        if key in HYDRA_KEYS or name == "name":
            continue
        value = node[key]
        reference = written[key] if isinstance(written[key], str) and "${" in written[key] else ""
        notice = _note(hints.get(name), notes.get(name, ""))
        if reference:
            notice = f"= {reference}  {notice}".rstrip()
        if not isinstance(value, DictConfig):
            yield Setting(f"method.{name}", _text(value), notice)
            continue
        yield Setting(f"method.{name}", value.get("_target_", ""), notice)
        if not reference:
            yield from configured(value, notes, hints, f"{name}.")


def left_out(node: DictConfig, target: Callable[..., Any], hints: dict[str, Any]) -> Iterator[Setting]:
    """Hyper-parameters that no YAML names, with the default of the signature; the first parameter is the backbone."""
    signature = inspect.signature(target).parameters
    for key in list(hints)[1:]:
        parameter = signature.get(key)
        if key in node or (parameter and parameter.kind is parameter.VAR_KEYWORD):
            continue
        default = parameter.default if parameter else inspect.Parameter.empty
        yield Setting(f"method.{key}", _text(default), _note(hints[key], ""))


def aligned(rows: Sequence[Setting]) -> list[str]:
    """One line each, in columns."""
    name_width = max(len(row.name) for row in rows)
    value_width = max(len(row.value) for row in rows)
    return [f"  {row.name:<{name_width}}  {row.value:<{value_width}}  {row.note}".rstrip() for row in rows]


def comments(name: str) -> dict[str, str]:
    """What stands behind each setting in a YAML file and in those its defaults name; its own words come first.

    Where values are searched is no setting.
    """
    text = config_file(name) or ""
    notes: dict[str, str] = {}
    written: Any = OmegaConf.to_container(OmegaConf.create(text))
    for entry in written.get("defaults", []):
        if isinstance(entry, str) and entry.startswith("/"):
            notes |= comments(entry.strip("/").partition("@")[0])
    own = {name: note for name, note in commented(text) if name.partition(".")[0] != SEARCH}
    return notes | own


def commented(text: str) -> Iterator[tuple[str, str]]:
    r"""Settings with a comment on their line, by dotted names.

    >>> dict(commented("rounds: 3  # per task\noptimizer:\n  lr: 1  # of SGD\nseed: 2"))
    {'rounds': 'per task', 'optimizer.lr': 'of SGD'}
    """
    parents: list[tuple[int, str]] = []  # depth and key of the nodes that a line is in, then its own
    for line in text.splitlines():
        match = re.match(r"( *)(\w+):(?:.*?\s#\s*(.*))?", line)
        if not match:
            continue
        depth = len(match[1])
        parents = [parent for parent in parents if parent[0] < depth]
        parents.append((depth, match[2]))
        if match[3]:
            yield ".".join(key for _, key in parents), match[3]


def _note(annotation: Any, comment: str) -> str:
    """The comment, after the allowed values unless it begins with them."""
    if get_origin(annotation) is not Literal:
        return comment
    allowed = " | ".join(map(_text, get_args(annotation)))
    if not comment:
        return allowed
    return comment if comment.startswith(allowed) else f"{allowed}: {comment}"


def _text(value: Any) -> str:
    """A value as it would be written on the command line."""
    if value is inspect.Parameter.empty:
        return "none given"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
