"""Images that a method made up: a grid of those that clients keep, read from the checkpoint beside a record."""

from collections.abc import Sequence
from pydoc import locate
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fcl_bench.errors import UserError
from fcl_bench.leaderboard.boards import Board
from fcl_bench.leaderboard.plot_style import NamedFigures
from fcl_bench.leaderboard.runs import Run

METHODS = "fcl_bench.methods."
SIDE = 8  # images in a line, and lines


def synthetic(boards: Sequence[Board]) -> NamedFigures:
    """The first synthetic images of the last task, a figure per row whose first run has some."""
    found = False
    for board in boards:
        for row in board.rows:
            images = _synthetic_images(row.runs[0])
            if images is not None:
                found = True
                yield f"{row.name}, {board.heading} ({board.stream})", _grid(images)
    if not found:
        raise UserError(
            "None of these runs has synthetic images in its checkpoint: name the folder of a run that made some, "
            "such as one of method=target with backbone.trainable=true."
        )


def _synthetic_images(run: Run) -> np.ndarray | None:
    """(n, colours, height, width), what the first client with a memory keeps as ``synthetic``; None without images."""
    from fcl_bench.decoding import MessageError
    from fcl_bench.message_classes import declared_classes
    from fcl_bench.run.checkpoints import read

    path = run.path.with_name("checkpoint") / "checkpoint.safetensors"
    if not path.exists():
        return None
    target = str(run.result["config"]["method"]["_target_"])
    method: Any = locate(target) if target.startswith(METHODS) else None  # a record must not import what it likes
    try:
        memories = read(path, declared_classes(method) if method else {}).memories
    except MessageError as error:
        raise UserError(f"The checkpoint {path} cannot be read ({error}): remove it, or run again.") from error
    kept = [memory["synthetic"] for memory in memories.values() if "synthetic" in memory]
    return kept[0].numpy() if kept and kept[0].ndim == 4 else None


def _grid(images: np.ndarray) -> Figure:
    """Line by line, black where there are not enough."""
    _, colours, height, width = images.shape
    shown = np.zeros((SIDE * SIDE, colours, height, width), dtype=images.dtype)
    some = images[: len(shown)]
    shown[: len(some)] = some
    lines = shown.reshape(SIDE, SIDE, colours, height, width)
    picture = lines.transpose(0, 3, 1, 4, 2).reshape(SIDE * height, SIDE * width, colours)
    figure = Figure(figsize=(SIDE, SIDE))
    panel = figure.add_axes((0, 0, 1, 1))
    panel.imshow(picture, interpolation="none")
    panel.set_axis_off()
    return figure
