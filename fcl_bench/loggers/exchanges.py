"""The log of exchanges as rows of plain values."""

import json
from pathlib import Path
from typing import Any


def read_exchanges(folder: Path) -> list[dict[str, Any]]:
    """The lines of ``exchanges.jsonl``; what a method has noted about an exchange stands under ``note/NAME``."""
    rows = []
    for line in (folder / "exchanges.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        notes = row.pop("notes", {})  # runs of older versions have none
        row.pop("rejected", None)  # sentences; their number is a column
        row |= {f"note/{name}": value for name, value in notes.items()}
        rows.append(row)
    return rows
