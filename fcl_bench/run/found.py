"""Where records are: given one by one, or in folders."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

RECORD = "result.json"


def records(paths: Iterable[Path]) -> Iterator[Path]:
    """Every record that is given or lies below a given folder, each file once, whether it can be read or not."""
    seen = set()
    for path in paths:
        for record in _below(path) if path.is_dir() else [path]:
            place = os.path.realpath(record)
            if place not in seen:
                seen.add(place)
                yield record


def _below(folder: Path) -> list[Path]:
    """Whatever has the name of a record, be it a broken link."""
    found = []
    for place, folders, files in os.walk(folder):
        if RECORD in files or RECORD in folders:
            found.append(Path(place, RECORD))
    return sorted(found)
