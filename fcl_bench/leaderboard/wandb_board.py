"""The leaderboard as one run of Weights & Biases: the tables, the plots, and the files as an artifact."""

import csv
import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from fcl_bench.errors import UserError
from fcl_bench.leaderboard.boards import Board
from fcl_bench.leaderboard.plots import curves, matrix, pareto, retention
from fcl_bench.leaderboard.render import cells
from fcl_bench.leaderboard.sheet import sheet
from fcl_bench.loggers.wandb_service import Mode, call_with_timeout, data_dir, location, start_run, wandb_settings

TIMEOUT = 60.0  # seconds to wait for the service, at the beginning and at the end
NUMBERS = ("_mean", "_sd", "_low", "_high", "_to_best")  # endings of columns of the CSV


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
            settings=wandb_settings(TIMEOUT),
        )

    def warn(text: str) -> None:
        warnings.warn(f"The W&B leaderboard {text}", stacklevel=2)

    pictures = dict(_pictures(boards))
    run = None
    try:
        run = start_run(None, start, warn)
        if run is None:
            return "W&B is disabled, so nothing was published."
        session = run.settings.sync_dir
        with data_dir(folder.absolute() / "wandb"):
            call_with_timeout(TIMEOUT, _log, run, boards, pictures, files)
        call_with_timeout(1.5 * TIMEOUT, run.finish)
        return location(run, session)
    except Exception as error:
        if run is not None:
            with suppress(Exception):
                call_with_timeout(TIMEOUT, run.finish, 1)
        raise UserError(f"The leaderboard cannot be published to W&B ({error!r}): leave --wandb out.") from error


def _log(run: Any, boards: Sequence[Board], pictures: dict[str, Image.Image], files: dict[str, str]) -> None:
    import wandb

    tables = {"leaderboard": wandb.Table(*_typed(sheet(boards)))}
    for number, board in enumerate(boards, start=1):
        titles, *lines = cells(board)
        tables[f"board {number}: {board.heading}"] = wandb.Table([*titles], lines)
    run.log(tables | {name: wandb.Image(picture) for name, picture in pictures.items()})
    for board in boards:
        for row in board.rows:
            run.summary[f"{board.heading}/{row.name}/{board.sort}"] = row.scores[board.sort].mean
    with TemporaryDirectory() as scratch:
        artifact = wandb.Artifact("leaderboard", "leaderboard")
        for name, text in files.items():
            path = Path(scratch, name)
            path.write_text(text, encoding="utf-8")
            artifact.add_file(str(path))
        run.log_artifact(artifact)


def _pictures(boards: Sequence[Board]) -> Iterator[tuple[str, Image.Image]]:
    for kind in (curves, retention, pareto, matrix):
        for number, (_, figure) in enumerate(kind(boards), start=1):
            drawn = io.BytesIO()
            figure.savefig(drawn, dpi=150)
            yield f"{kind.__name__} {number}", Image.open(drawn)


def _typed(text: str) -> tuple[list[str | int], list[list[str | float | None]]]:
    """The CSV as columns of one type each, as W&B wants them."""
    titles, *lines = csv.reader(io.StringIO(text))
    numeric = [title.endswith(NUMBERS) or title in ("seeds", "trials") for title in titles]
    rows = []
    for line in lines:
        row: list[str | float | None] = []
        for is_number, cell in zip(numeric, line, strict=True):
            row.append(_number(cell) if is_number else cell)
        rows.append(row)
    return [*titles], rows


def _number(cell: str) -> float | None:
    return float(cell) if cell else None
