"""``python -m fcl_bench certify`` and ``unlearn``: what exact methods can be asked after a run."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from fcl_bench.cli.console import final_table
from fcl_bench.errors import ConfigError, UserError

RUN = "folder of a finished run, or its result.json"
SETTINGS = "behind the runs: data_dir=FOLDER, cache_dir=FOLDER; all else is as in the record"


def certify(words: Sequence[str]) -> None:
    """Compute the answer of a run again in one place, without clients or tasks, and say whether it is equal.

    What was found is written to certificate.json beside the record, and the leaderboard shows it. Exit code 1 if an
    answer differs, 2 if a run cannot be certified; the others are certified all the same.
    """
    parser = _parser("certify", certify.__doc__)
    parser.add_argument("words", nargs="+", metavar="RUN", help=f"{RUN}; {SETTINGS}")
    runs, settings = runs_and_settings(parser.parse_args(words).words)
    from fcl_bench.exact import certify as certifying

    problems: list[UserError] = []
    different = 0
    for run in runs:
        try:
            certificate = certifying.certify(run, settings)
        except UserError as error:
            problems.append(error)
            continue
        print(f"{certificate.run_id}: {certificate.sentence}.", flush=True)
        different += certificate.verdict == "differs"
    if different:
        problems.append(UserError(f"Of {len(runs)} runs, {different} did not give the answer of one place."))
    _raise_the_worst(problems)


def unlearn(words: Sequence[str]) -> None:
    """Take samples out of the model of a run, as if it had never seen them, and prove it by learning without them.

    What is forgotten are the samples that all given options select. The result is a record of its own beside that of
    the run; exit code 1 if it is not what learning without these samples gives.
    """
    parser = _parser("unlearn", unlearn.__doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help=RUN)
    parser.add_argument("--client", type=int, metavar="K", help="what this client held, counted from 0")
    parser.add_argument("--task", type=int, metavar="T", help="what came in this task, counted from 1")
    parser.add_argument("--class", dest="label", metavar="C", help="samples of a class: its name, or its number from 0")
    parser.add_argument(
        "--samples", type=Path, metavar="FILE", help="numbers of training samples from 0, one per line, or .npy"
    )
    parser.add_argument("--no-proof", action="store_true", help="do not learn again without these samples")
    parser.add_argument("settings", nargs="*", help=SETTINGS)
    options = parser.parse_args(words)
    from fcl_bench.exact import unlearn as unlearning
    from fcl_bench.exact.forgotten import Selectors

    what = Selectors(options.client, options.task, options.label, options.samples)
    if what == Selectors():
        raise ConfigError("Say what is to be forgotten: --client K, --task T, --class C or --samples FILE.")
    command = shlex.join(["python", "-m", "fcl_bench", "unlearn", *words])
    done = unlearning.unlearn(options.run, what, options.settings, command, proof=not options.no_proof)
    Console(highlight=False).print("", final_table(done.result))
    proof = done.result["unlearned"]
    if proof["verdict"]:
        print(f"{proof['sentence']}.")
    print(f"record: {done.folder}", flush=True)
    if proof["verdict"] == "differs":
        raise UserError("The model is not that of a run that never saw these samples: unlearn of the method is wrong.")


def _parser(verb: str, description: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(f"python -m fcl_bench {verb}", description=description)


def runs_and_settings(words: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The words of a command line that are paths, of which there must be one, and those that are settings."""
    from fcl_bench.exact.finished import is_override

    settings = [word for word in words if is_override(word)]
    runs = [Path(word) for word in words if word not in settings]
    if not runs:
        raise ConfigError("Name a run: the folder of a finished one, or its result.json.")
    return runs, settings


def _raise_the_worst(problems: Sequence[UserError]) -> None:
    """The others become a line each."""
    ordered = sorted(problems, key=lambda problem: problem.exit_code)
    for problem in ordered[:-1]:
        print(f"fcl_bench: {problem}", file=sys.stderr)
    if ordered:
        raise ordered[-1]
