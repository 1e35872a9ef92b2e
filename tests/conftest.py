"""Fixtures shared by the tests: the command line in this process, on tiny data, and the features of digits.

The process that deals tests out to workers imports this too, and they wait for it: torch is imported where it is used.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import started

from fcl_bench.__main__ import main

if TYPE_CHECKING:
    import torch

    from fcl_bench.federation import Participation
    from fcl_bench.stream import Stream
    from fcl_bench.traffic import Exchange
    from fcl_bench.transport import Transport

if "PYTEST_XDIST_WORKER" in os.environ and parent_process() is None:  # the cores are busy: threads would wait
    import torch

    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # of processes that tests start

ROOT = Path(__file__).parents[1]
SEED = 1  # of every course
TINY = (
    *("dataset=gaussian", "dataset.classes=6", "dataset.train_size=240", "dataset.test_size=60"),
    *("dataset.features=16", "stream.tasks=3", "partition.clients=3"),
)
ACCURACY = {
    *("average_accuracy", "retention", "retention_as_printed", "retention_left_out", "stability", "plasticity"),
    *("forgetting", "backward_transfer", "seen_accuracy", "whole_accuracy", "anytime_accuracy"),
    *("step_stability", "step_plasticity", "macro_f1", "calibration_error"),
}


gc.disable()  # imports make no garbage to speak of, but very many objects to look at


def pytest_collection_finish() -> None:
    """Every run collects garbage, which need not look for it among all that the tests have imported."""
    gc.freeze()
    gc.enable()


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def folder(self) -> Path:
        """The run folder it named last."""
        return Path(self.out.rpartition("record: ")[2].strip())

    @property
    def result(self) -> dict[str, Any]:
        """The content of ``result.json``, which must be strict JSON."""
        return read_json(self.folder / "result.json")

    @property
    def predictions(self) -> np.ndarray:
        """After each task, for the whole test set."""
        return np.load(self.folder / "predictions.npz")["predictions"]

    @property
    def exchanges(self) -> list[dict[str, Any]]:
        """The lines of ``exchanges.jsonl``."""
        return [json.loads(line) for line in (self.folder / "exchanges.jsonl").read_text().splitlines()]

    def kept(self, place: Path) -> Outcome:
        """The same with a copy of its folder, which later runs do not change."""
        return replace(self, out=f"record: {shutil.copytree(self.folder, place)}")


Command = Callable[..., Outcome]


def read_json(path: Path) -> Any:
    """Strict JSON: NaN and Infinity, which Python's reader would take, are errors."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


def command(*words: str) -> Outcome:
    """``python -m fcl_bench WORDS`` without a new process; what it changes in this one is put back."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(sys, "argv", ["fcl_bench"])
        patch.setenv("HYDRA_FULL_ERROR", "1")
        warnings.simplefilter("default")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(words)
            except SystemExit as error:  # --help, and argparse
                code = int(error.code or 0)
    return Outcome(code, out.getvalue(), err.getvalue())


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def assert_equal_runs(one: Outcome, two: Outcome) -> None:
    """Two records, in different places, agree in everything but the time the runs took."""
    assert (one.code, two.code) == (0, 0), one.err + two.err
    assert one.folder != two.folder
    for name in ("run_id", "matrix", "views", "traffic", "stream", "status"):
        assert one.result[name] == two.result[name]
    revealed = {"samples_revealed", "revealing_uploads"}
    for name in ACCURACY | revealed | {"uplink_bytes", "downlink_bytes", "exchanges", "stored_bytes"}:
        assert one.result["curves"][name] == two.result["curves"][name]
    np.testing.assert_array_equal(one.predictions, two.predictions)
    untimed = [[{**line, "client_seconds": 0} for line in run.exchanges] for run in (one, two)]
    assert untimed[0] == untimed[1]


@pytest.fixture(autouse=True, scope="module")
def _hand_made_records(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests of tables, figures and the page make records by hand, of the numbers that they want to see there."""
    if request.path.parent.name in ("leaderboard", "loggers"):
        from records import believed

        with believed():
            yield
    else:
        yield


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of this repository to write into and, by :func:`run_in`, to run.

    An installation maps ``fcl_bench.methods`` to the folder ``methods``; in the copy a link does, so that Python finds
    the copy's own before the installed one.
    """
    copy = tmp_path / "checkout"
    for name in ("fcl_bench", "methods", "configs", "datasets"):
        shutil.copytree(ROOT / name, copy / name)  # with compiled files, which are valid for the copies too
        if name != "fcl_bench":
            (copy / "fcl_bench" / name).symlink_to(copy / name)
    for name in ("methods", "cli"):
        (copy / "tests" / name).mkdir(parents=True)
    for name in ("pyproject.toml", "tests/conftest.py", "tests/started.py"):
        shutil.copy(ROOT / name, copy / name)
    return copy


def run_in(checkout: Path, module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """``python -m MODULE WORDS`` in a copied checkout."""
    environment = {
        **{**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"},
        "PYTEST_ADDOPTS": "-n 0",  # this process is one of several already
    }
    return started.run(checkout, environment, module, words)


@dataclass(frozen=True)
class Course:
    """A stream that a method has learned, without command line and record."""

    stream: Stream
    states: list[Any]  # all that were yielded
    memories: list[dict[int, Any]]  # of the clients, after each task
    exchanges: list[Exchange]


def course(
    method: Any,
    inputs: torch.Tensor,
    labels: np.ndarray,
    temporal: Any,
    spatial: Any,
    who: Participation | None = None,
    transport: Transport | None = None,
) -> Course:
    """Teach a method a stream."""
    from fcl_bench.federation import Federation, Participation
    from fcl_bench.learning import beginning, learn
    from fcl_bench.stream import make_stream
    from fcl_bench.transport.in_process import InProcess

    stream = make_stream(labels, labels, temporal, spatial, SEED)
    done = Course(stream, [], [], [])
    transport, who = transport or InProcess(), who or Participation()
    listen = done.exchanges.append
    federation = Federation(stream, inputs, labels, lambda: method, transport, who, SEED, on_exchange=listen)
    for progress in learn(method, federation, beginning(method)):
        if progress.between_tasks:
            done.memories.append({client: dict(memory) for client, memory in federation.memories().items()})
        else:
            done.states.append(progress.state)
    return done


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A feature cache that all tests share, those of other workers too: what one has computed, the others find."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return tmp_path_factory.mktemp("cache")
    return tmp_path_factory.getbasetemp().parent / "cache"


@pytest.fixture
def output_dir(tmp_path: Path) -> Path:
    """Where ``tiny`` writes its records; it does not exist before."""
    return tmp_path / "runs"


@pytest.fixture
def tiny(output_dir: Path, cache_dir: Path) -> Command:
    """A run on tiny synthetic features."""
    return lambda *words: command(*TINY, f"output_dir={output_dir}", f"cache_dir={cache_dir}", *words)


@pytest.fixture(scope="session")
def afcl_run(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Outcome:
    """A finished run of AFCL on the tiny data, to look at but not to change."""
    return command(*TINY, f"output_dir={tmp_path_factory.mktemp('runs')}", f"cache_dir={cache_dir}", "method=afcl")


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Outcome:
    """The default run, without a network; from here on ``cache_dir`` has the features of digits."""

    def refuse(*_: object) -> None:
        raise OSError("a test tried to reach the network")

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("digits"))
        patch.setattr("socket.socket.connect", refuse)
        done = command("method=afcl", f"cache_dir={cache_dir}")
        return replace(done, out=done.out.replace("record: ", f"record: {Path.cwd()}/"))
