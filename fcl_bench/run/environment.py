"""Where a result came from: package versions, platform, device, commit."""

import platform
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fcl_bench.run.allocator import return_freed_memory

PACKAGES = ("fcl-bench", "torch", "torchvision", "lightning", "timm", "numpy", "scikit-learn", "hydra-core")


@cache
def environment() -> dict[str, str | None]:
    """Facts for ``result.json``."""
    import torch

    found = {name: installed(name) for name in PACKAGES}
    found["python"] = platform.python_version()
    found["platform"] = platform.platform()
    found["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else f"cpu x {torch.get_num_threads()}"
    return found | code()


@cache
def code() -> dict[str, str | None]:
    """The part of :func:`environment` that says which code is running."""
    return {"fcl-bench": installed("fcl-bench"), "git_commit": _commit()}


def installed(package: str) -> str | None:
    """The version of a package, None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the checkout the package runs from, with ``+changes`` where files differ; none for a wheel."""
    folder = Path(__file__).parents[2]
    if not (folder / ".git").exists():
        return None
    try:
        asked = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty=+changes", "--exclude=*"]
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def forget_peak_memory() -> None:
    """Measure :func:`peak_memory_mb` from here on; only Linux can, elsewhere runs before this one count."""
    return_freed_memory()
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory_mb() -> float:
    """The most memory this process has had; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text())
        if found:
            return int(found[1]) / 2**10
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
