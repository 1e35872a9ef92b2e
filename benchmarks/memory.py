"""Peak memory of whole runs, by the number of clients and of samples.

Counted is anonymous memory (Linux only): pages of the feature cache are the system's to keep or to drop.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Row

HOW = "RssAnon of `python -m fcl_bench method=afcl {}`, sampled every 5 ms; reference: {}"


def memory() -> Iterator[Row]:
    """More clients, same data."""
    settings = ("dataset=gaussian", "dataset.features=256", "stream.tasks=2")
    few = peak_mb(*settings, "partition.clients=100")
    for clients in (1000, 10_000):
        how = HOW.format("dataset=gaussian", "100 clients")
        many = peak_mb(*settings, f"partition.clients={clients}")
        yield Row(f"peak memory, {clients:,} clients / 100", how, many, "MB", few, limit=1.25)


def memory_million() -> Row:
    """More samples: what the run keeps of each in memory is its label and where it lies, about 40 bytes in all."""
    small, large = (peak_mb("dataset=gaussian", f"dataset.train_size={size}") for size in (100_000, 1_000_000))
    how = HOW.format("dataset=gaussian", "100,000 samples")
    return Row("peak memory, 1,000,000 samples / 100,000", how, large, "MB", small, limit=1.25)


def peak_mb(*overrides: str) -> float:
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fcl_bench", "method=afcl", *overrides]
        command += [f"cache_dir={folder}", f"output_dir={folder}"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, anonymous_mb(process.pid))
            time.sleep(0.005)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        return peak


def anonymous_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = next((line.split()[1] for line in lines if line.startswith("RssAnon")), "0")  # none at its very end
    return int(kilobytes) / 1024
