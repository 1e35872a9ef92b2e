"""The file of a picture: a bad name is refused before anything is computed, the file is written at the end."""

from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile

from matplotlib.figure import Figure

from fcl_bench.errors import ConfigError
from fcl_bench.files import write_atomically, writing_to

FORMATS = (".png", ".svg", ".pdf")


def check_picture(path: Path) -> None:
    """Refuse a name that no picture can be written to; nothing on disk changes."""
    if path.suffix not in FORMATS:
        raise ConfigError(f"Expected a picture name ending in {', '.join(FORMATS)}, but got {path.name}.")
    try:
        _try_to_write(path)
    except OSError as error:
        raise ConfigError(
            f"Cannot write the picture {path}: {error.strerror}; set --out to a file in another folder."
        ) from error


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the suffix of ``path`` is the format."""
    with writing_to(path.parent, "--out"):
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = BytesIO()
        figure.savefig(picture, format=path.suffix[1:], dpi=150)
        write_atomically(path, picture.getvalue())


def _try_to_write(path: Path) -> None:
    """Open the file if it is there, else a nameless one in the closest folder that is there."""
    if path.exists():
        with path.open("ab"):
            return
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    with TemporaryFile(dir=folder):
        return
