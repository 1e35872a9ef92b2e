"""How often progress within a task is saved, by a clock that stands still unless it is told otherwise."""

import pytest

from fcl_bench.run.pace import Pace


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def paced(cost: float) -> tuple[Pace, Clock]:
    """After a write that has taken so many seconds."""
    clock = Clock()
    pace = Pace(clock)
    with pace.saving():
        clock.now += cost
    return pace, clock


@pytest.mark.parametrize(("cost", "wait"), [(0.01, 0.5), (1.0, 50.0), (3.5, 175.0), (10.0, 180.0)])
def test_it_waits_fifty_times_the_cost_of_the_last_write_but_three_minutes_at_most(cost: float, wait: float) -> None:
    pace, clock = paced(cost)
    clock.now += wait - 1e-6
    assert not pace.is_due()
    clock.now += 2e-6
    assert pace.is_due()


@pytest.mark.parametrize("cost", [0.003, 0.2, 3.0])
@pytest.mark.parametrize("length", [0.001, 0.4, 7.0])
def test_writes_take_two_percent_of_the_time(cost: float, length: float) -> None:
    """Rounds of this length, for many minutes."""
    pace, clock = paced(cost)
    start, spent, work_lost = clock.now, 0.0, [0.0]
    while clock.now < start + 2000:
        clock.now += length
        work_lost[-1] += length
        if pace.is_due():
            with pace.saving():
                clock.now += cost
            spent += cost
            work_lost.append(0.0)
    assert spent <= 0.02 * (clock.now - start) + cost
    assert max(work_lost) <= max(50 * cost, length) + length + 1e-6


def test_before_the_first_write_it_waits_a_second() -> None:
    clock = Clock()
    pace = Pace(clock)
    clock.now += 0.99
    assert not pace.is_due()
    clock.now += 0.02
    assert pace.is_due()
