"""``python -m benchmarks.signals``: runs and sweeps that are ended by signals at random moments, and what they leave.

Each of them is started in a session of its own and would not end by itself. Ctrl-C reaches the whole session, as a
terminal sends it; SIGTERM and SIGKILL reach the first process only. Linux only.
"""

import argparse
import collections
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ENDLESS = ("method=finetune", "method.rounds=100000", "method.epochs=1", "stream.tasks=3", "partition.clients=3")
SIZES = ("dataset.classes=6", "dataset.train_size=240", "dataset.test_size=60", "dataset.features=16")
TINY = ("dataset=gaussian", *SIZES)
SWEEP = (*TINY, "-m", "seed=1,2,3,4")
WAYS = {
    "one run": TINY,
    "processes": (*TINY, "transport=processes", "transport.workers=2"),
    "trainer": (*TINY, "local=trainer"),
    "features": ("dataset=digits", "backbone=resnet18", "backbone.weights=none"),
    "wandb": (*TINY, "logger=wandb", "logger.mode=offline"),
    "sweep": SWEEP,
    "joblib": (*SWEEP, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"),
    "submitit": (*SWEEP, "hydra/launcher=submitit_local"),
}
ENDS = {"Ctrl-C": signal.SIGINT, "SIGTERM": signal.SIGTERM, "SIGKILL": signal.SIGKILL}
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
MARK = "FCL_BENCH_SIGNALS"  # in the environment of every process that is started here
PATIENCE = 20.0  # seconds to end in


@dataclass(frozen=True)
class End:
    """What was seen of one process that got a signal."""

    seconds: float  # until it had ended
    problems: tuple[str, ...]
    left_behind: int
    temporary: int
    stderr: str


def main() -> int:
    """One line per way and signal; exit code 1 if anything was not as it should be."""
    parser = argparse.ArgumentParser("python -m benchmarks.signals", description=__doc__)
    parser.add_argument("ways", nargs="*", metavar="WAY", help=f"some of {', '.join(WAYS)}")
    parser.add_argument("--count", type=int, default=5, help="moments per way and signal")
    parser.add_argument("--longest", type=float, default=12.0, metavar="SECONDS", help="moments are drawn up to here")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="print what ended processes said")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    bad = 0
    for way in options.ways or WAYS:
        for name, number in ENDS.items():
            moments = sorted(draw.uniform(0.05, options.longest) for _ in range(options.count))
            ends = [ended(WAYS[way], number, moment) for moment in moments]
            bad += sum(bool(end.problems) for end in ends)
            report(f"{way}, {name}", moments, ends, options.verbose)
    return int(bad > 0)


def report(name: str, moments: list[float], ends: list[End], verbose: bool) -> None:
    problems = collections.Counter(problem for end in ends for problem in end.problems)
    told = ", ".join(f"{problem}: {count}" for problem, count in problems.items()) or "all well"
    slowest = max(end.seconds for end in ends)
    left = sum(end.left_behind for end in ends)
    files = sum(end.temporary for end in ends)
    print(
        f"{name:<20} {len(ends)} ends, slowest {slowest:.1f} s, processes left {left}, temporary files {files}: {told}",
        flush=True,
    )
    for moment, end in zip(moments, ends, strict=True):
        if verbose and end.problems:
            print(f"--- after {moment:.2f} s: {', '.join(end.problems)}\n{end.stderr}", flush=True)


def ended(words: tuple[str, ...], number: signal.Signals, moment: float) -> End:
    """Start, wait, send the signal, and look around."""
    with TemporaryDirectory() as folder:
        mark = f"{os.getpid()}-{time.monotonic_ns()}"
        command = [sys.executable, "-m", "fcl_bench", *ENDLESS, *words, f"output_dir={folder}/runs"]
        process = subprocess.Popen(
            [*command, f"cache_dir={folder}/cache"],
            cwd=folder,
            env={**os.environ, MARK: mark},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        time.sleep(moment)
        begun = time.monotonic()
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        code, text = outcome(process)
        seconds = time.monotonic() - begun
        left = orphans(mark)
        problems = tuple(problems_of(number, code, text, len(left)))
        for orphan in left:
            with suppress(OSError):
                os.kill(orphan, signal.SIGKILL)
        files = [path for path in Path(folder).rglob(".*") if re.fullmatch(r"\..+\.\w{8}", path.name)]
        return End(seconds, problems, len(left), len(files), text)


def outcome(process: "subprocess.Popen[str]") -> tuple[int | None, str]:
    """Exit code and stderr; None where it had to be killed, or where others hold its stderr open."""
    try:
        _, text = process.communicate(timeout=PATIENCE)
        return process.returncode, text
    except subprocess.TimeoutExpired:
        code = process.poll()
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        return code, process.communicate()[1]


def orphans(mark: str) -> list[int]:
    """The processes of a command that has ended, after they had time to notice."""
    end = time.monotonic() + PATIENCE / 4
    while (left := list(marked(mark))) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def marked(mark: str) -> Iterator[int]:
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in environment.read_bytes():
                yield int(environment.parent.name)


def problems_of(number: signal.Signals, code: int | None, text: str, left: int) -> Iterator[str]:
    if code != CODES[number]:
        yield f"exit code {code}"
    if left:
        yield "processes left behind"
    if "Traceback" in text:
        yield "traceback"
    sentences = [line for line in text.splitlines() if line.startswith("fcl_bench: Interrupted")]
    if number != signal.SIGKILL and len(sentences) != 1:
        yield f"{len(sentences)} sentences"
    usual = [line for line in text.splitlines() if line.startswith("Waiting for another process")]
    if len(text.splitlines()) > len(sentences) + len(usual):
        yield "other words"


if __name__ == "__main__":
    sys.exit(main())
