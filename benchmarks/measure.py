"""What a measurement is, and how two things are timed side by side."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter


@dataclass(frozen=True)
class Row:
    """One line of the table: a value, or with ``reference`` the ratio to it, that should not exceed ``limit``."""

    what: str
    how: str  # in one line, how it was measured
    value: float
    unit: str
    reference: float | None = None
    limit: float | None = None  # None: shown only

    @property
    def judged(self) -> float:
        """What is held against the limit."""
        return self.value if self.reference is None else self.value / self.reference

    @property
    def missed(self) -> bool:
        """Whether it is too much."""
        return self.limit is not None and self.judged > self.limit

    def __str__(self) -> str:
        unit = self.unit if self.reference is None else "x"
        reference = "" if self.reference is None else f"{self.reference:.3f} {self.unit}"
        ratio = "" if self.reference is None else f"{self.judged:.2f} x"
        limit = "none" if self.limit is None else f"{self.limit:g} {unit}"
        verdict = "MISSED" if self.missed else "" if self.limit is None else "ok"
        return f"{self.what:<40}{f'{self.value:.3f} {self.unit}':>12}{reference:>12}{ratio:>10}{limit:>10}  {verdict}"


HEADER = f"{'':<40}{'measured':>12}{'reference':>12}{'ratio':>10}{'limit':>10}"


def best(repeats: int, *actions: Callable[[], float | None]) -> list[float]:
    """The least seconds of each action, which are run in turn so that a busy machine is busy for all of them.

    An action that returns a number is taken at its word, any other is timed; each is run once before, unmeasured.
    """
    seconds: list[list[float]] = [[] for _ in actions]
    for _ in range(1 + repeats):
        for action, taken in zip(actions, seconds, strict=True):
            start = perf_counter()
            said = action()
            taken.append(perf_counter() - start if said is None else said)
    return [min(taken[1:]) for taken in seconds]
