"""The leaderboard: grouping and statistics on hand-made records, and what it says to bad ones."""

import json
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np
import pytest
from conftest import Command, command
from omegaconf import OmegaConf
from rich.console import Console

from fcl_bench.leaderboard.boards import COLUMNS, Board, Row, Score, boards, score
from fcl_bench.leaderboard.render import TITLES, show
from fcl_bench.leaderboard.runs import gather, run_of

STREAM = {"name": "si_blurry", "tasks": 5, "partition": "dirichlet", "clients": 3, "alpha": 0.1}


def record(
    method: str = "afcl",
    seed: int = 1,
    accuracy: float = 50.0,
    result: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
) -> tuple[dict, dict]:
    """The parts of ``result.json`` and ``config.yaml`` that count, and some changes to them by dotted names."""
    whole_result = {
        **{"schema": 1, "status": "complete", "run_id": f"seed{seed}", "seed": seed, "method": method},
        **{"dataset": "digits", "backbone": "none", "protocol": None, "track": "frozen"},
        "stream": {**STREAM, "seed": seed, "hash": f"hash {seed}"},
        "metrics": {
            **{"average_accuracy": accuracy, "anytime_accuracy": 40.0, "retention": None, "forgetting": 100 - accuracy},
            **{"uplink_bytes": 2_000_000, "downlink_bytes": 0, "stored_bytes": 500_000},
        },
        "seconds": {"total": 1.5},
    }
    whole_config = {
        **{"seed": seed, "limit_train": None, "limit_test": None, "dataset": {"name": "digits", "data_dir": "data"}},
        **{"backbone": {"name": "none", "seed": seed}, "federation": {"dropout": 0.0}},
        "method": {"_target_": f"fcl_bench.methods.{method}.M", "lr": 0.01, "optimizer": {"momentum": 0.9}},
    }
    return changed(whole_result, result or {}), changed(whole_config, config or {})


def changed(whole: dict[str, Any], changes: dict[str, Any]) -> Any:
    made = OmegaConf.create(whole)
    for place, value in changes.items():
        OmegaConf.update(made, place, value, merge=False)
    return OmegaConf.to_container(made)


def made(*records: tuple[dict, dict], sort: str = "average_accuracy") -> tuple[Board, ...]:
    return boards([run_of(*one) for one in records], sort)


def write(folder: Path, one: tuple[dict, dict]) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(one[1])))
    (folder / "result.json").write_text(json.dumps(one[0]))
    return folder / "result.json"


def test_mean_and_sample_deviation_over_seeds() -> None:
    (board,) = made(*(record(seed=seed, accuracy=value) for seed, value in enumerate((50.0, 52.0, 57.0))))
    (row,) = board.rows
    assert (row.name, row.seeds) == ("afcl", 3)
    assert row.scores["average_accuracy"].mean == pytest.approx(53.0)
    assert row.scores["average_accuracy"].deviation == pytest.approx(13**0.5)  # (9 + 1 + 16) / 2
    assert row.scores["retention"] == Score(None, None)
    assert (row.scores["uplink_mb"].mean, row.scores["stored_mb"].mean) == (2.0, 0.5)
    assert (row.scores["downlink_mb"].mean, row.scores["seconds"].mean) == (0.0, 1.5)
    assert set(row.scores) == set(COLUMNS)


def test_scores_are_those_of_numpy_and_statistics() -> None:
    values = np.random.default_rng(0).uniform(0, 100, 7).tolist()
    found = score(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.deviation == pytest.approx(np.std(values, ddof=1)) == stdev(values)


def test_rows_are_sorted_by_the_better_end_and_undefined_ones_come_last() -> None:
    some = [record("a", accuracy=50), record("b", accuracy=70), record("c", accuracy=60)]
    some.append(record("d", accuracy=99, result={"metrics.forgetting": None, "metrics.retention": 1.0}))
    orders = {sort: [row.name for row in made(*some, sort=sort)[0].rows] for sort in COLUMNS}
    assert orders["average_accuracy"] == ["d", "b", "c", "a"]
    assert orders["forgetting"] == ["b", "c", "a", "d"]
    assert orders["retention"] == ["d", "a", "b", "c"]
    assert orders["seconds"] == ["a", "b", "c", "d"]


def test_a_run_that_is_found_twice_counts_once() -> None:
    (board,) = made(record(seed=1), record(seed=2), record(seed=1), record(seed=2, result={"run_id": "another"}))
    assert [row.seeds for row in board.rows] == [2]


def test_other_settings_of_a_method_have_a_row_of_their_own_which_names_them() -> None:
    others = [record("finetune", seed=seed, config={"method.lr": 0.1}) for seed in (1, 2)]
    other = record("finetune", config={"method.optimizer.momentum": 0.0, "method.keep": True})
    (board,) = made(record("finetune"), *others, other, record("afcl", config={"method.lr": 0.5}))
    assert {row.name: row.seeds for row in board.rows} == {
        "finetune lr=0.01 optimizer.momentum=0.9": 1,
        "finetune lr=0.1 optimizer.momentum=0.9": 2,
        "finetune lr=0.01 optimizer.momentum=0 keep=true": 1,
        "afcl": 1,
    }


@pytest.mark.parametrize(
    ("place", "value", "headings"),
    [
        ("protocol", "frozen_v1", ("", ", protocol frozen_v1")),
        ("stream.alpha", 0.5, (": alpha=0.1", ": alpha=0.5")),
        ("stream.tasks", 10, (": tasks=10", ": tasks=5")),
        ("limit_train", 100, (": limit_train=100", ": limit_train=null")),
        ("federation.dropout", 0.5, (": federation.dropout=0", ": federation.dropout=0.5")),
        ("dataset.classes", 6, ("", ": dataset.classes=6")),
        ("backbone", "resnet18", None),
        ("dataset", "cifar10", None),
        ("track", "end_to_end", None),
        ("stream.name", "iid", None),
    ],
)
def test_runs_under_other_conditions_are_never_mixed(place: str, value: Any, headings: tuple[str, str] | None) -> None:
    half = "config" if place.startswith(("limit", "federation", "dataset.")) else "result"
    other = record("afcl", seed=2, **{half: {place: value}})  # type: ignore[arg-type]
    found = made(record(), record("finetune", seed=2), other)
    assert sorted(len(board.rows) for board in found) == [1, 2]
    assert len({board.heading for board in found}) == 2
    if headings:
        common = "digits, none (frozen), si_blurry x dirichlet"
        assert [board.heading for board in found] == [f"{common}{rest}" for rest in headings]


def test_what_cannot_change_a_result_is_no_condition() -> None:
    elsewhere = record("finetune", seed=2, config={"dataset.data_dir": "elsewhere", "federation.dropout": 0})
    (board,) = made(record(), elsewhere)
    assert board.conditions == "tasks 5, clients 3, alpha 0.1"


def test_bad_records_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    write(tmp_path / "good", record(seed=1))
    write(tmp_path / "good2", record(seed=2, accuracy=52.0))
    write(tmp_path / "old", record(result={"schema": 0}))
    write(tmp_path / "stopped", record(seed=3, result={"status": "interrupted", "metrics": {}}))
    write(tmp_path / "thin", record(result={"seconds": {}}))
    write(tmp_path / "list", record()).write_text("[]")
    cut = write(tmp_path / "cut", record())
    cut.write_text(cut.read_text()[:100])
    write(tmp_path / "alone", record(seed=4)).with_name("config.yaml").unlink()
    told = command("leaderboard", str(tmp_path), str(tmp_path / "good"), str(tmp_path / "missing"))
    assert told.code == 0
    assert re.search(r"^afcl +2  51\.00 ± 1\.41  40\.00 ± 0\.00 +n/a  49\.00 ± 1\.41 ", told.out, re.MULTILINE)
    patterns = (
        r"The settings \S+/alone/config\.yaml cannot be read \(.*No such file.*\): remove this record and run again\.",
        r"The record \S+/cut/result\.json cannot be read \(.*\): remove it and run again\.",
        r"The record \S+/list/result\.json has schema None, but this version reads schema 1\.",
        r"The record \S+/old/result\.json has schema 0, but this version reads schema 1\.",
        r"The record \S+/thin/result\.json is incomplete \(KeyError\('total'\)\): remove it and run again\.",
        r"There is no file or folder \S+/missing: name folders of runs, or records\.",
        r"Interrupted runs that are left out: 1\.",
    )
    lines = told.err.splitlines()
    assert len(lines) == len(patterns)
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(f"fcl_bench: {pattern}", line)


def test_nothing_to_compare_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "stopped", record(result={"status": "interrupted"}))
    refused = command("leaderboard", str(tmp_path))
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        "fcl_bench: Interrupted runs that are left out: 1.\n"
        "fcl_bench: There is no finished run to compare: name folders that hold some, such as runs.\n"
    )
    assert command("leaderboard", str(tmp_path), "--sort", "speed").code == 2
    assert command("leaderboard").code == 2


def test_markdown_has_a_heading_and_a_table_for_every_group(tmp_path: Path) -> None:
    path = write(tmp_path / "one", record())
    write(tmp_path / "two", record("finetune", result={"stream.tasks": 10}))
    told = command("leaderboard", str(path), str(tmp_path / "two"), "--markdown", str(tmp_path / "board.md"))
    assert told.code == 0, told.err
    written = (tmp_path / "board.md").read_text()
    headings = [line for line in told.out.splitlines() if line.startswith("digits")]
    assert re.findall(r"^## (.*)$", written, re.MULTILINE) == headings
    assert len(headings) == 2
    assert "| `afcl` | 1 | 50.00 ± n/a | 40.00 ± n/a | n/a | 50.00 ± n/a | 2.00 | 0.00 | 0.50 | 1.50 |\n" in written
    assert written.endswith("|\n")
    failed = command("leaderboard", str(path), "--markdown", str(tmp_path / "nowhere" / "board.md"))
    assert failed.code == 1
    assert re.fullmatch(r"fcl_bench: Cannot write to \S+/nowhere: No such file .* set --markdown= .*\n", failed.err)


@pytest.mark.parametrize("width", [80, 160])
def test_a_terminal_shows_every_column(width: int) -> None:
    row = Row("finetune optimizer.momentum=0.5", 3, dict.fromkeys(COLUMNS, Score(12.345, 1.0)))
    screen = StringIO()
    show([Board("heading", "conditions", (row,))], Console(file=screen, force_terminal=True, width=width))
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    assert max(map(len, drawn.splitlines())) <= width
    assert all(word in drawn for title in TITLES for word in title.split())
    assert (drawn.count("12.3"), drawn.count("1.00")) == (len(COLUMNS), 4)


def test_a_sweep_becomes_a_table_without_torch(tiny: Command, output_dir: Path) -> None:
    done = tiny("-m", "method=afcl,finetune", "seed=1,2", "budget.rounds=2", "budget.epochs=1")
    assert done.code == 0, done.err
    code = "import sys; from fcl_bench.__main__ import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    arguments = [sys.executable, "-c", code, "leaderboard", str(output_dir)]
    *lines, heavy = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.splitlines()
    assert heavy == "False"
    assert lines[0] == "gaussian, none (frozen), si_blurry x dirichlet"
    values = [run.values["average_accuracy"] for run in gather([output_dir]).runs if run.method == "afcl"]
    (row,) = (line for line in lines if line.startswith("afcl"))
    assert row.split()[:5] == ["afcl", "2", f"{np.mean(values):.2f}", "±", f"{np.std(values, ddof=1):.2f}"]
    assert any(line.split()[:2] == ["finetune", "2"] for line in lines)
