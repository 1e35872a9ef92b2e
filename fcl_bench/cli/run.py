"""``python -m fcl_bench OVERRIDES``: a run, a sweep, or a look at what they would do."""

import argparse
from importlib.metadata import version
from typing import NoReturn

from omegaconf import DictConfig, OmegaConf

from fcl_bench.cli import console
from fcl_bench.cli.job import carry_out, viewed
from fcl_bench.cli.verbs import VERBS
from fcl_bench.config.catalogue import GROUPS, names
from fcl_bench.config.compose import keys, settings_of
from fcl_bench.config.explain import explained
from fcl_bench.config.load import load
from fcl_bench.errors import ConfigError, choices

HELP = """\
fcl_bench runs one method of federated continual learning on one stream of tasks and clients.

Usage: python -m fcl_bench [OPTIONS] method=NAME [group=NAME ...] [key=value ...]

Options
  -m, --multirun      a sweep: all combinations of values that are separated by commas
  --cfg job           print the settings of the run instead (also: hydra, all); --resolve without references
  --version           print the version of fcl_bench
  -h, --help          print this; after method=NAME, with the settings of the method

Groups (python -m fcl_bench list says what each choice is)
{groups}

Examples
  python -m fcl_bench method=afcl
  python -m fcl_bench method=finetune dataset=cifar100 data_dir=DATA stream.tasks=10 partition.alpha=0.1 seed=2
  python -m fcl_bench -m method=afcl,finetune seed=1,2,3

Settings, with their defaults
{settings}
Also: python -m fcl_bench {verbs}   (each with --help)"""


def run(words: list[str]) -> None:
    """Do what the words say; options may stand anywhere between the settings."""
    options = _parsed(words)
    overrides: list[str] = options.overrides
    if options.version:
        print(f"fcl_bench {version('fcl-bench')}")
    elif options.help:
        print(_help(overrides))
    elif options.cfg:
        print(_settings(overrides, options.cfg, options.resolve), end="")
    elif options.multirun:
        from fcl_bench.cli.sweep import sweep

        sweep(overrides)
    else:
        _run_once(overrides)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"Cannot read the options: {message}.")


def _parsed(words: list[str]) -> argparse.Namespace:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--cfg", "-c", choices=["job", "hydra", "all"])
    for flags in (["--help", "-h"], ["--multirun", "-m"], ["--resolve"], ["--version"]):
        parser.add_argument(*flags, action="store_true")
    options, unknown = parser.parse_known_intermixed_args(words)
    if unknown:
        name = unknown[0].partition("=")[0]
        allowed = choices(name, ["--cfg", "--help", "--multirun", "--resolve", "--version"])
        raise ConfigError(f"There is no option {name}: settings are key=value, without dashes; options are {allowed}.")
    return options


def _help(overrides: list[str]) -> str:
    no_method = [] if any(word.startswith("method=") for word in overrides) else ["~method"]
    settings = _settings([*no_method, *overrides], "job", resolve=False)
    groups = "\n".join(f"{group}: {', '.join(names(group))}" for group in GROUPS)
    return HELP.format(groups=groups, settings=settings, verbs=" | ".join(VERBS))


def _settings(overrides: list[str], part: str, resolve: bool) -> str:
    """YAML of the settings of the run, of Hydra or of both."""
    with explained(VERBS):
        composed = load(overrides)
        parts = {
            "job": settings_of(composed, overrides),
            "hydra": OmegaConf.masked_copy(composed, ["hydra"]),
            "all": composed,
        }
        return OmegaConf.to_yaml(parts[part], resolve=resolve)


def _run_once(overrides: list[str]) -> None:
    with explained(VERBS):
        composed = load(overrides)
    _refuse_a_sweep(composed.hydra, overrides)
    with viewed(console.View()) as view:
        carry_out(composed, composed.hydra.overrides.task, view)


def _refuse_a_sweep(hydra: DictConfig, overrides: list[str]) -> None:
    """An experiment may name the values of a sweep; without ``-m`` they would be ignored."""
    swept = [key for key in hydra.sweeper.params or () if key not in keys(overrides)]
    if swept:
        raise ConfigError(
            f"experiment={hydra.runtime.choices.experiment} is a sweep over {', '.join(swept)}: "
            "add -m, or give each of them one value."
        )
