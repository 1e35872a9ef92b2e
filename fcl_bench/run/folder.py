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
from fcl_bench.files import refuse_what_is_no_file, refuse_what_is_no_folder, remove_leftovers
from fcl_bench.run.result import Result, read_result

LAST = "checkpoint.safetensors"  # in the folder of checkpoints
BEFORE = "before.safetensors"
NEXT = "next.safetensors"  # whole, but not yet in its place
CHECKPOINTS = (LAST, BEFORE, NEXT)
FILES = (
    *("config.yaml", "stream.npz", "stream.json", "result.json", "predictions.npz", "classes.npz"),
    *("exchanges.jsonl", "exchanges.csv", "metrics.csv", ".lock"),
)


class RunFolder:
    """``<output_dir>/<dataset>/<backbone>/<stream>/<method>/<run_id>``."""

    def __init__(self, config: DictConfig):
        self.config = config
        self.run_id = run_id(config)
        names = (config.dataset.name, config.backbone.name, config.stream.name, method_name(config), self.run_id)
        safe = [re.sub(r"[^\w.-]+|^\.+", "_", name) for name in names]
        self.folder = Path(config.output_dir, *safe)
        self.checkpoints = self.folder / "checkpoint"

    def result(self) -> Result | None:
        """What ``result.json`` says, if there is one."""
        path = self.folder / "result.json"
        return read_result(path) if path.exists() else None

    def refuse_another_run(self, identity: str) -> None:
        """Raise a :class:`UserError` if the folder was made by another configuration, or from other contents."""
        self.refuse_foreign_files()
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

    def refuse_foreign_files(self) -> None:
        """Raise a :class:`UserError` if a link, a pipe or a folder is in the place of one of the run's files."""
        refuse_what_is_no_folder(self.checkpoints)
        for path in self._files():
            refuse_what_is_no_file(path)

    def remove_leftovers(self) -> None:
        """Remove temporary files that a kill has left; for the process that has locked the folder."""
        remove_leftovers(self.folder, FILES)
        remove_leftovers(self.checkpoints, CHECKPOINTS)

    def _files(self) -> list[Path]:
        own = [self.folder / name for name in FILES]
        return own + [self.checkpoints / name for name in CHECKPOINTS]


def _read_config(path: Path) -> DictConfig:
    try:
        config = saved_settings(path)
        run_id(config)
        return config
    except Exception as error:
        raise UserError(f"{path} is not the configuration of a run ({error}): move that folder away.") from error
