"""What a line of the table is, and how things are timed side by side."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter


@dataclass(frozen=True)
class Row:
    """A measured value that should not exceed ``limit``, or with a ``reference``, whose ratio to that should not."""

    what: str
    how: str  # it was measured, in one line
    value: float
    unit: str
    reference: float | None = None
    limit: float | None = None  # None: shown, not judged

    @property
    def judged(self) -> float:
        """What is held against the limit."""
        return self.value if self.reference is None else self.value / self.reference

    @property
    def missed(self) -> bool:
        """Whether it is too much."""
        return self.limit is not None and self.judged > self.limit

    def __str__(self) -> str:
        value = f"{self.value:.4g} {self.unit}"
        reference = ratio = ""
        if self.reference is not None:
            reference, ratio = f"{self.reference:.4g} {self.unit}", f"{self.judged:.2f} x"
        limit = verdict = ""
        if self.limit is not None:
            limit = f"{self.limit:g} {self.unit if self.reference is None else 'x'}"
            verdict = "MISSED" if self.missed else "ok"
        return f"{self.what:<40}{value:>12}{reference:>12}{ratio:>9}{limit:>9}  {verdict}"


HEADER = f"{'':<40}{'measured':>12}{'reference':>12}{'ratio':>9}{'limit':>9}"


def best(repeats: int, *actions: Callable[[], object]) -> list[float]:
    """The least seconds of each action; they are run in turn, so that a busy machine is busy for all of them.

    An action that returns a float is taken at its word, any other is timed. Each runs once before, unmeasured.
    """
    seconds: list[list[float]] = [[] for _ in actions]
    for _ in range(1 + repeats):
        for action, taken in zip(actions, seconds, strict=True):
            start = perf_counter()
            own = action()
            taken.append(own if isinstance(own, float) else perf_counter() - start)
    return [min(taken[1:]) for taken in seconds]


def seconds_of(action: Callable[[], object]) -> float:
    """How long it takes, once."""
    start = perf_counter()
    action()
    return perf_counter() - start
