"""How often the progress within a task is saved."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHARE = 0.02  # of the time of a run that may go into checkpoints within tasks
LONGEST = 180.0  # seconds without a checkpoint
FIRST_COST = 0.02  # seconds that a write is taken to cost before one was measured


class Pace:
    """A checkpoint is due when the time since the last one is 50 times what writing that one has cost.

    So at most 2 % of the time goes into checkpoints within tasks, and after each round that is long beside the cost of
    a write there is one. However much it costs, one is due three minutes after the last: the bound on lost work comes
    before that on cost. As learning stops between rounds only, a kill costs the round under way and what was not yet
    due.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._cost = FIRST_COST
        self._saved = clock()

    def is_due(self) -> bool:
        """Whether it is time to save progress within a task."""
        return self._clock() - self._saved >= min(self._cost / SHARE, LONGEST)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Measure the writing of a checkpoint."""
        start = self._clock()
        yield
        self._saved = self._clock()
        self._cost = self._saved - start
