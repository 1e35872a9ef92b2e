"""The verbs of the command line. Heavy modules are imported by the verb that needs them."""

import argparse
from collections.abc import Callable
from pathlib import Path

from fcl_bench.errors import UserError
from fcl_bench.visible import visible


def list_choices(words: list[str]) -> None:
    """Every choice of every group, with the first line of its YAML."""
    argparse.ArgumentParser("python -m fcl_bench list", description=list_choices.__doc__).parse_args(words)
    from fcl_bench.config.catalogue import catalogue

    for group, entries in catalogue().items():
        print(group)
        for name, line in entries.items():
            print(f"  {name:<22} {line}")


def show_stream(words: list[str]) -> None:
    """Print who holds which classes when, and save a picture of it."""
    parser = argparse.ArgumentParser("python -m fcl_bench stream", description=show_stream.__doc__)
    parser.add_argument("--out", type=Path, default=Path("stream.png"), help="picture to write (.png, .svg or .pdf)")
    parser.add_argument("overrides", nargs="*", help="as for a run, e.g. dataset=cifar100 stream.tasks=10")
    options = parser.parse_args(words)
    from rich.console import Console

    from fcl_bench.config.compose import composed
    from fcl_bench.leaderboard.picture_file import check_picture, save
    from fcl_bench.leaderboard.stream_picture import dense_counts, picture, table
    from fcl_bench.run.replayed import refuse_contradictions
    from fcl_bench.run.scenario import plan

    check_picture(options.out)
    named = any(word.startswith("method=") for word in options.overrides)
    any_method = [] if named else ["method=afcl"]  # a stream does not depend on it
    config = composed(*any_method, *options.overrides)
    refuse_contradictions(config, options.overrides)
    planned = plan(config)
    stream = planned.stream
    Console(highlight=False).print(table(stream, planned.dataset.classes))
    counts = dense_counts(stream.counts, len(stream.tasks), stream.clients)
    save(picture(counts), options.out)
    print(f"stream {stream.hash[:8]}, picture: {options.out}")


def show_cache(words: list[str]) -> None:
    """List the feature cache, or clear it (all of it, or the entries whose name contains --only)."""
    parser = argparse.ArgumentParser("python -m fcl_bench cache", description=show_cache.__doc__)
    parser.add_argument("action", nargs="?", choices=["list", "clear"], default="list")
    parser.add_argument("--only", default="", metavar="TEXT", help="entries whose name contains this, e.g. a data set")
    parser.add_argument("--cache-dir", type=Path, help="where it lies, if not in the user's cache folder")
    options = parser.parse_args(words)
    from fcl_bench.data.cache import clear, default_folder, entries
    from fcl_bench.run import identity

    folder = options.cache_dir or default_folder()
    clearing = options.action == "clear"
    total = 0
    for entry in entries(folder):
        size = entry.size
        state = "complete" if entry.complete else "partial"
        line = f"{size / 1e6:>10.1f} MB  {state:<8}  {entry.age / 86400:>5.1f} days  {entry.folder.name}"
        chosen = options.only in entry.folder.name
        if chosen and (not clearing or clear([entry])):
            total += size
            print(line)
    if clearing and not options.only:
        identity.clear(folder)
    print(f"{total / 1e6:>10.1f} MB {'cleared from' if clearing else 'in'} {folder}")


def show_method(words: list[str]) -> None:
    """Show a method: its card, its hyper-parameters and what it declares about itself."""
    parser = argparse.ArgumentParser("python -m fcl_bench show", description=show_method.__doc__)
    parser.add_argument("method", metavar="METHOD", help="one that python -m fcl_bench list names")
    parser.add_argument("overrides", nargs="*", help="as for a run, e.g. method.lr=0.1")
    options = parser.parse_args(words)
    from fcl_bench.cli.show import described

    print(described(options.method, options.overrides))


def add_method(words: list[str]) -> None:
    """Write the files of a new method, which runs as it is: class, configuration and test."""
    parser = argparse.ArgumentParser("python -m fcl_bench new-method", description=add_method.__doc__)
    parser.add_argument("name", metavar="NAME", help="in snake_case, e.g. my_method")
    parser.add_argument("--root", type=Path, metavar="DIR", help="another checkout than the one in use")
    options = parser.parse_args(words)
    from fcl_bench.cli.new_method import new_method

    for path in new_method(options.name, options.root or Path(__file__).parents[2]):
        print(path)
    print(f"\nNext:\n  python -m fcl_bench method={options.name}")
    print(f"  pytest --pyargs fcl_bench.checks --method={options.name}")


def show_leaderboard(words: list[str]) -> None:
    """Compare runs."""
    from fcl_bench.leaderboard.command import leaderboard

    leaderboard(words)


def plot_runs(words: list[str]) -> None:
    """Draw runs."""
    from fcl_bench.leaderboard.command import plot

    plot(words)


def certify_runs(words: list[str]) -> None:
    """See whether runs of exact methods are equal to one joint solution."""
    from fcl_bench.cli.exactness import certify

    certify(words)


def unlearn_samples(words: list[str]) -> None:
    """Take samples out of a run of an exact method."""
    from fcl_bench.cli.exactness import unlearn

    unlearn(words)


def tune_methods(words: list[str]) -> None:
    """Choose hyper-parameters on held-out training samples."""
    from fcl_bench.cli.tuning import tune

    tune(words)


def compare_records(words: list[str]) -> None:
    """Say whether two records are the same run to the bit and, if not, where they part first.

    Compared are settings, contents, stream, exchanges, predictions, accuracies, traffic, evidence and final state, not
    seconds and memory. Exit code 0 if they are the same, 1 if not, 2 if they cannot be compared.
    """
    parser = argparse.ArgumentParser("python -m fcl_bench same", description=compare_records.__doc__)
    parser.add_argument("runs", nargs=2, type=Path, metavar="RUN", help="folder of a finished run, or its result.json")
    options = parser.parse_args(words)
    from fcl_bench.run.same import compare

    comparison = compare(*options.runs)
    if comparison.parting is not None:
        raise UserError(comparison.sentence)
    print(visible(comparison.sentence))


def reproduce_rows(words: list[str]) -> None:
    """Run published rows again from their records."""
    from fcl_bench.cli.reproduce import reproduce

    reproduce(words)


VERBS: dict[str, Callable[[list[str]], None]] = {
    "list": list_choices,
    "show": show_method,
    "stream": show_stream,
    "cache": show_cache,
    "new-method": add_method,
    "leaderboard": show_leaderboard,
    "plot": plot_runs,
    "certify": certify_runs,
    "unlearn": unlearn_samples,
    "same": compare_records,
    "tune": tune_methods,
    "reproduce": reproduce_rows,
}
