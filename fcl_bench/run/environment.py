"""Where a result came from: package versions, platform, device, commit, and the code of the method."""

import hashlib
import platform
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fcl_bench.run.allocator import return_freed_memory

PACKAGES = (
    *("fcl-bench", "torch", "torchvision", "lightning", "torchmetrics", "timm", "numpy", "scikit-learn", "hydra-core"),
)
CODE = ("fcl_bench", "methods", "datasets", "configs")  # folders of a checkout that can change a result

Facts = dict[str, str | None]


def environment(method: str) -> Facts:
    """Facts for ``result.json``; ``method`` is the ``_target_`` of the method."""
    return _machine() | {"threads": threads()} | code(method)


def threads() -> str:
    """How many threads large tensors have now; sums of floating-point numbers may depend on it."""
    import torch

    return str(torch.get_num_threads())


@cache
def _machine() -> Facts:
    import torch

    facts = {name: installed(name) for name in PACKAGES}
    facts["python"] = platform.python_version()
    facts["platform"] = platform.platform()
    facts["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else f"cpu x {torch.get_num_threads()}"
    return facts


@cache
def code(method: str) -> Facts:
    """The part of :func:`environment` that says which code is running."""
    return {
        "fcl-bench": installed("fcl-bench"),
        "git_commit": _commit(Path(__file__).parents[2]),
        "method_package": _package(method),
        "method_code": _source_hash(method),
    }


def changes_since(result: dict[str, Any]) -> str:
    """What is no longer the code that made a record, as a clause; nothing if all is, as far as the record tells."""
    then = result["environment"]
    now = code(result["config"]["method"]["_target_"])
    changed = [name for name, value in now.items() if name in then and then[name] != value]
    if "method_code" in changed:
        return "the file of the method has changed since"
    return "the code has changed since" if changed else ""


def made_by_present_code(result: dict[str, Any]) -> bool:
    """Whether a record was made by the code that is running; code that is not committed is never known to be."""
    return not changes_since(result) and not str(result["environment"].get("git_commit")).endswith("+changes")


def installed(package: str) -> str | None:
    """The version of a package, None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def _commit(checkout: Path) -> str | None:
    """The commit of a checkout, with ``+changes`` where code differs from it or is new; None outside of git."""
    if not (checkout / ".git").exists():
        return None
    try:
        commit = _git(checkout, "rev-parse", "HEAD")
        changes = _git(checkout, "status", "--porcelain", "--", *CODE)
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+changes" if changes else commit


def _git(checkout: Path, *words: str) -> str:
    command = ["git", "-C", str(checkout), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def _package(target: str) -> str | None:
    """Name and version of the installed package that ``target`` belongs to, None where there is none."""
    top = target.partition(".")[0]
    name = "fcl-bench" if top == "fcl_bench" else _distribution(top)
    return f"{name} {installed(name)}" if name else None


def _distribution(top: str) -> str | None:
    """The name under which a top-level package was installed."""
    for point in entry_points(group="fcl_bench.configs"):
        if point.dist and point.value.partition(".")[0] == top:
            return point.dist.name
    names = packages_distributions().get(top, ())  # takes a second, but finds packages without our entry point
    return names[0] if names else None


def _source_hash(target: str) -> str | None:
    """A hash of the file that defines ``target``, which is not imported; None where there is no such file."""
    try:
        spec = find_spec(target.rpartition(".")[0])
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.has_location:
        return None
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()[:16]


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
        peak = re.search(r"VmHWM:\s*(\d+) kB", status.read_text())
        if peak:
            return int(peak[1]) / 2**10
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    units = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / units
