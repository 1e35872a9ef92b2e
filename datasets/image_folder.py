"""Images of your own: one folder per class."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from fcl_bench.data.images import open_files
from fcl_bench.dataset import Dataset
from fcl_bench.datasets.class_folders import as_dataset, divide, list_classes, list_halves, to_samples
from fcl_bench.errors import UserError


def image_folder(name: str, data_dir: Path, root: Path, test_ratio: Annotated[float, Field(gt=0, lt=1)]) -> Dataset:
    """A folder or zip file that holds ``train/`` and ``test/``, or the classes themselves, split by ``test_ratio``."""
    path = data_dir / root.expanduser()
    if not path.exists():
        raise UserError(
            f"Found no {path.absolute()}; set dataset.root to a folder or zip file that holds one folder of images per "
            "class, or train/ and test/ with such folders."
        )
    files = open_files(path)
    if any(path.startswith(("train/", "test/")) and path.count("/") > 1 for path in files.sizes):
        members, test_members = list_halves(files)
        halves = to_samples(files, members), to_samples(files, test_members)
    else:
        members = list_classes(files)
        halves = divide(to_samples(files, members), list(members), test_ratio)
    return as_dataset(name, list(members), *halves, (path,))
