"""What CI makes of a report of pip-audit."""

import runpy
from pathlib import Path
from typing import Any

import pytest

AUDIT = runpy.run_path(str(Path(__file__).parents[1] / ".ci" / "audit.py"))
REPORT: dict[str, Any] = {
    "dependencies": [
        {"name": "sound", "version": "1.0", "vulns": []},
        {"name": "leaky", "version": "2.1", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-7"], "fix_versions": []}]},
        {"name": "own", "skip_reason": "it is not on PyPI"},
    ]
}


def test_a_finding_fails_until_it_is_accepted_by_any_of_its_names() -> None:
    lines, refused = AUDIT["judged"](REPORT, {})
    assert refused
    assert lines[0] == (
        "pip-audit: 2 of 3 packages were checked; of 1 nothing is known, as of the first: it is not on PyPI"
    )
    assert lines[1].startswith("  leaky 2.1: CVE-7, PYSEC-1, not accepted")
    for name in ("PYSEC-1", "CVE-7"):
        lines, refused = AUDIT["judged"](REPORT, AUDIT["accepted"](f"# why\n{name}  2026-01-31  leaky: unused\n"))
        assert not refused
        assert lines[1:] == ["  leaky 2.1: CVE-7, PYSEC-1, accepted on 2026-01-31: leaky: unused"]


def test_what_is_accepted_in_vain_is_named() -> None:
    lines, refused = AUDIT["judged"]({"dependencies": []}, {"CVE-8": "accepted"})
    assert (refused, lines[1:]) == (False, ["  CVE-8 is accepted, but was not found: remove it from the list"])


@pytest.mark.parametrize("line", ["CVE-7", "CVE-7 2026-01-31", "CVE-7 because it is unused"])
def test_an_entry_needs_a_date_and_a_reason(line: str) -> None:
    with pytest.raises(ValueError, match="Expected an ID, a date and a reason"):
        AUDIT["accepted"](line)


def test_the_list_of_the_repository_can_be_read() -> None:
    AUDIT["accepted"](AUDIT["ACCEPTED"].read_text())
