"""A sample of ``python -m benchmarks.hostile_files``."""

import pytest
from conftest import ROOT


def test_no_reader_is_harmed_by_hostile_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.hostile_files import BAD, KINDS, campaign

    told: list[str] = []
    ends = campaign(200, seed=1, show=told.append)
    assert told == []
    assert {kind: sum(found.values()) for kind, found in ends.items()} == dict.fromkeys(KINDS, 40)
    assert not any(found[end] for found in ends.values() for end in BAD)
    assert all(found["refused"] for kind, found in ends.items() if kind != "cache entries")
    assert ends["cache entries"]["repaired"] > 20
