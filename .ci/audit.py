"""``python .ci/audit.py SITE_PACKAGES``: what pip-audit knows of installed packages, less what is accepted.

The exit code is 1 for a finding that ``accepted-vulnerabilities.txt`` does not list. Packages that the service knows
nothing of, or a service that is out of reach, are told in a line and no failure: they say nothing about this code.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ACCEPTED = Path(__file__).with_name("accepted-vulnerabilities.txt")
ENTRY = re.compile(r"(\S+)\s+(\d{4}-\d\d-\d\d)\s+(\S.*)")
SECONDS = 240


def main() -> int:
    """Ask, tell, and judge."""
    try:
        words = [sys.executable, "-m", "pip_audit", "--path", sys.argv[1], "--format=json", "--progress-spinner=off"]
        asked = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
        report = json.loads(asked.stdout)
    except subprocess.TimeoutExpired:
        print(f"pip-audit: nothing was checked, as the service did not answer within {SECONDS} s")
        return 0
    except ValueError:
        reason = (asked.stderr.strip().splitlines() or ["it said nothing"])[-1]
        print(f"pip-audit: nothing was checked ({reason})")
        return 0
    lines, refused = judged(report, accepted(ACCEPTED.read_text()))
    print("\n".join(lines))
    return int(refused)


def accepted(text: str) -> dict[str, str]:
    """The reason of each accepted finding; every entry must have a date and a reason."""
    entries: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            entry = ENTRY.fullmatch(line.strip())
            if entry is None:
                raise ValueError(f"Expected an ID, a date and a reason, but got: {line}")
            entries[entry[1]] = f"accepted on {entry[2]}: {entry[3]}"
    return entries


def judged(report: dict[str, Any], reasons: dict[str, str]) -> tuple[list[str], bool]:
    """What to tell of a report of pip-audit, and whether it has a finding that nobody has accepted."""
    packages = report["dependencies"]
    checked = [package for package in packages if "skip_reason" not in package]
    lines = [f"pip-audit: {len(checked)} of {len(packages)} packages were checked{_why_not_all(packages)}"]
    refused = False
    found: set[str] = set()
    for package, names in findings(checked):
        known = names & reasons.keys()
        found |= known
        refused |= not known
        verdict = reasons[min(known)] if known else "not accepted: update the package, or list it with a reason"
        lines.append(f"  {package}: {', '.join(sorted(names))}, {verdict}")
    lines += [f"  {name} is accepted, but was not found: remove it from the list" for name in reasons.keys() - found]
    return lines, refused


def _why_not_all(packages: list[dict[str, Any]]) -> str:
    reasons = [package["skip_reason"] for package in packages if "skip_reason" in package]
    return f"; of {len(reasons)} nothing is known, as of the first: {reasons[0]}" if reasons else ""


def findings(packages: list[dict[str, Any]]) -> Iterator[tuple[str, set[str]]]:
    """A package with its version, and all names of one vulnerability."""
    for package in packages:
        for finding in package["vulns"]:
            yield f"{package['name']} {package['version']}", {finding["id"], *finding["aliases"]}


if __name__ == "__main__":
    sys.exit(main())
