"""``python -m fcl_bench reproduce``: published rows run again from their records."""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fcl_bench.cli.console import View
from fcl_bench.cli.exactness import runs_and_settings
from fcl_bench.cli.job import viewed
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.interruption import Interrupted, interrupted
from fcl_bench.visible import visible

if TYPE_CHECKING:  # settings are composed where there are some
    from fcl_bench.reproduce.places import Places

FAILED = "cannot be run again"


def reproduce(words: Sequence[str]) -> None:
    """Run rows again from their records, and say equal, equal within rounding, or different, and in what.

    Equal is all that a run computes, to the bit; seconds and memory do not count. Within rounding, accuracies differ by
    0.1 percentage points at most, and no count does. New records go to reproduced/, or to output_dir=FOLDER. Exit code
    0 if all are equal or equal within rounding, 1 if one is different, 2 if one cannot be run.
    """
    parser = argparse.ArgumentParser("python -m fcl_bench reproduce", description=reproduce.__doc__)
    parser.add_argument(
        "words",
        nargs="+",
        metavar="RECORD",
        help="a result.json, or a folder to search for them; behind them where the runs take place: data_dir=FOLDER, "
        "cache_dir=FOLDER, output_dir=FOLDER, transport=NAME, logger=NAME, local.accelerator=NAME, resume=false",
    )
    paths, settings = runs_and_settings(parser.parse_args(words).words)
    from fcl_bench.reproduce.places import places

    here = places(settings)
    found = _without_new_ones(paths, Path(here.settings["output_dir"]).resolve())
    if not found:
        raise ConfigError("There is no record to reproduce: name folders of finished runs, or their result.json.")
    _reproduce_all(found, settings, here)


def _without_new_ones(paths: Sequence[Path], output_dir: Path) -> list[Path]:
    """The records in some folders; where ``output_dir`` is a part of one of these, what lies in it was made here."""
    from fcl_bench.run.found import records

    searched = any(path.resolve() in output_dir.parents for path in paths)
    return [path for path in records(paths) if not (searched and output_dir in path.resolve().parents)]


def _reproduce_all(found: Sequence[Path], settings: Sequence[str], here: "Places") -> None:
    """A line for each as soon as it is known, then how many of them have which verdict."""
    from fcl_bench.reproduce.again import reproduce as run_again

    counts: Counter[str] = Counter()
    for path in found:
        command = shlex.join(["python", "-m", "fcl_bench", "reproduce", str(path), *settings])
        try:
            with viewed(_view()) as view, _as_user_errors():
                done = run_again(path, here, view, command)
        except UserError as error:
            sentence = f"{path} cannot be run again: {error}"
            if len(found) == 1:
                raise ConfigError(sentence) from error
            counts[FAILED] += 1
            print(f"fcl_bench: {visible(sentence)}", file=sys.stderr, flush=True)
            continue
        counts[done.verdict.name] += 1
        note = " It had been run before, by the same code: resume=false runs it anew." if view.skipped else ""
        print(visible(f"{path}: {done.verdict.name}: {done.verdict.sentence}{note}"), flush=True)
    if len(found) > 1:
        print(f"{len(found)} records: {', '.join(f'{number} {name}' for name, number in counts.items())}.")
    if counts[FAILED]:
        raise ConfigError(f"Of {len(found)} records, {counts[FAILED]} cannot be run again.")
    if counts["different"]:
        raise UserError(f"Of {len(found)} records, {counts['different']} did not come out again.")


def _view() -> View:
    """Progress is for people, so that what is said on stdout is a line for each record."""
    terminal = sys.stderr.isatty()
    return View(Console(stderr=True, highlight=False, quiet=not terminal), sweep=True)


@contextmanager
def _as_user_errors() -> Iterator[None]:
    """What goes wrong in one run is told in a sentence, so that the records after it are run."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if interrupted():
            raise Interrupted from error
        raise UserError(" ".join(f"{type(error).__name__}: {error}".split())) from error
