"""The verbs of the command line. Heavy modules are imported by the verb that needs them."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path


def run(words: list[str]) -> None:
    """``python -m fcl_bench OVERRIDES``: a run, or with ``-m`` a sweep, in which one failure does not stop the rest."""
    import hydra
    from omegaconf import DictConfig

    from fcl_bench.config import check, search_path
    from fcl_bench.explain import explained

    failures: list[Exception] = []

    @hydra.main(version_base="1.3", config_path="pkg://fcl_bench.configs", config_name="config")
    def job(config: DictConfig) -> None:
        from fcl_bench.console import View
        from fcl_bench.experiment import run as run_experiment

        view = View()
        try:
            check(config)
            run_experiment(config, view)
        except Exception as error:  # kept for main(), past Hydra, which would print it in its own way
            failures.append(error)
        finally:
            view.stop()

    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors of composition reach explained()
    sys.argv[1:] = [*words, *search_path()]
    with explained():
        job()
    if failures:
        raise failures[0]


def list_choices(words: list[str]) -> None:
    """Every choice of every group, with the first line of its YAML."""
    argparse.ArgumentParser("python -m fcl_bench list", description=list_choices.__doc__).parse_args(words)
    from fcl_bench.catalogue import catalogue

    for group, entries in catalogue().items():
        print(group)
        for name, line in entries.items():
            print(f"  {name:<22} {line}")


def show_stream(words: list[str]) -> None:
    """Print who holds which classes when, and save a picture of it."""
    parser = argparse.ArgumentParser("python -m fcl_bench stream", description=show_stream.__doc__)
    parser.add_argument("--out", type=Path, default=Path("stream.png"), help="picture to write (.png or .svg)")
    parser.add_argument("overrides", nargs="*", help="as for a run, e.g. dataset=cifar100 stream.tasks=10")
    options = parser.parse_args(words)
    from rich.console import Console

    from fcl_bench.config import composed
    from fcl_bench.files import writing_to
    from fcl_bench.stream_picture import picture, table
    from fcl_bench.world import deal

    with_method = any(word.startswith("method=") for word in options.overrides)
    config = composed(*([] if with_method else ["method=afcl"]), *options.overrides)
    dataset, stream = deal(config)
    Console(highlight=False).print(table(stream, dataset.train.labels, dataset.classes))
    with writing_to(options.out.parent, "--out"):
        picture(stream, dataset.train.labels, options.out)
    print(f"stream {stream.hash[:8]}, picture: {options.out}")


def show_cache(words: list[str]) -> None:
    """List the feature cache, or clear it."""
    parser = argparse.ArgumentParser("python -m fcl_bench cache", description=show_cache.__doc__)
    parser.add_argument("action", nargs="?", choices=["list", "clear"], default="list")
    parser.add_argument("overrides", nargs="*", help="cache_dir=FOLDER, if it is not the default one")
    options = parser.parse_args(words)
    raise NotImplementedError


VERBS: dict[str, Callable[[list[str]], None]] = {"list": list_choices, "stream": show_stream, "cache": show_cache}
