"""The methods of the configuration as the contract checks them: each choice of their settings, with short training."""

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, get_args, get_origin

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

from fcl_bench.averaging import Training
from fcl_bench.checks.rules import (
    CHECKS,
    Check,
    check_classifier,
    check_continues_from_a_checkpoint,
    check_exemplar_free_methods_tell_what_they_reveal,
    check_goes_on_whatever_clients_do,
    check_import_has_no_side_effects,
    check_learns,
    check_repeats_itself,
    check_runs_over_the_wire,
    check_survives_few_clients_and_little_data,
)
from fcl_bench.checks.sandbox import Sandbox, little_stages, little_transformer
from fcl_bench.config.compose import Maker, composed, parameters
from fcl_bench.config.compose import check as check_config
from fcl_bench.errors import ConfigError
from fcl_bench.method import facts

Words = tuple[str, ...]  # overrides, of which the first is method=NAME
SHORT = {"rounds": 3, "epochs": 4, "lr": 0.1}  # enough to learn, and for some rounds to be without some clients
BRIEF = {"rounds": 2, "epochs": 2}  # enough for every other rule
LENGTHS: dict[str, dict[str, Any]] = {  # what differs from SHORT
    "short": {},
    "starved": {"epochs": 2},  # enough for a variant to meet clients that are absent or have nothing
    "brief": BRIEF,
}
TRACKS: dict[str, dict[str, Any]] = {
    "frozen": {},
    "frozen_convolutions": {"network": little_stages},
    "frozen_transformer": {"network": little_transformer},
    "end_to_end": {"trainable": True},
}
FROZEN = ("frozen", "frozen_convolutions", "frozen_transformer")
SHARED_SETTING = (  # what a setting of federated averaging, which is tested by itself, can break in a method
    check_runs_over_the_wire,
    check_survives_few_clients_and_little_data,
    check_goes_on_whatever_clients_do,
    check_classifier,
)
IMPLIED = (  # by the rule over the wire, which compares two runs, and by the one within tasks, which stops between them
    check_repeats_itself,
    check_continues_from_a_checkpoint,
)


@cache
def _configuration(*words: str) -> DictConfig:
    return composed(*words)


def method_node(*words: str) -> DictConfig:
    """The settings of a method, to look at but not to change."""
    return _configuration(*words).method


@cache
def configured(*words: str) -> Maker:
    """The method of a configuration, as in ``configured("method=afcl")``; if it has rounds, a few short ones."""
    return _short(method_node(*words))


@cache
def _variant(words: Words) -> Maker:
    """The same for one of :func:`variants`: to change a setting takes no new composition."""
    config = copy.deepcopy(_configuration(words[0]))
    for override in OverridesParser.create().parse_overrides(list(words[1:])):
        OmegaConf.update(config, override.key_or_group, override.value())
    check_config(config)
    return _short(config.method)


def _short(node: DictConfig) -> Maker:
    settings: Any = OmegaConf.to_container(node, resolve=True)
    return Maker(settings | short_settings(node))


def short_settings(node: DictConfig) -> dict[str, Any]:
    """What makes a method quick to check: fewer and shorter rounds, and what its class names in ``quick_settings``."""
    shorter = {key: value for key, value in SHORT.items() if key in node}
    return shorter | getattr(get_class(node["_target_"]), "quick_settings", {})


def sandbox(words: Words, track: str, check: Check | None = None) -> Sandbox:
    """The place where a check of a variant on a track runs; those that do not need ``SHORT`` share a plain run."""
    return _sandbox(words, track, _length(words, check))


def _length(words: Words, check: Check | None) -> str:
    """Checks of runs with few clients and little data share one, too."""
    if check is check_learns:
        return "short"
    if check in (check_survives_few_clients_and_little_data, check_exemplar_free_methods_tell_what_they_reveal):
        return "starved" if len(words) > 1 else "short"
    return "brief"


@cache
def _sandbox(words: Words, track: str, length: str) -> Sandbox:
    settings = _variant(words).settings
    fewer = {key: value for key, value in LENGTHS[length].items() if key in settings}
    return Sandbox(Maker(settings | fewer), **TRACKS[track])


def variants(name: str) -> Iterator[Words]:
    """The method as its YAML has it, and with every other choice of each setting that has a few of them."""
    yield (f"method={name}",)
    node = method_node(f"method={name}")
    for setting, annotation in parameters(get_class(node["_target_"])):
        for choice in choices_of(annotation):
            if choice != node[setting]:
                yield f"method={name}", f"method.{setting}={choice}"


def choices_of(annotation: Any) -> tuple[Any, ...]:
    """All values that a setting can have, where these are a few: names, or yes and no.

    >>> choices_of(Literal["one", "two"]), choices_of(bool), choices_of(int)
    (('one', 'two'), (False, True), ())
    """
    if annotation is bool:
        return False, True
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def frozen_track(words: Words) -> str:
    """The first frozen track that the method does not refuse; if it refuses all, the one whose checks will say so."""
    if not getattr(sandbox(words[:1], "frozen").method(), "takes_images", False):
        return "frozen"
    for track in FROZEN:
        try:
            sandbox(words, track).method()
        except ConfigError:
            continue
        return track
    return "frozen"


def checks_of(words: Words) -> Iterator[tuple[str, Check]]:
    """The tracks on which a method runs, and the checks there; a variant meets those that its choice can matter to."""
    if len(words) > 1:
        track = frozen_track(words)
        for check in _checks_of_variant(words):
            yield track, check
        return
    for check in (*CHECKS, check_import_has_no_side_effects):
        yield "frozen", check
    if not facts(sandbox(words, "frozen").method())["needs_frozen_backbone"]:
        for check in CHECKS:
            yield "end_to_end", check


def _checks_of_variant(words: Words) -> tuple[Check, ...]:
    setting = words[1].partition("=")[0].removeprefix("method.")
    if setting in Training.__annotations__:
        return SHARED_SETTING
    method = sandbox(words[:1], "frozen").method()
    implied = IMPLIED if getattr(method, "resumes_within_tasks", False) else IMPLIED[:1]
    return tuple(check for check in CHECKS if check not in implied)
