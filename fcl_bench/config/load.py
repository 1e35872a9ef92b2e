"""From overrides to a configuration, by Hydra; nothing is checked here, and nothing of a caller's own Hydra is lost."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hydra import initialize_config_module
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig

from fcl_bench.config.catalogue import packages


def load(overrides: Sequence[str], mode: RunMode = RunMode.RUN) -> DictConfig:
    """The configuration for some overrides, with Hydra's own settings in the node ``hydra``."""
    with config_loader() as loader:
        return loader.load_configuration("config", [search_path(), *overrides], run_mode=mode)


@contextmanager
def config_loader() -> Iterator[ConfigLoader]:
    """Hydra's reader of our YAML files."""
    before = GlobalHydra.instance().hydra  # of a caller who uses Hydra as well
    GlobalHydra.instance().clear()
    try:
        with initialize_config_module("fcl_bench.configs", job_name="fcl_bench", version_base="1.3"):
            yield GlobalHydra.instance().config_loader()
    finally:
        GlobalHydra.instance().hydra = before


def search_path() -> str:
    """The override that lets Hydra find the configuration of installed third parties."""
    return f"hydra.searchpath=[{','.join(f'pkg://{package}' for package in packages()[1:])}]"
