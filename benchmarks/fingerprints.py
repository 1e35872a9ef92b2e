"""How long it takes to know CIFAR-100 by every byte: ``python -m benchmarks.fingerprints --data-dir DATA``.

DATA has ``cifar100-png.zip``. It is loaded as it is, and again from class folders that it is unpacked to, three times
each, the first time without notes.
"""

import argparse
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from fcl_bench.data.digests import remembered_in
from fcl_bench.data.file_states import JUST_NOW
from fcl_bench.data.images import open_files
from fcl_bench.datasets.cifar100 import cifar100


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.fingerprints", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--place", type=Path, help="where to unpack to")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.place) as folder:
        measure("zip file", options.data_dir, Path(folder, "notes"))
        unpacked = Path(folder, "unpacked")
        with zipfile.ZipFile(options.data_dir / "cifar100-png.zip") as archive:
            archive.extractall(unpacked / "all")
        (unpacked / "cifar100").symlink_to(next(path.parent for path in unpacked.rglob("train")))
        time.sleep(JUST_NOW / 1e9)
        measure("class folders", unpacked, Path(folder, "notes"))


def measure(form: str, data_dir: Path, notes: Path) -> None:
    listing = timed(lambda: open_files(next(iter(sorted(data_dir.glob("cifar100*"))))))
    seconds = []
    for _ in range(3):
        with remembered_in(notes), warnings.catch_warnings():
            seconds.append(timed(lambda: cifar100("cifar100", data_dir, False)))
    shown = ", ".join(f"{each:.2f}" for each in seconds)
    print(f"{form}: {shown} s; listing alone {listing:.2f} s", flush=True)


def timed(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
