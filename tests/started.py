"""Processes of tests that start quickly, as :mod:`fcl_bench.new_processes` has it. Nothing large is imported here."""

import atexit
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

TESTS = Path(__file__).parent


def start(
    folder: Path, environment: Mapping[str, str], out: Path, err: Path, module: str, words: Sequence[str]
) -> BaseProcess:
    """Begin ``python -m MODULE WORDS`` in a folder; ``out`` and ``err`` may be named pipes."""
    from fcl_bench.new_processes import quick_context

    process = quick_context().Process(target=_run, args=(folder, dict(environment), out, err, module, tuple(words)))
    process.start()
    return process


def run(
    folder: Path, environment: Mapping[str, str], module: str, words: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """``python -m MODULE WORDS`` in a folder, to its end."""
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place, "out"), Path(place, "err")
        process = start(folder, environment, out, err, module, words)
        process.join()
        return subprocess.CompletedProcess(words, process.exitcode or 0, out.read_text(), err.read_text())


def _run(folder: Path, environment: dict[str, str], out: Path, err: Path, module: str, words: tuple[str, ...]) -> None:
    for descriptor, name, path in ((1, "stdout", out), (2, "stderr", err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
        setattr(sys, name, open(descriptor, "w", buffering=1, closefd=False))  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests may ignore Ctrl-C
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # where workers block it, all forks do
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    first = [str(folder), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:] = [*first, *(entry for entry in sys.path if entry and TESTS not in (Path(entry), *Path(entry).parents))]
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in environment
    sys.argv = [module, *words]
    del sys.modules[__name__]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()
