"""A short sample of ``python -m benchmarks.mutated_records``: what is shown of a changed record is what it was."""

from pathlib import Path

import pytest
from conftest import ROOT, Command, Outcome

CASES = 56  # four of each kind


@pytest.fixture
def other(tiny: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(ROOT)
    return tiny("method=afcl", "seed=2").folder


def test_no_change_of_a_record_is_shown_without_a_word(afcl_run: Outcome, other: Path) -> None:
    from benchmarks.mutated_records import campaign

    told: list[str] = []
    ends = campaign(afcl_run.folder, other, CASES, seed=1, show=told.append)
    assert told == []
    assert ends["refused"] > CASES / 2
    assert sum(ends.values()) == CASES


def test_a_record_of_earlier_versions_raises_no_error_however_it_is_changed(
    afcl_run: Outcome, other: Path, tmp_path: Path
) -> None:
    from benchmarks.mutated_records import as_earlier_versions_wrote_it, campaign

    old = as_earlier_versions_wrote_it(afcl_run.folder, tmp_path / "old")
    ends = campaign(old, other, CASES, seed=2, show=lambda text: None)
    assert ends["traceback"] == 0
    assert ends["refused"] > CASES / 2
