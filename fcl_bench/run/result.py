"""``result.json`` as others read it: nothing heavy is imported."""

import json
from pathlib import Path
from typing import Any

from fcl_bench.errors import UserError

SCHEMA = 1
VIEWS = ("dealt", "first_seen", "present")  # of the tests of tasks; the first is that of the record's own metrics
Result = dict[str, Any]


def read_result(path: Path) -> Result:
    """A ``result.json`` of the present schema."""
    try:
        result = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"The record {path} cannot be read ({error}): remove it and run again.") from error
    schema = result.get("schema") if isinstance(result, dict) else None
    if schema != SCHEMA:
        raise UserError(f"The record {path} has schema {schema}, but this version reads schema {SCHEMA}.")
    return result
