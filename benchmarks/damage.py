"""Damaged and hostile encodings, checkpoints and run folders: what is accepted, and what comes of it.

``python -m benchmarks.damage [--encodings 30000] [--checkpoints 3000] [--folders 600] [--seed 0]``. It ends with exit
code 1 if anything but a clear refusal or the right result comes of it.
"""

import argparse
import random
import shutil
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields, is_dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks import damaged_folders
from benchmarks.compared import differences
from benchmarks.damaged_encodings import damaged, flipped, forged
from benchmarks.killed import live
from benchmarks.kills import run_folder
from fcl_bench import Reservoir, Samples, Update
from fcl_bench.__main__ import main as command
from fcl_bench.decoding import MessageError, decode
from fcl_bench.learning import Costs, Progress
from fcl_bench.message import encode
from fcl_bench.message_classes import named
from fcl_bench.run import pace
from fcl_bench.run.checkpoint import decoded, first_checkpoint
from fcl_bench.run.seal import sealed
from fcl_bench.traffic import size

SECONDS = 60  # after which a resumed run counts as one that hangs
RUN = (
    *("method=derpp", "dataset=gaussian", "dataset.classes=6", "dataset.train_size=240", "dataset.test_size=60"),
    *("dataset.features=16", "stream.tasks=3", "partition.clients=3", "method.rounds=2", "method.epochs=1"),
)
CANARY = "benchmarks.damage:Canary"
DECLARED = named(Update, Samples, Reservoir)


@dataclass(frozen=True)
class Canary:
    """A frozen dataclass that nobody declares, and that counts how often it is made all the same."""

    value: Any = 0
    made = 0

    def __post_init__(self) -> None:
        Canary.made += 1


def main() -> int:
    """Damage everything, and print the counts."""
    parser = argparse.ArgumentParser("python -m benchmarks.damage", description=__doc__)
    for name, number in (("encodings", 30_000), ("checkpoints", 3_000), ("folders", 600)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts = {
        "encodings": encodings(options.encodings, random.Random(options.seed)),
        "checkpoints": checkpoints(options.checkpoints, random.Random(options.seed)),
        "run folders": folders(options.folders, random.Random(options.seed)),
    }
    for name, count in counts.items():
        print(f"{name:<12}{count.total():>6}: " + ", ".join(f"{what} {number}" for what, number in count.most_common()))
    return int(any(not good(count) for count in counts.values()))


def good(count: Counter[str]) -> bool:
    """Whether nothing but the expected has happened."""
    return not any(what.startswith("WRONG") for what in count)


def encodings(number: int, random: random.Random) -> Counter[str]:
    """Changed encodings of several messages at ``decode``."""
    names = [*DECLARED, *_all_dataclasses(), CANARY, "os:system", "", ":"]
    originals = [encode(message) for message in some_messages()]
    count: Counter[str] = Counter()
    for _ in range(number):
        original = random.choice(originals)
        changed = forged(original, names, random) if random.random() < 0.6 else damaged(original, random)
        count[_fate_of_encoding(original, changed)] += 1
    if Canary.made:
        count["WRONG undeclared class constructed"] += Canary.made
    return count


def some_messages() -> Iterator[Any]:
    """One of each kind, with classes and without."""
    yield (1, -2.5, "text", None, True, {"a": (), 3: {}})
    yield Update({"head.weight": torch.randn(2, 3), "head.bias": torch.zeros(2)}, 7)
    yield {"buffer": Reservoir(3, {"inputs": torch.randn(3, 2), "labels": torch.tensor([0, 1, 1])})}
    yield (Samples(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64)), torch.tensor([True, False]))
    yield {"uint8": torch.arange(5, dtype=torch.uint8), "half": torch.ones(2, dtype=torch.bfloat16)}


def _fate_of_encoding(original: bytes, changed: bytes) -> str:
    try:
        message = decode(changed, DECLARED)
    except MessageError:
        return "refused"
    except Exception as error:
        return f"WRONG traceback {type(error).__name__}"
    if changed == original:
        return "unchanged"
    try:
        undeclared = set(map(type, _dataclasses_in(message))) - set(DECLARED.values())
        size(message)
        equal = encode(message) == changed
    except Exception as error:
        return f"WRONG accepted, but is no message ({type(error).__name__})"
    if undeclared:
        return "WRONG undeclared class"
    return "another message" if equal else "WRONG accepted, but encodes to other bytes"


def _dataclasses_in(message: Any) -> Iterator[Any]:
    if isinstance(message, dict):
        message = tuple(message.values())
    if isinstance(message, tuple):
        for part in message:
            yield from _dataclasses_in(part)
    elif is_dataclass(message):
        yield message
        yield from _dataclasses_in(tuple(getattr(message, field.name) for field in fields(message)))


def _all_dataclasses() -> list[str]:
    """The names of all dataclasses that are imported."""
    modules = [module for module in list(sys.modules.values()) if hasattr(module, "__dict__")]
    found = {
        value
        for module in modules
        for value in list(vars(module).values())
        if issubclass(type(value), type) and is_dataclass(value)
    }
    return sorted(f"{kind.__module__}:{kind.__qualname__}" for kind in found)


def checkpoints(number: int, random: random.Random) -> Counter[str]:
    """A checkpoint with a flipped bit, damaged otherwise, or forged by somebody who knows how to seal it."""
    progress = Progress(0, 2, 3, Update({"w": torch.randn(9, 9)}, 4), Costs())
    memories = {client: {"buffer": Samples(torch.randn(4, 3), torch.zeros(4))} for client in range(3)}
    original = first_checkpoint(progress, 50).within_task(progress, memories).encoded()
    count: Counter[str] = Counter()
    for _ in range(number):
        change = random.choice([flipped, damaged])
        count[_fate_of_checkpoint(original, change(original, random))] += 1
        forgery = sealed(forged(original, [*DECLARED, CANARY], random))
        count[_fate_of_forgery(forgery)] += 1
    if Canary.made:
        count["WRONG undeclared class constructed"] += Canary.made
    return count


def _fate_of_forgery(forgery: bytes) -> str:
    try:
        decoded(forgery, DECLARED).refuse_unfit(tasks=3, test_samples=50)
    except MessageError:
        return "refused, though its seal is whole"
    except Exception as error:
        return f"WRONG traceback {type(error).__name__}"
    return "forged, and a checkpoint"


def _fate_of_checkpoint(original: bytes, changed: bytes) -> str:
    try:
        decoded(changed, DECLARED)
    except MessageError:
        return "refused"
    except Exception as error:
        return f"WRONG traceback {type(error).__name__}"
    return "unchanged" if changed == original else "WRONG accepted"


def folders(number: int, random: random.Random) -> Counter[str]:
    """An interrupted run, of whose files one is damaged, gone on with."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        words = (*RUN, f"cache_dir={folder / 'cache'}")
        _prepare(words, folder)
        count: Counter[str] = Counter()
        for _ in range(number):
            shutil.rmtree(folder / "runs", ignore_errors=True)
            shutil.copytree(folder / "interrupted", folder / "runs")
            what = damaged_folders.damage(run_folder(folder / "runs"), random)
            fate = _fate_of_folder(words, folder)
            count[f"{fate} ({what})" if fate.startswith("WRONG") else fate] += 1
    return count


def _prepare(words: tuple[str, ...], folder: Path) -> None:
    """A whole run, and one that was killed in the second round of its second task."""
    notes = folder / "notes"
    pace.SHARE = float("inf")  # every round is saved
    whole = live((*words, f"output_dir={folder / 'whole'}"), notes)
    live((*words, f"output_dir={folder / 'interrupted'}"), notes, kill_at=6 * whole.events // 10)


def _fate_of_folder(words: tuple[str, ...], folder: Path) -> str:
    told = StringIO()
    try:
        with _limited(SECONDS), redirect_stdout(StringIO()), redirect_stderr(told), warnings.catch_warnings():
            code = command([*words, f"output_dir={folder / 'runs'}"])
    except TimeoutError:
        return "WRONG hangs"
    except Exception as error:
        return f"WRONG traceback {type(error).__name__}: {error}"[:120]
    if code:
        return "refused in a sentence" if told.getvalue().startswith("fcl_bench: ") else "WRONG no sentence"
    different = differences(run_folder(folder / "whole"), run_folder(folder / "runs"))
    if different:
        return f"WRONG ends differently in {', '.join(different)}"
    return "goes on to the same end, with a warning" if told.getvalue() else "goes on to the same end"


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError

    before: Callable[..., Any] | int | None = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    sys.exit(main())
