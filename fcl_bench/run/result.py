"""``result.json`` as others read it: nothing heavy is imported."""

from pathlib import Path
from typing import Any

from fcl_bench.errors import UserError
from fcl_bench.strict_json import read_json

SCHEMA = 1
VIEWS = ("dealt", "first_seen", "present")  # of the tests of tasks; the first is that of the record's own metrics
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
