"""Who is let in: each answer of an exchange is given to the method, or dropped with the reason said."""

import traceback
import warnings
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fcl_bench.door.facts import Facts
from fcl_bench.door.reading import NOT_FINITE, TOO_LARGE, Seen, complaint, declared_reply, norm
from fcl_bench.errors import UserError
from fcl_bench.privacy import REPLY, Privacy
from fcl_bench.stream import Stream
from fcl_bench.traffic import Exchange
from fcl_bench.transport import Answer

OnBadReply = Literal["drop", "stop", "raise"]
LONGEST = 300  # letters of a reason
MOST_WARNINGS = 20  # in a run; all reasons stand in its log of exchanges


@dataclass
class Door:
    """What is the same for all exchanges of a run.

    A bad reply is dropped, or it ends the run in one sentence (``stop``); ``raise`` shows where in the method an
    exception comes from. ``max_norm`` is the largest Euclidean norm of all tensors of a reply together.
    """

    stream: Stream
    on_bad_reply: OnBadReply = "raise"
    max_norm: float | None = None
    inputs: Any = None  # of all training samples
    trusted: set[str] = field(default_factory=set)  # functions to which some client has given a good reply
    warned: int = 0

    def warn(self, sentence: str) -> None:
        """Say it, unless it was said too often."""
        self.warned += 1
        if self.warned <= MOST_WARNINGS:
            last = " Further ones are named in exchanges.jsonl only." if self.warned == MOST_WARNINGS else ""
            warnings.warn(sentence + last, stacklevel=2)


class Gate:
    """One exchange, to whose ``function`` some clients are to reply."""

    def __init__(
        self,
        door: Door,
        privacy: Privacy,
        method: Any,
        exchange: Exchange,
        step: str,
        message: tuple[Any, ...],
        asked: Sequence[int],
    ):
        self.door = door
        self.method = method
        self.exchange = exchange
        self.message = message
        self.missing = set(asked)
        self.asked = len(asked)
        self.masked = privacy.masked(method)
        self.seen: Seen = "masks" if self.masked else "noise" if privacy.adds_noise else "values"
        self.own_step = step != REPLY  # one that privacy takes by itself: no function of the method replies
        self.annotation = declared_reply(getattr(method, exchange.function))
        self.errors: list[Exception] = []
        self.reasons: list[str] = []
        self.late: list[int] = []  # clients that took too long

    def admitted(self, answers: Iterator[Answer], stored: dict[int, int]) -> Iterator[Answer]:
        """The answers that the method shall be given; ``stored`` learns how many bytes each client keeps."""
        try:
            for answer in answers:
                if answer.client in self.missing:
                    stored[answer.client] = answer.stored
                if self.admits(answer):
                    yield answer
            self.close()
        finally:
            if isinstance(answers, Generator):
                answers.close()  # now: it may have processes to end

    def admits(self, answer: Answer) -> bool:
        """Whether the method shall be given this answer; if not, it is told and counted why."""
        if self.own_step:
            if answer.failed:
                raise answer.failed.error or UserError(f"Client {answer.client} fails: {answer.failed.reason}.")
            return True
        reason = self._reason(answer)
        self.missing.discard(answer.client)
        if reason is None:
            self.door.trusted.add(self.exchange.function)
            return True
        self._drop(answer, reason)
        return False

    def close(self) -> None:
        """After the last answer: an exchange of which nothing is left is more likely a mistake in the method.

        Raises what the first client has raised if all of them failed, and a :class:`UserError` if no reply to this
        function was ever good, or if the numbers of all clients have grown beyond all bounds.
        """
        if self.errors and len(self.errors) == self.asked:
            raise self.errors[0]
        function = self.exchange.function
        if len(self.late) == self.asked:
            return
        if not self.asked or len(self.reasons) < self.asked:
            return
        told = f"No reply to {function} of {type(self.method).__name__} was as declared; that of the first client: "
        told += f"{self.reasons[0]}. "
        if self.asked > 1 and all(map(_is_of_divergence, self.reasons)):
            raise UserError(
                f"{told}If it trains, the training has diverged: lower method.lr, or set local.gradient_clip=1."
            )
        if function not in self.door.trusted:
            raise UserError(f"{told}Change the function, or what its reply type declares.")

    def _reason(self, answer: Answer) -> str | None:
        if answer.client not in self.missing:
            return "it has answered before, or was not asked"
        if answer.failed:
            return answer.failed.reason
        facts = Facts(
            self.method,
            self.message,
            self.door.stream,
            self.exchange.task,
            answer.client,
            self.door.inputs,
            self.masked,
        )
        found = complaint(self.annotation, answer.reply, facts, self.seen)
        if found is None and self.door.max_norm is not None and self.seen != "masks":
            length = norm(answer.reply)
            if length > self.door.max_norm:
                return f"its norm is {length:.3g}, more than federation.max_norm={self.door.max_norm:g}"
        return found

    def _drop(self, answer: Answer, reason: str) -> None:
        exchange = self.exchange
        reason = readable(reason)
        error = answer.failed.error if answer.failed else None
        policy = self.door.on_bad_reply
        if policy == "raise" and error is not None:
            raise error
        what = f"reply of client {answer.client} to {exchange.function} in task {exchange.task + 1}"
        if policy != "drop":
            raise UserError(f"The {what} is not usable: {reason}.") from error
        if error is not None:
            traceback.clear_frames(error.__traceback__)  # which may hold large tensors
            self.errors.append(error)
        if answer.failed and answer.failed.late:
            self.late.append(answer.client)
        self.reasons.append(reason)
        exchange.refused(answer.client, reason, answer.seconds)
        self.door.warn(f"The {what} was dropped: {reason}.")


def _is_of_divergence(reason: str) -> bool:
    return NOT_FINITE in reason or TOO_LARGE in reason


def readable(text: str) -> str:
    r"""In one line, not too long, and without characters that a terminal would obey: clients choose some of the words.

    >>> readable("one\ntwo \x1b[31m")
    'one two ?[31m'
    """
    line = " ".join(text.split())
    plain = "".join(letter if letter.isprintable() else "?" for letter in line)
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]} ..."
