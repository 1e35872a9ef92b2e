"""Faults of a federation as scenarios: who takes part, whose answer is lost, late or double, who comes and goes.

All of it is drawn in advance: who is there is a pure function of the run's seed and the task, what becomes of an answer
one of the seed, the task, the exchange and the client. So two runs of one scenario are equal to the bit, and a run
that is resumed meets the faults it would have met. In the order in which they strike:

* ``join_later``: a client is not there from the beginning but joins in a later task, each one equally likely.
* ``away``: in a task a client is not there; it may be back in the next one. Clients that have not joined or are away
  are not asked. What they hold in such a task nobody learns, though its classes are registered: a stream is the same
  under all scenarios.
* ``forget``: when a task opens, a client has lost its memory. ``client.memory`` is empty.
* ``participation``: the share of the clients that a round asks. An exchange by ``clients.everyone`` asks all.
* ``dropout``: a client that is asked never begins, and never answers. Its memory stays as it was.
* ``lost``: a client does what it is asked for, and its memory changes, but its answer is lost on the way.
* ``late``: the same, but the answer comes in one of the next ``delay`` tasks, at the beginning of the first exchange
  that asks for the same function. A method is given it only if it declares ``takes_late_replies``. The answer knows the
  classes which were registered when it was made. For other methods, and where the stream ends before, it is lost.
* ``twice``: an answer comes twice. The harness leaves out the second one, but both are uploads.

What a method sees is that fewer clients answer, none perhaps, and that memories are empty or out of date.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from fcl_bench.door.gate import OnBadReply
from fcl_bench.errors import ConfigError
from fcl_bench.privacy import Privacy
from fcl_bench.seeds import generator
from fcl_bench.transport import Answer

Probability = Annotated[float, Field(ge=0, le=1)]
KEEPS_ALL = ("arrival", "delay", "forget", "twice")  # settings that let no answer get lost
OF_THE_DOOR = ("on_bad_reply", "timeout", "max_norm")  # settings about answers that are not as they should be


@dataclass(frozen=True)
class Late:
    """An answer that is on its way."""

    client: int
    task: int  # in which it was made
    function: str
    due: int  # the first task in which it may arrive
    reply: Any

    def arrives(self, task: int, function: str) -> bool:
        """Whether it comes with the answers to this function in a task."""
        return self.due <= task and self.function == function


@dataclass(frozen=True)
class Fates:
    """What becomes of the answers in one exchange."""

    asked: np.ndarray
    answering: np.ndarray  # those that do what they are asked for, in order of arrival
    lost: frozenset[int]
    late: dict[int, int]  # by client, the task in which its answer is due
    twice: frozenset[int]

    @property
    def arriving(self) -> list[int]:
        """Whose answers come in this exchange."""
        return [client for client in self.answering.tolist() if client not in self.lost and client not in self.late]

    def arrivals(self, answers: Iterable[Answer], hold: Callable[[Answer], None]) -> Iterator[Answer]:
        """What comes of these answers, some of it twice; ``hold`` is given the others."""
        for answer in answers:
            if answer.client in self.lost or answer.client in self.late:
                hold(answer)
                continue
            yield answer
            if answer.client in self.twice:
                yield answer


@dataclass(frozen=True)
class Participation:
    """Who takes part in an exchange, in which order the answers come, and what goes wrong; see the module."""

    participation: Annotated[float, Field(gt=0, le=1)] = 1.0
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    arrival: Literal["ordered", "shuffled"] = "ordered"
    lost: Probability = 0.0
    late: Probability = 0.0
    delay: PositiveInt = 2
    twice: Probability = 0.0
    join_later: Probability = 0.0
    away: Probability = 0.0
    forget: Probability = 0.0
    on_bad_reply: OnBadReply = "raise"  # what becomes of an answer that is not as declared, or of none
    timeout: PositiveFloat | None = None  # seconds that a client may take for an answer
    max_norm: PositiveFloat | None = None  # the largest Euclidean norm of all tensors of a reply together

    def check(self, privacy: Privacy) -> None:
        """Raise a :class:`ConfigError` where uploads are hidden in the sum of one exchange."""
        if privacy.sums_only and (self.late or self.twice):
            raise ConfigError(
                f"Expected no late and no double answers with privacy=secure_sum, but got federation.late={self.late:g}"
                f" and federation.twice={self.twice:g}: masks cancel only in the sum of one exchange, where each "
                "upload counts once. Set both to 0, or privacy=none."
            )

    @property
    def losses(self) -> dict[str, float]:
        """The settings by which some data may never reach the server."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {
            name: value
            for name, (value, usual) in values.items()
            if name not in KEEPS_ALL + OF_THE_DOOR and value != usual
        }

    def there(self, seed: int, task: int, clients: int, tasks: int) -> np.ndarray:
        """The clients that have joined and are not away."""
        first = np.zeros(clients, dtype=np.int64)  # task of each client
        if self.join_later:
            random = generator(seed, "join")
            later = random.random(clients) < self.join_later
            first[later] = random.integers(1, max(tasks, 2), clients)[later]
        away = _struck(self.away, clients, seed, task, "away")
        return np.flatnonzero((first <= task) & ~away)

    def forgetting(self, seed: int, task: int, clients: int) -> set[int]:
        """The clients whose memory is lost when the task opens."""
        return set(np.flatnonzero(_struck(self.forget, clients, seed, task, "forget")).tolist())

    def draw(
        self, clients: int | np.ndarray, random: np.random.Generator, everyone: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of so many clients, or of these, the ones asked, and those of them that begin, in order of arrival."""
        share = 1.0 if everyone else self.participation
        candidates = np.arange(clients) if isinstance(clients, int) else clients
        asked = random.permutation(candidates)[: max(1, round(share * len(candidates)))]
        answering = asked[random.random(len(asked)) >= self.dropout]
        return asked, answering if self.arrival == "shuffled" else np.sort(answering)

    def fates(self, there: np.ndarray, everyone: bool, seed: int, task: int, exchange: int) -> Fates:
        """What becomes of the answers in an exchange, if these clients are there."""
        asked, answering = self.draw(there, generator(seed, task, exchange, "participation"), everyone)
        clients = int(there.max(initial=-1)) + 1
        names = (seed, task, exchange)
        lost = _struck(self.lost, clients, *names, "lost")
        late = _struck(self.late, clients, *names, "late") & ~lost
        twice = _struck(self.twice, clients, *names, "twice")
        due = {}
        if late.any():
            delays = generator(*names, "delay").integers(1, self.delay + 1, clients)
            due = {client: task + int(delays[client]) for client in np.flatnonzero(late).tolist()}
        return Fates(asked, answering, _numbers(lost), due, _numbers(twice))


def _struck(probability: float, clients: int, seed: int, *names: str | int) -> np.ndarray:
    """Which clients a fault strikes; the names say where and when. What cannot happen is not drawn, to save time."""
    if probability == 0:
        return np.zeros(clients, dtype=bool)
    return generator(seed, *names).random(clients) < probability


def _numbers(chosen: np.ndarray) -> frozenset[int]:
    return frozenset(np.flatnonzero(chosen).tolist())
