"""Hydra's and OmegaConf's complaints as one sentence: what was wrong, and what is allowed, the closest first."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from yaml import YAMLError

from fcl_bench.config.catalogue import names, problems
from fcl_bench.errors import ConfigError, choices

# ValueError: as for method=null; RecursionError: as for very many brackets
COMPLAINTS = (HydraException, OmegaConfBaseException, YAMLError, ValueError, RecursionError)


@contextmanager
def explained(verbs: Collection[str] = ()) -> Iterator[None]:
    """Turn errors of composition into a :class:`ConfigError`; one of the ``verbs`` might have been meant."""
    try:
        yield
    except ConfigError:
        raise
    except COMPLAINTS as error:
        sentence = _explain(error)
        if isinstance(error, OverrideParseException) and "=" not in (error.override or "=") and verbs:
            sentence = f"{sentence.rstrip('.')}, or first of all one of {choices(error.override, verbs)}."
        raise ConfigError(sentence) from error


def _explain(error: Exception) -> str:
    for explanation in EXPLANATIONS:
        sentence = explanation(error)
        if sentence:
            return sentence
    return f"{_first_line(error)}."


def _unreadable_override(error: Exception) -> str | None:
    if not isinstance(error, OverrideParseException):
        return None
    return f"Cannot read '{error.override}': expected key=value, with quotes around special characters."


def _unknown_choice(error: Exception) -> str | None:
    if not isinstance(error, MissingConfigException) or not error.options or not error.missing_cfg_file:
        return None
    group, _, name = error.missing_cfg_file.rpartition("/")
    more = f"; for any network of timm: backbone=timm backbone.name={name}" if group == "backbone" else ""
    return f"There is no {group} '{name}'; choose from: {choices(name, error.options)}{more}."


def _unknown_setting(error: Exception) -> str | None:
    cause = error.__cause__
    if not isinstance(cause, (ConfigAttributeError, ConfigKeyError)) or not cause.full_key:
        return None
    parent, _, key = cause.full_key.rpartition(".")
    siblings = map(str, cause.parent_node or ())
    known = [name for name in siblings if name not in ("hydra", "search") and not name.startswith("_")]
    return f"There is no setting '{cause.full_key}'; {parent or 'a run'} has: {choices(key, known)}."


def _missing_choice(error: Exception) -> str | None:
    line = _first_line(error)
    if not isinstance(error, ConfigCompositionException) or not line.startswith("You must specify"):
        return None
    group = line.split("'")[1]
    return f"No {group} was given: add {group}=NAME, one of {choices('', names(group))}."


def _several_values(error: Exception) -> str | None:
    line = _first_line(error)
    if not line.startswith("Ambiguous value"):
        return None
    return f"{line}: add -m for a sweep over these values, or use [brackets] for a list."


def _broken_file(error: Exception) -> str | None:
    """Neither error names the file, so all files are looked at."""
    if not isinstance(error, (YAMLError, UnicodeDecodeError, RecursionError)):
        return None
    return " ".join(problems()) or None


def _too_deep(error: Exception) -> str | None:
    return "There are too many brackets within brackets: write fewer." if isinstance(error, RecursionError) else None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")


EXPLANATIONS: tuple[Callable[[Exception], str | None], ...] = (
    _unreadable_override,
    _unknown_choice,
    _unknown_setting,
    _missing_choice,
    _several_values,
    _broken_file,
    _too_deep,
)
