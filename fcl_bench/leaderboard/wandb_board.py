"""The leaderboard as one run of Weights & Biases: the tables, the plots, and the files as an artifact."""

import csv
import io
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fcl_bench.errors import UserError
from fcl_bench.leaderboard.boards import Board
from fcl_bench.leaderboard.plots import curves, matrix, pareto, retention
from fcl_bench.leaderboard.render import cells
from fcl_bench.leaderboard.sheet import sheet
from fcl_bench.wandb_service import Mode, begun, data_dir, patience, told, within

TIMEOUT = 60.0  # seconds to wait for the service, at the beginning and at the end


def publish(boards: Sequence[Board], files: dict[str, str], project: str, folder: Path) -> str:
    """Log it all to a new W&B run, whose own files lie in ``folder/wandb``, and say where it is.

    Online if wandb knows an API key and the service answers, else offline.
    """
    import wandb

    def start(mode: Mode) -> Any:
        return wandb.init(
            project=project,
            mode=mode,
            name="leaderboard",
            job_type="leaderboard",
            config={"boards": [board.heading for board in boards], "sort": boards[0].sort},
            dir=folder.absolute(),
            reinit="create_new",
            settings=patience(TIMEOUT),
        )

    try:
        run = begun(None, start, lambda text: warnings.warn(f"The W&B leaderboard {text}", stacklevel=2))
        if run is None:
            return "W&B is disabled, so nothing was published."
        place = run.settings.sync_dir
        with data_dir(folder.absolute() / "wandb"):
            within(TIMEOUT, _log, run, boards, files)
        within(1.5 * TIMEOUT, run.finish)
        return told(run, place)
    except Exception as error:
        raise UserError(f"The leaderboard cannot be published to W&B ({error!r}): try WANDB_MODE=offline.") from error


def _log(run: Any, boards: Sequence[Board], files: dict[str, str]) -> None:
    import wandb

    run.log({"leaderboard": wandb.Table(*_numbers(sheet(boards))), **dict(_shown(boards))})
    for board in boards:
        for row in board.rows:
            run.summary[f"{board.heading}/{row.name}/{board.sort}"] = row.scores[board.sort].mean
    with TemporaryDirectory() as scratch:
        artifact = wandb.Artifact("leaderboard", "leaderboard")
        for name, text in files.items():
            Path(scratch, name).write_text(text)
            artifact.add_file(str(Path(scratch, name)))
        run.log_artifact(artifact)


def _shown(boards: Sequence[Board]) -> Iterator[tuple[str, Any]]:
    """A table of words for every board, and the plots."""
    import wandb

    for number, board in enumerate(boards, start=1):
        titles, *lines = cells(board)
        yield f"board {number}: {board.heading}", wandb.Table([*titles], lines)
    for kind in (curves, retention, pareto, matrix):
        for number, (what, figure) in enumerate(kind(boards), start=1):
            picture = io.BytesIO()
            figure.savefig(picture, dpi=150)
            yield f"{kind.__name__} {number}", wandb.Image(picture, caption=what or None)


def _numbers(text: str) -> tuple[list[str | int], list[list[str | float | None]]]:
    """The CSV as columns of one type each, as W&B wants them."""
    titles, *lines = csv.reader(io.StringIO(text))
    measured = [title.endswith(("_mean", "_sd", "_low", "_high", "_to_best")) or title == "seeds" for title in titles]
    rows = [
        [(float(cell) if cell else None) if numeric else cell for numeric, cell in zip(measured, line, strict=True)]
        for line in lines
    ]
    return [*titles], rows
