"""``result.json`` as others read it: nothing heavy is imported."""

from pathlib import Path
from typing import Any

from fcl_bench.errors import UserError
from fcl_bench.strict_json import read_json

SCHEMA = 1
VIEWS = ("dealt", "first_seen", "present")  # of the tests of tasks; the first is that of the record's own metrics
WHOLE_RUN = "whole_run"  # among the seconds of a record
Result = dict[str, Any]


def read_result(path: Path) -> Result:
    """A ``result.json`` of the present schema."""
    try:
        result = read_json(path)
    except (OSError, ValueError) as error:
        raise UserError(f"The record {path} cannot be read ({error}): remove it and run again.") from error
    schema = result.get("schema") if isinstance(result, dict) else None
    if type(schema) is not int or schema != SCHEMA:
        raise UserError(f"The record {path} has schema {str(schema)[:20]}, but this version reads schema {SCHEMA}.")
    whole: Result = result
    return whole


def whole_run_seconds(result: Result) -> float | None:
    """What a clock showed for all attempts at a run together; None for a record that does not say it."""
    seconds = result.get("seconds")
    found = seconds.get(WHOLE_RUN) if isinstance(seconds, dict) else None
    return float(found) if isinstance(found, int | float) and found >= 0 else None
