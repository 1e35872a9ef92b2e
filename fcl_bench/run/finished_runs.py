"""Where it is decided that a run was finished before, so that it is shown again instead of repeated.

The same configuration is not enough: the contents of data, stream and weights must be the same too. The first question
is asked without torch, for the sake of a quick answer; the second one when the contents are known.
"""

from pathlib import Path

from omegaconf import DictConfig

from fcl_bench.data.file_states import FileStates
from fcl_bench.run.folder import RunFolder
from fcl_bench.run.identity import lookup
from fcl_bench.run.result import Result


def find_finished(config: DictConfig, states: FileStates | None = None) -> tuple[Result, Path] | None:
    """Result and folder of a run that was completed before, if that is known without a look at data and weights.

    The configuration then needs no check, as it passed one before its contents became known. None says nothing:
    :func:`fcl_bench.run.experiment.run` looks at the contents and asks :func:`finished_result`.
    """
    try:
        run = RunFolder(config)
        if config.resume is not True or not (run.folder / "result.json").exists():
            return None
        identity = lookup(config, states)
    except Exception:  # not a valid configuration: its check will say what is wrong
        return None
    result = finished_result(run, identity) if identity else None
    return (result, run.folder) if result else None


def finished_result(run: RunFolder, identity: str) -> Result | None:
    """The result, if this very run, with contents of this ``identity``, was completed before."""
    run.refuse_another_run(identity)
    result = run.result()
    return result if result and result.get("status") == "complete" else None
