"""Hydra's and OmegaConf's complaints as one sentence: what was wrong, and what is allowed, the closest first."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from fcl_bench.config.catalogue import catalogue
from fcl_bench.errors import ConfigError, choices


@contextmanager
def explained(verbs: Collection[str] = ()) -> Iterator[None]:
    """Turn errors of composition into a :class:`ConfigError`; one of the ``verbs`` might have been meant."""
    try:
        yield
    except ConfigError:
        raise
    except (HydraException, OmegaConfBaseException, ValueError) as error:  # ValueError: what Hydra makes of method=null
        raise ConfigError(_sentence(error, verbs)) from error


def _sentence(error: Exception, verbs: Collection[str]) -> str:
    cause = error.__cause__
    first = str(error).splitlines()[0].rstrip(".")
    if isinstance(error, OverrideParseException):
        verb = bool(verbs) and "=" not in (error.override or "=")
        more = f", or first of all one of {choices(error.override, verbs)}" if verb else ""
        return f"Cannot read '{error.override}': expected key=value, with quotes around special characters{more}."
    if isinstance(error, MissingConfigException) and error.options and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.rpartition("/")
        more = f"; for any network of timm: backbone=timm backbone.name={name}" if group == "backbone" else ""
        return f"There is no {group} '{name}'; choose from: {choices(name, error.options)}{more}."
    if isinstance(cause, (ConfigAttributeError, ConfigKeyError)) and cause.full_key:
        parent, _, key = cause.full_key.rpartition(".")
        known = [name for name in map(str, cause.parent_node or ()) if name != "hydra" and not name.startswith("_")]
        return f"There is no setting '{cause.full_key}'; {parent or 'a run'} has: {choices(key, known)}."
    if isinstance(error, ConfigCompositionException) and first.startswith("You must specify"):
        group = first.split("'")[1]
        return f"No {group} was given: add {group}=NAME, one of {choices('', catalogue()[group])}."
    if first.startswith("Ambiguous value"):
        return f"{first}: add -m for a sweep over these values, or use [brackets] for a list."
    return f"{first}."
