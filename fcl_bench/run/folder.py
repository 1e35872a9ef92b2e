"""The folder of a run, as far as it can be read without anything heavy: whether it is finished, with which result."""

import re
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from fcl_bench.config.run_id import method_name, run_id
from fcl_bench.errors import UserError
from fcl_bench.run.identity import Looks, recall
from fcl_bench.run.result import Result, read_result

PLACES = ("output_dir", "cache_dir", "data_dir", "resume")


class RunFolder:
    """``<output_dir>/<dataset>/<backbone>/<stream>/<method>/<run_id>``."""

    def __init__(self, config: DictConfig):
        self.config, self.run_id = config, run_id(config)
        names = (config.dataset.name, config.backbone.name, config.stream.name, method_name(config), self.run_id)
        self.folder = Path(config.output_dir, *(re.sub(r"[^\w.-]+|^\.+", "_", name) for name in names))

    def result(self) -> Result | None:
        """What ``result.json`` says, if there is one."""
        path = self.folder / "result.json"
        return read_result(path) if path.exists() else None

    def completed(self, identity: str) -> Result | None:
        """The result, if this very run, with contents of this ``identity``, was completed before."""
        self.refuse_another_run(identity)
        result = self.result()
        return result if result and result["status"] == "complete" else None

    def refuse_another_run(self, identity: str) -> None:
        """Raise a :class:`UserError` if the folder was made by another configuration, or from other contents."""
        path, result = self.folder / "config.yaml", self.result()
        other = f"{self.folder} holds a different run"
        if path.exists() and run_id(_read_config(path)) != self.run_id:
            raise UserError(
                f"{other}: its config.yaml is not that of {self.run_id}; "
                "move it away, or set output_dir= to another folder."
            )
        if result and result["inputs"] != identity:
            raise UserError(
                f"{other}: the contents of its data set, weights or stream were not the present ones; "
                "move it away, or set output_dir= to another folder."
            )


def finished(config: DictConfig, looks: Looks | None = None) -> tuple[Result, Path] | None:
    """Result and folder of a run that was completed with these very settings, which then need no check; else None.

    None also where only a look at data and weights could tell; :func:`fcl_bench.run.experiment.run` does take it.
    """
    try:
        run = RunFolder(config)
        resume, settings = config.resume is True, _comparable(OmegaConf.to_container(config, resolve=True))
    except Exception:  # not a valid configuration: its check will say what is wrong
        return None
    if not resume or not (run.folder / "result.json").exists():
        return None
    identity = recall(config, looks)
    result = run.completed(identity) if identity else None
    return (result, run.folder) if result and _comparable(result.get("config")) == settings else None


def _comparable(settings: Any) -> Any:
    """All settings but the places of files, at any depth: where a run finds its data is part of its identity."""
    if isinstance(settings, dict):
        return {key: _comparable(value) for key, value in settings.items() if key not in PLACES}
    return settings


def _read_config(path: Path) -> DictConfig:
    try:
        config = OmegaConf.load(path)
        assert isinstance(config, DictConfig)
        run_id(config)
        return config
    except Exception as error:
        raise UserError(f"{path} is not the configuration of a run: move that folder away.") from error
