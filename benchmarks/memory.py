"""Peak memory of whole runs, by the number of clients and of samples.

Anonymous memory is what counts: pages of the feature cache are the system's, to keep or to drop. Linux only.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Row

HOW = "largest RssAnon of `python -m fcl_bench method=afcl {}`, looked at every 5 ms; reference: {}"


def memory() -> Iterator[Row]:
    """More clients, same data."""
    settings = ("dataset=gaussian", "dataset.features=256", "stream.tasks=2")
    few = peak_mb(*settings, "partition.clients=100")
    for clients in (1000, 10_000):
        many = peak_mb(*settings, f"partition.clients={clients}")
        how = HOW.format(" ".join((*settings, f"partition.clients={clients}")), "100 clients")
        yield Row(f"peak memory, {clients:,} clients / 100", how, many, "MB", few, limit=1.25)


def memory_million() -> Iterator[Row]:
    """More samples; of each, a run holds some 60 bytes beside the mapped features: its label and where it lies."""
    few, many = (peak_mb("dataset=gaussian", f"dataset.train_size={size}") for size in (100_000, 1_000_000))
    how = HOW.format("dataset=gaussian dataset.train_size=1000000", "100,000 samples")
    yield Row("peak memory, 1,000,000 samples / 100,000", how, many, "MB", few, limit=1.25)


def peak_mb(*overrides: str) -> float:
    with TemporaryDirectory() as folder:
        folders = (f"cache_dir={folder}", f"output_dir={folder}")
        command = [sys.executable, "-m", "fcl_bench", "method=afcl", *overrides, *folders]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, anonymous_mb(process.pid))
            time.sleep(0.005)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return peak


def anonymous_mb(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon")), 0.0)  # 0 at its end
