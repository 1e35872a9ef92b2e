"""The leaderboard's mark: certificates that hold, and those that do not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import command
from records import classifier, record, write

from fcl_bench.exact.certificate import Certificate, Part, encoded, fingerprint
from fcl_bench.leaderboard.boards import boards
from fcl_bench.leaderboard.page_data import page_data
from fcl_bench.leaderboard.render import cells
from fcl_bench.leaderboard.runs import gather

EQUAL = Part(verdict="equal", recorded="a", expected="a", difference=0.0)
OTHER = Part(verdict="differs", recorded="a", expected="b", difference=None)


def certify(path: Path, part: Part = EQUAL) -> Path:
    """Write a certificate beside a record."""
    certificate = Certificate(
        record=fingerprint(path),
        run_id="seed1-afcl",
        verdict=part.verdict,
        sentence="what was found",
        parts={"weights": part},
        samples=240,
        classes=6,
        environment={"torch": "2.9"},
        date="2026-01-01T00:00:00+00:00",
    )
    path.with_name("certificate.json").write_bytes(encoded(certificate))
    return path.with_name("certificate.json")


def facts_in(folder: Path) -> dict[str, str]:
    """The last column of the tables, by row."""
    (board,) = boards(gather([folder]).runs)
    return {line[0]: line[-1] for line in cells(board)[1:]}


def test_a_row_is_certified_if_all_its_runs_are_and_one_that_differs_is_seen(tmp_path: Path) -> None:
    for method, second in (("afcl", EQUAL), ("fedncm", None), ("mine", OTHER)):
        certify(write(tmp_path / method / "1", record(method, seed=1, evidence={"weights": "a"})))
        path = write(tmp_path / method / "2", record(method, seed=2))
        if second:
            certify(path, second)
    assert facts_in(tmp_path) == {"afcl": "certified", "fedncm": "", "mine": "not what one place gives"}
    shown = command("leaderboard", str(tmp_path), "--out", str(tmp_path / "board"))
    assert shown.err == ""
    assert "| certified |" in (tmp_path / "board" / "leaderboard.md").read_text()
    data = page_data(boards(gather([tmp_path]).runs))
    rows = {row["name"]: row for row in data["boards"][0]["rows"]}
    assert rows["afcl"]["facts"] == ("certified",)
    assert data["facts"]["certified"] == "certified"
    assert [run["certificate"] for run in rows["fedncm"]["runs"]] == ["what was found", None]


def test_a_certificate_says_nothing_of_other_classifiers(tmp_path: Path) -> None:
    certify(write(tmp_path / "1", record(other_classifiers={"linear": classifier(60.0)})))
    assert facts_in(tmp_path) == {"afcl": "certified", "afcl [linear]": "other classifier"}


def changed(**changes: Any) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def of_another_record(path: Path) -> None:
    record_path = path.with_name("result.json")
    record_path.write_text(record_path.read_text() + "\n")


def with_other_evidence(path: Path) -> None:
    """The certificate is for this very file, but not for the hashes in it."""
    record_path = path.with_name("result.json")
    record_path.write_text(json.dumps(json.loads(record_path.read_text()) | {"evidence": {"weights": "c"}}))
    changed(record=fingerprint(record_path))(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_text("{"), "is damaged .*: certify the run again"),
        (lambda path: path.write_bytes(b"\xff"), "is damaged .*: certify the run again"),
        (changed(schema=2), r"is damaged \(schema: Input should be 1\)"),
        (changed(verdict="within"), "is damaged .*the verdict is not that of its parts"),
        (
            changed(parts={"weights": OTHER.model_dump() | {"verdict": "equal"}}),
            r"is damaged \(parts.weights: the verdict is not that of the hashes\)",
        ),
        (of_another_record, "is not one for the record beside it: certify the run again"),
        (with_other_evidence, "is not one for the record beside it: certify the run again"),
    ],
)
def test_a_certificate_that_is_worth_nothing_is_named_and_not_shown(
    tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(certify(write(tmp_path / "1", record(evidence={"weights": "a"}))))
    found = gather([tmp_path])
    assert [run.certificate for run in found.runs] == [None]
    with pytest.raises(AssertionError, match=f"The certificate .* {message}"):
        assert not found.problems, found.problems[0]
    assert facts_in(tmp_path) == {"afcl": ""}
