"""The folder of a run: where it is, and whether it belongs to another run. Nothing heavy is imported for that.

Whether the run in it is finished is decided in :mod:`fcl_bench.run.finished_runs`; what is in it is written by
:mod:`fcl_bench.run.record`.
"""

import re
from pathlib import Path

from omegaconf import DictConfig

from fcl_bench.config.run_id import method_name, run_id
from fcl_bench.config.saved import saved_settings
from fcl_bench.errors import UserError
from fcl_bench.run.result import Result, read_result


class RunFolder:
    """``<output_dir>/<dataset>/<backbone>/<stream>/<method>/<run_id>``."""

    def __init__(self, config: DictConfig):
        self.config = config
        self.run_id = run_id(config)
        names = (config.dataset.name, config.backbone.name, config.stream.name, method_name(config), self.run_id)
        safe = [re.sub(r"[^\w.-]+|^\.+", "_", name) for name in names]
        self.folder = Path(config.output_dir, *safe)

    def result(self) -> Result | None:
        """What ``result.json`` says, if there is one."""
        path = self.folder / "result.json"
        return read_result(path) if path.exists() else None

    def refuse_another_run(self, identity: str) -> None:
        """Raise a :class:`UserError` if the folder was made by another configuration, or from other contents."""
        path = self.folder / "config.yaml"
        other = f"{self.folder} holds a different run"
        if path.exists() and run_id(_read_config(path)) != self.run_id:
            raise UserError(
                f"{other}: its config.yaml is not that of {self.run_id}; "
                "move it away, or set output_dir= to another folder."
            )
        result = self.result()
        if result and result.get("inputs") != identity:
            raise UserError(
                f"{other}: the contents of its data set, weights or stream were not the present ones; "
                "move it away, or set output_dir= to another folder."
            )


def _read_config(path: Path) -> DictConfig:
    try:
        config = saved_settings(path)
        run_id(config)
        return config
    except Exception as error:
        raise UserError(f"{path} is not the configuration of a run ({error}): move that folder away.") from error
