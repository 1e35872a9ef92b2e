"""The W&B logger: what wandb has written, read from its own file and compared with the record; and what it survives."""

import json
import random
import re
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
import wandb
from conftest import TINY, Command, Outcome, assert_equal_runs, command, contents, read_json
from omegaconf import OmegaConf
from records import record, write

from fcl_bench.config.compose import composed
from fcl_bench.errors import ConfigError
from fcl_bench.loggers import wandb as wandb_logger
from fcl_bench.loggers import wandb_content
from fcl_bench.methods.finetune import Finetune

QUICK = ("method=finetune", "method.rounds=2", "method.epochs=1", "logger=wandb")


@pytest.fixture(scope="module", autouse=True)
def nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A user of whom wandb knows nothing; what it has read before is forgotten, and so is this."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL", "WANDB_DATA_DIR"):
            patch.delenv(name, raising=False)
        for name in ("NETRC", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR"):
            patch.setenv(name, str(home / name))
        wandb.teardown()
        yield
        wandb.teardown()


@dataclass(frozen=True)
class Written:
    """One ``run-*.wandb``: a log of protobuf messages in the format of LevelDB's."""

    records: list[Any]

    def of(self, kind: str) -> list[Any]:
        return [getattr(record, kind) for record in self.records if record.WhichOneof("record_type") == kind]

    @property
    def run(self) -> Any:
        (run,) = self.of("run")
        return run

    @property
    def history(self) -> list[dict[str, Any]]:
        return [_nested(row.item) for row in self.of("history")]

    @property
    def summary(self) -> dict[str, Any]:
        return _nested(update for summary in self.of("summary") for update in summary.update)

    def rows(self, axis: str) -> list[dict[str, Any]]:
        return [row for row in self.history if axis in row]


def _nested(items: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in items:
        *path, last = item.nested_key or [item.key]
        place = found
        for name in path:
            place = place.setdefault(name, {})
        place[last] = json.loads(item.value_json)
    return found


def read(folder: Path) -> Written:
    """What a finished W&B run has written; wandb writes the end of it a moment after it says so."""
    (path,) = folder.glob("run-*.wandb")
    for _ in range(100):
        written = Written(list(records(path.read_bytes())))
        if written.of("exit"):
            return written
        time.sleep(0.1)
    raise AssertionError(f"{path} has no end")


def records(data: bytes) -> Iterator[Any]:
    """Blocks of 32 KiB hold pieces of records: checksum, length, kind (1 whole, 2 first, 3 middle, 4 last), bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    assert data[:4] == b":W&B"
    block, place, piece = 2**15, 7, b""
    while place + 7 <= len(data):
        left = block - place % block
        _, length, kind = struct.unpack_from("<IHB", data, place) if left >= 7 else (0, 0, 0)
        if kind == 0:
            place += left
            continue
        piece += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield Record.FromString(piece)
            piece = b""


def sessions(output_dir: Path) -> list[Path]:
    """The folders of W&B runs, in order of time."""
    return sorted(output_dir.glob("wandb/*run-2*"))


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> tuple[Outcome, Path]:
    """A finished offline run of a method with two classifiers, and its output folder."""
    place = tmp_path_factory.mktemp("logged")
    words = ("method=fedicarl", "method.rounds=2", "method.epochs=1", "logger=wandb", "logger.tags=[mine,digits]")
    done = command(*TINY, *words, f"output_dir={place}", f"cache_dir={cache_dir}")
    assert (done.code, done.err) == (0, "")
    return done, place


@pytest.fixture(scope="module")
def written(logged: tuple[Outcome, Path]) -> Written:
    (session,) = sessions(logged[1])
    return read(session)


def test_a_run_is_named_after_the_record(logged: tuple[Outcome, Path], written: Written) -> None:
    done, _ = logged
    run, result = written.run, done.result
    assert run.project == "fcl_bench"
    assert run.display_name == "fedicarl seed 1"
    assert run.run_id.startswith(f"{result['run_id']}-")
    assert run.run_group == result["stream"]["hash"]
    assert run.job_type == "fedicarl"
    assert sorted(run.tags) == ["digits", "frozen", "gaussian", "mine", "none", "si_blurry"]
    config = {item.key: json.loads(item.value_json) for item in run.config.update if item.key != "_wandb"}
    assert config == OmegaConf.to_container(OmegaConf.load(done.folder / "config.yaml"))
    assert [message.exit_code for message in written.of("exit")] == [0]
    assert written.of("stats")  # of the system


def test_every_task_is_a_row_with_all_curves(logged: tuple[Outcome, Path], written: Written) -> None:
    result = logged[0].result
    curves = {**result["curves"]}
    for name, curve in result["other_classifiers"]["linear"]["curves"].items():
        curves[f"linear/{name}"] = curve
    for name in ("macro_f1", "calibration_error"):  # not known before the run is complete
        del curves[name], curves[f"linear/{name}"]
    rows = written.rows("task")
    assert [row["task"] for row in rows] == [1, 2, 3]
    assert {name for row in rows for name in row if name.startswith("task/")} == {f"task/{name}" for name in curves}
    for name, curve in curves.items():
        assert [row[f"task/{name}"] for row in rows] == curve


def test_every_exchange_is_a_row(logged: tuple[Outcome, Path], written: Written) -> None:
    lines, rows = logged[0].exchanges, written.rows("exchange")
    assert [row["exchange"] for row in rows] == list(range(1, len(lines) + 1))
    for row, line in zip(rows, lines, strict=True):
        notes = line.pop("notes", {})
        line.pop("rejected", None)
        fields = {f"exchange/{name}": value for name, value in line.items()}
        fields |= {f"exchange/note/{name}": value for name, value in notes.items()}
        assert {name: value for name, value in row.items() if name.startswith("exchange/")} == fields


def test_both_axes_are_declared(written: Written) -> None:
    axes = {metric.glob_name: metric.step_metric for metric in written.of("metric") if metric.glob_name}
    assert axes == {"task/*": "task", "exchange/*": "exchange"}
    assert [row["_step"] for row in written.history] == list(range(len(written.history)))


def test_the_summary_is_the_metrics(logged: tuple[Outcome, Path], written: Written) -> None:
    result, summary = logged[0].result, written.summary
    assert {name: summary[name] for name in result["metrics"]} == result["metrics"]
    linear = result["other_classifiers"]["linear"]["metrics"]
    assert {name: summary[f"linear/{name}"] for name in linear} == linear


def test_tables_hold_matrix_and_predictions(logged: tuple[Outcome, Path], written: Written) -> None:
    (done, place), summary = logged, written.summary
    (session,) = sessions(place)

    def table(entry: dict[str, Any]) -> Any:
        return read_json(session / "files" / entry["path"])

    assert [row[1:] for row in table(summary["matrix"])["data"]] == done.result["matrix"]
    saved = np.load(done.folder / "predictions.npz")
    for entry, name in (("predictions", "predictions"), ("linear/predictions", "predictions_linear")):
        found = table(summary[entry])
        assert found["columns"] == ["sample", "target", *(f"after task {task}" for task in (1, 2, 3))]
        expected = [[sample, target, *saved[name][:, sample]] for sample, target in enumerate(saved["targets"])]
        np.testing.assert_array_equal(found["data"], expected)


def test_artifacts_hold_stream_and_result(logged: tuple[Outcome, Path], written: Written) -> None:
    (done, place), found = logged, {artifact.type: artifact for artifact in written.of("artifact")}
    assert found["stream"].name == f"stream-{done.result['stream']['hash'][:16]}"
    files = {
        entry.path: Path(entry.local_path) for kind in ("stream", "result") for entry in found[kind].manifest.contents
    }
    assert set(files) == {"stream.json", "stream.npz", "result.json"}
    for name, path in files.items():
        assert path.is_relative_to(place / "wandb")
        assert path.read_bytes() == (done.folder / name).read_bytes()


def test_wandb_leaves_the_record_and_the_screen_alone(logged: tuple[Outcome, Path], afcl_run: Outcome) -> None:
    done, place = logged
    assert set(contents(done.folder)) == set(contents(afcl_run.folder)) - {"metrics.csv", "exchanges.csv"}
    (line,) = (line for line in done.out.splitlines() if "wandb" in line or "W&B" in line)
    assert line == f"W&B run, offline; to upload it: wandb sync {sessions(place)[0]}"


def test_a_resumed_run_goes_on_in_the_same_wandb_run_without_double_rows(
    tiny: Command, output_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, calls = "fcl_bench.methods.finetune.Finetune.train", []

    @wraps(Finetune.train)
    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) > 9:  # 2 rounds x 3 clients, then one round and a client of the second task
            raise KeyboardInterrupt
        return whole(*arguments)

    whole = Finetune.train
    with monkeypatch.context() as patch:
        patch.setattr(train, interrupted)
        assert tiny(*QUICK).code == 130
    resumed = tiny(*QUICK)
    assert (resumed.code, resumed.err) == (0, "")
    first, second = map(read, sessions(output_dir))
    assert first.run.run_id == second.run.run_id
    assert [[message.exit_code for message in each.of("exit")] for each in (first, second)] == [[1], [0]]
    assert [row["task"] for row in first.rows("task")] == [1]
    assert [row["task"] for row in second.rows("task")] == [1, 2, 3]
    assert [row["exchange"] for row in first.rows("exchange")] == [1, 2]
    assert [row["exchange/client_seconds"] for row in second.rows("exchange")] == [
        line["client_seconds"] for line in resumed.exchanges
    ]
    same = [
        [{n: v for n, v in r.items() if n not in ("_runtime", "_timestamp")} for r in w.history]
        for w in (first, second)
    ]
    assert same[1][: len(same[0])] == same[0]  # a row has the same step in both, so W&B does not take it twice


def test_a_sweep_makes_a_wandb_run_of_every_run(tiny: Command, output_dir: Path) -> None:
    assert tiny("-m", "method=afcl", "seed=1,2", "logger=wandb").code == 0
    found = [read(session) for session in sessions(output_dir)]
    assert [each.run.display_name for each in found] == ["afcl seed 1", "afcl seed 2"]
    assert all([message.exit_code for message in each.of("exit")] == [0] for each in found)


def test_results_do_not_depend_on_the_logger(tiny: Command, output_dir: Path) -> None:
    assert_equal_runs(tiny(*QUICK), tiny(*QUICK, "logger=none", f"output_dir={output_dir}-none"))


def test_nobodys_random_numbers_are_touched(logged: tuple[Outcome, Path]) -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), np.random.random(), torch.rand(1).item()  # noqa: NPY002

    random.seed(3), np.random.seed(3), torch.manual_seed(3)  # noqa: NPY002
    expected = draw()
    random.seed(3), np.random.seed(3), torch.manual_seed(3)  # noqa: NPY002
    wandb_logger.Session(logged[0].folder, timeout=1).attempt(lambda: [draw() for _ in range(5)])
    assert draw() == expected


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("wandb is\nbroken")


@pytest.mark.parametrize("place", ["wandb.init", "wandb.Run.log", "wandb.Table.__init__", "wandb.Run.finish", "import"])
def test_a_wandb_that_breaks_does_not_stop_a_run(tiny: Command, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        if place == "import":
            patch.setitem(sys.modules, "wandb", None)
        else:
            patch.setattr(place, broken)
        done = tiny("method=afcl", "logger=wandb")
    wandb.teardown()  # ends what could not be finished
    assert (done.code, done.result["status"]) == (0, "complete")
    reason = "ModuleNotFoundError" if place == "import" else r"RuntimeError\('wandb is"
    assert re.fullmatch(
        rf"warning: W&B logging of afcl seed 1 \(\S+\) failed, the run goes on .*{reason}.*\n", done.err
    )
    assert "W&B" not in done.out


@pytest.mark.parametrize("function", ["log_artifact", "finish"])
def test_a_wandb_that_hangs_is_not_waited_for(tiny: Command, function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Event()
    with monkeypatch.context() as patch:
        patch.setattr(f"wandb.Run.{function}", lambda *_, **__: answer.wait())
        done = tiny("method=afcl", "logger=wandb", "logger.timeout=2")
    answer.set()
    wandb.teardown()
    assert (done.code, done.result["status"]) == (0, "complete")
    assert re.fullmatch(
        r"warning: .* failed, .*TimeoutError\('not done within \d s'\); what was logged is in .*\n", done.err
    )


@pytest.mark.parametrize(
    ("environment", "words", "reason"),
    [
        ({"WANDB_API_KEY": "a" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9"}, ["logger.timeout=1"], "127.0.0.1:9"),
        ({"WANDB_API_KEY": "short"}, [], "WANDB_API_KEY invalid"),
        ({}, ["logger.mode=online"], "there is no API key, which `wandb login` would ask for"),
    ],
    ids=["unreachable", "bad key", "no key"],
)
def test_without_the_service_a_run_is_logged_offline(
    tiny: Command,
    output_dir: Path,
    environment: dict[str, str],
    words: list[str],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wandb.teardown()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    start = time.monotonic()
    done = tiny("method=afcl", "logger=wandb", *words)
    assert time.monotonic() - start < 20
    wandb.teardown()
    assert (done.code, done.result["status"]) == (0, "complete")
    assert re.fullmatch(rf"warning: W&B logging of .* goes offline, .*{re.escape(reason)}.*\n", done.err)
    written = read(next(session for session in sessions(output_dir) if session.name.startswith("offline-")))
    assert written.summary["average_accuracy"] == done.result["metrics"]["average_accuracy"]
    assert "wandb sync" in done.out


def test_a_disabled_log_writes_nothing(tiny: Command, output_dir: Path) -> None:
    done = tiny("method=afcl", "logger=wandb", "logger.mode=disabled")
    assert (done.code, done.err) == (0, "")
    assert not (output_dir / "wandb").exists()
    assert "W&B" not in done.out


def test_long_test_sets_are_cut(afcl_run: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wandb_content, "MOST_SAMPLES", 7)
    _, found = wandb_content.tables(afcl_run.folder, afcl_run.result)["predictions"]
    np.testing.assert_array_equal(np.array(found)[:, 2:].T, afcl_run.predictions[:, :7])


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("project=a/b", r"Expected logger.project to be a name of 1 to 128 characters without / .*, but got 'a/b'."),
        ("project=''", r"Expected logger.project to be a name of 1 to 128 characters"),
        ("mode=onlin", r"Expected logger.mode to be one of online, disabled, offline, but got 'onlin'."),
        (f"tags=[{'a' * 65}]", r"Expected logger.tags to be a name of 1 to 64 characters, but got"),
        ("timeout=0", r"Expected logger.timeout to be greater than 0, but got 0."),
        ("team=x", r"There is no setting 'logger.team'|Could not override 'logger.team'"),
    ],
)
def test_wrong_values_are_named(word: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        composed("method=afcl", "logger=wandb", f"logger.{word}")


def test_a_leaderboard_is_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, mean in {"a": 60.0, "b": 40.0}.items():
        for seed in (1, 3):
            write(tmp_path / "runs" / name / str(seed), record(name, seed, mean + seed))
    monkeypatch.chdir(tmp_path)
    done = command("leaderboard", "runs", "--wandb", "boards")
    assert (done.code, done.err) == (0, "")
    (session,) = sessions(tmp_path)
    assert done.out.splitlines()[-1] == f"W&B run, offline; to upload it: wandb sync {session}"
    found = read(session)
    assert (found.run.project, found.run.job_type, found.run.display_name) == ("boards", "leaderboard", "leaderboard")
    heading = "digits, none (frozen), si_blurry x dirichlet"
    (row,) = found.history
    assert {f"board 1: {heading}", "leaderboard", "curves 1", "retention 1", "pareto 1", "matrix 1"} <= set(row)
    table = read_json(session / "files" / row["leaderboard"]["path"])
    values = [dict(zip(table["columns"], line, strict=True)) for line in table["data"]]
    assert [(line["row"], line["seeds"], line["average_accuracy_mean"]) for line in values] == [
        ("a", 2, 62),
        ("b", 2, 42),
    ]
    assert found.summary[f"{heading}/a/average_accuracy"] == 62.0
    picture = session / "files" / row["curves 1"]["path"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    artifacts = {artifact.name: artifact for artifact in found.of("artifact")}
    entries = {entry.path for entry in artifacts["leaderboard"].manifest.contents}
    assert entries == {"index.html", "leaderboard.csv", "leaderboard.md", "leaderboard.tex"}


def test_a_leaderboard_that_cannot_be_published_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> None:
        raise RuntimeError("no disk")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wandb, "init", broken)
    refused = command("leaderboard", str(write(tmp_path / "one", record())), "--wandb", "boards")
    assert refused.code == 1
    assert re.search(r"cannot be published to W&B \(RuntimeError\('no disk'\)\): leave --wandb out\.", refused.err)
