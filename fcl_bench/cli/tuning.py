"""``python -m fcl_bench tune``: methods tuned alike, on held-out training samples."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from fcl_bench.errors import ConfigError

DESCRIPTION = """\
Choose hyper-parameters of methods on held-out training samples, with as many trials for each.

A fifth of the training samples takes the place of the test set, which is never read. Where values are searched stands
under `search` in the YAML of a method; method.search.NAME={low: 0.1, high: 10, scale: log} and
method.search.NAME.choices=[1,10] change it. Trial 0 are the method's defaults. All trials are written to
FOLDER/PROTOCOL.json; the same command again runs those that are left.
"""


def tune(words: Sequence[str]) -> None:
    """Tune methods, and say what is chosen."""
    options = _parsed(words)
    methods, others = methods_and_others(options.overrides)
    from fcl_bench.tuning import tune as tuning

    request = tuning.Request(
        methods=methods,
        words=others,
        trials=options.trials,
        workers=options.workers,
        seed=options.seed,
        out=options.out,
        configs=options.configs,
    )
    outcome = tuning.tune(request, say, filling)
    say(f"outcome: {tuning.path_of(request.out, outcome.protocol)}")


def methods_and_others(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The methods that are named, and all other overrides.

    >>> methods_and_others(["method=afcl,joint", "seed=1"])
    (['afcl', 'joint'], ['seed=1'])
    """
    named = [word for word in words if word.startswith("method=")]
    if len(named) != 1 or named == ["method="]:
        raise ConfigError("Name the methods to tune once, with commas between them: method=NAME,NAME.")
    methods = [name.strip() for name in named[0].removeprefix("method=").split(",")]
    for method in methods:
        if methods.count(method) > 1:
            raise ConfigError(f"Expected each method once, but {method} is named {methods.count(method)} times.")
    return methods, [word for word in words if word not in named]


def say(line: str) -> None:
    """Print a line now, also into a pipe."""
    print(line, flush=True)


def filling(what: str) -> Callable[[int, int], None]:
    """Say how far the feature cache is, in tenths."""
    told: set[int] = set()

    def progress(done: int, total: int) -> None:
        tenth = 10 * done // total
        if tenth not in told:
            told.add(tenth)
            say(f"computing {what}: {10 * tenth} %")

    return progress


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m fcl_bench tune", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=_positive, default=16, metavar="N", help="of each method (16)")
    parser.add_argument("--workers", type=_positive, default=1, metavar="N", help="processes (1); no result depends on")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="K", help="of trials and stream (0); none is reported on"
    )
    parser.add_argument("--out", type=Path, default=Path("tuning"), metavar="FOLDER", help="where trials go (tuning)")
    parser.add_argument("--configs", type=Path, metavar="FOLDER", help="write FOLDER/PROTOCOL/METHOD.yaml for each")
    parser.add_argument("overrides", nargs="*", help="method=NAME,NAME and settings as for a run, but no seed")
    return parser.parse_intermixed_args(list(words))


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, but got {text!r}")
    return int(text)
