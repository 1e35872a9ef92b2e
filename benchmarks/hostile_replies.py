"""What becomes of broken and hostile replies, one at a time, in a task of every method: counted.

    python -m benchmarks.hostile_replies [--replies 10000] [--seed 1] [--method NAME ...]

The clients of a tiny stream answer once. Then the server's part of a task is done again and again with their answers,
of which one is changed. It may be refused with a reason, and then all states must be those of a task where that client
never answered. It may be let in and have no effect. It may be let in because it is well-formed: a wrong value within
what is declared, as a client that lies could have computed it. What must not be: an error that ends the run, a state
that is not finite, and a malformed reply that is let in and changes the state.
"""

import argparse
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks.harness import learn_one_task
from fcl_bench.averaging import Training
from fcl_bench.checks.hostile import content, lies
from fcl_bench.checks.mutations import Mutation
from fcl_bench.checks.sandbox import SEED, Sandbox
from fcl_bench.checks.variants import Words, frozen_track, sandbox, variants
from fcl_bench.config.catalogue import catalogue
from fcl_bench.errors import UserError
from fcl_bench.federation import Federation, Participation
from fcl_bench.learning import Progress, beginning, learn
from fcl_bench.message import tensors_in
from fcl_bench.method import facts
from fcl_bench.transport import Answer, Call, Memories, Site
from fcl_bench.transport.in_process import InProcess

Place = tuple[int, str, int, int]  # task, function, how often it was asked for before in the task, client
OUTCOMES = ("rejected", "without effect", "well-formed", "silently changed", "ends the run")
BAD = OUTCOMES[3:]
AT_ONCE = 12  # changes of one reply that are tried


@dataclass
class Replay:
    """Clients answer by themselves as long as it is ``recording``; later they repeat it, but for one answer."""

    inner: InProcess = field(default_factory=InProcess)
    recording: bool = True
    answers: dict[Place, Answer] = field(default_factory=dict)
    asked: Counter[tuple[int, str]] = field(default_factory=Counter)
    missing: Place | None = None
    lie: tuple[Place, Any] | None = None

    def open(self, site: Callable[[], Site]) -> None:
        self.inner.open(site)

    def map(self, call: Call, clients: Sequence[int]) -> Iterator[Answer]:
        turn = self.asked[call.task, call.function]
        self.asked[call.task, call.function] += 1
        if self.recording:
            for answer in self.inner.map(call, clients):
                self.answers[call.task, call.function, turn, answer.client] = answer
                yield answer
            return
        for client in clients:
            place = (call.task, call.function, turn, client)
            answer = self.answers.get(place) or self.answers[call.task, call.function, 0, client]
            if self.lie and self.lie[0] == place:
                yield Answer(client, self.lie[1], answer.seconds, answer.stored, {})
            elif place != self.missing:
                yield answer

    def memories(self) -> Memories:
        return self.inner.memories()

    def restore(self, memories: Memories) -> None:
        self.inner.restore(memories)

    def close(self) -> None:
        self.inner.close()


class Case:
    """A method with its settings, a recorded stream, and what each task begins with."""

    def __init__(self, scene: Sandbox):
        self.method = scene.method()
        self.transport = Replay()
        self.rejected = 0
        labels = scene.train_labels.numpy()
        who = Participation(on_bad_reply="drop")
        arguments = (scene.stream, scene.train, labels, scene.method, self.transport, who, SEED)
        self.stream = scene.stream
        self.federation = Federation(*arguments, on_exchange=self.count)
        self.starts: list[Progress] = []
        progress = beginning(self.method)
        for _ in self.stream.tasks:
            self.starts.append(progress)
            progress = learn_one_task(self.method, self.federation, progress)
        self.transport.recording = False
        self.expected: dict[tuple[int, Place | None], bytes | None] = {}

    def count(self, exchange: Any) -> None:
        self.rejected += exchange.rejected_replies

    def states(self, task: int) -> tuple[Any, ...]:
        """All that are handed out in a task."""
        self.rejected = 0
        self.transport.asked.clear()
        found = []
        for progress in learn(self.method, self.federation, self.starts[task]):
            if progress.between_tasks:
                break
            found.append(progress.state)
        return tuple(found)

    def without(self, task: int, place: Place | None) -> bytes | None:
        """The states of a task in which one answer never came, or all did."""
        if (task, place) not in self.expected:
            self.transport.missing = place
            self.expected[task, place] = content(self.states(task))
            self.transport.missing = None
        return self.expected[task, place]

    def outcome(self, place: Place, mutation: Mutation) -> str:
        """What becomes of a reply in this place."""
        honest = self.without(place[0], None)
        absent = self.without(place[0], place)
        self.transport.lie = (place, mutation.reply)
        try:
            states = self.states(place[0])
        except UserError as error:
            return f"ends the run: {error}"
        except Exception as error:
            return f"ends the run: {error!r}"
        finally:
            self.transport.lie = None
        if not all(tensor.isfinite().all() for _, tensor in tensors_in(states)):
            return "silently changed"
        found = content(states)
        if self.rejected:
            return "rejected" if found == absent else "silently changed"
        if found in (honest, absent):
            return "without effect"
        return "silently changed" if mutation.malformed else "well-formed"


def cases(names: Sequence[str]) -> Iterator[tuple[Words, str]]:
    """Every method with every choice of its own settings, and end to end where it trains so."""
    for name in names:
        for words in variants(name):
            setting = words[-1].partition("=")[0].removeprefix("method.")
            if setting not in Training.__annotations__:
                yield words, frozen_track(words)
        if not facts(sandbox((f"method={name}",), "frozen").method())["needs_frozen_backbone"]:
            yield (f"method={name}",), "end_to_end"


def tried(case: Case, replies: int, draw: random.Random) -> Counter[str]:
    """So many changed replies, of all functions alike."""
    places: dict[str, list[Place]] = {}
    for place in case.transport.answers:
        places.setdefault(place[1], []).append(place)
    found: Counter[str] = Counter()
    while found.total() < replies:
        place = draw.choice(places[draw.choice(sorted(places))])
        every = list(lies(case.transport.answers[place].reply, case.stream, place[0], place[3]))
        for mutation in draw.sample(every, min(AT_ONCE, len(every), replies - found.total())):
            outcome = case.outcome(place, mutation)
            if outcome.startswith(BAD):
                print(f"  {place}: {mutation.kind} at {mutation.address}: {outcome}", flush=True)
            found[outcome.partition(":")[0]] += 1
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Print a line per case; 1 if anything was bad."""
    parser = argparse.ArgumentParser("python -m benchmarks.hostile_replies", description=__doc__)
    parser.add_argument("--replies", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--method", nargs="*", default=sorted(catalogue()["method"]))
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    chosen = list(cases(options.method))
    each = -(-options.replies // len(chosen))
    total: Counter[str] = Counter()
    print(f"{'':60}" + "".join(f"{name:>18}" for name in OUTCOMES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, (settings, track) in enumerate(chosen):
            case = Case(sandbox(settings, track))
            found = tried(case, each, random.Random(f"{options.seed} {number}"))
            total += found
            print(line(f"{' '.join(settings)} ({track})", found), flush=True)
    print(line(f"{total.total():,} replies", total))
    return int(any(total[name] for name in BAD))


def line(title: str, found: Counter[str]) -> str:
    """One row of the table."""
    return f"{title:60}" + "".join(f"{found[name]:>18,}" for name in OUTCOMES)


if __name__ == "__main__":
    sys.exit(main())
