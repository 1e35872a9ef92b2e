"""Errors meant for the person at the keyboard: one sentence that says what, why and what to do, never a traceback."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Something outside the program stopped a run (a missing file, a full disk); all that was finished is kept."""

    exit_code = 1


class ConfigError(UserError, ValueError):
    """A wrong name or value in the configuration; nothing was started."""

    exit_code = 2


def choices(name: object, allowed: Iterable[str]) -> str:
    """The allowed names in a row, the one closest to ``name`` first.

    >>> choices("fientune", ["afcl", "finetune", "joint"])
    'finetune, afcl, joint'
    """
    names = sorted(allowed)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    return ", ".join(near + [other for other in names if other not in near])
