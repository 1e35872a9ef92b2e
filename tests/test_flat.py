"""A short sample of ``python -m benchmarks.flat``: what must not grow with the number of exchanges."""

import sys

import pytest
from conftest import ROOT

EXCHANGES = 200


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_descriptors_stay_and_logs_grow_by_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.flat import SAMPLES, watched

    samples = watched("in_process", EXCHANGES)
    assert len(samples) == SAMPLES
    assert len({sample.descriptors for sample in samples[1:]}) == 1
    grown = samples[-1].log - samples[0].log
    per_exchange = grown / (EXCHANGES - EXCHANGES // SAMPLES)
    assert 50 < per_exchange < 400  # bytes: a line of JSON
    assert samples[-1].console - samples[0].console < 200  # at most a sign of life
