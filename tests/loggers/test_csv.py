"""The tables of the CSV logger, and what is said when there was nothing to log."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Command, Outcome

from fcl_bench.loggers import CSV
from fcl_bench.loggers.wandb_content import rows

FIELDS = {"task": 0, "exchange": 0, "function": "train", "uplink_bytes": 8}
RESULT = {
    "schema": 1,
    "curves": {"average_accuracy": [50.0, 40.0], "retention": [None, 0.5]},
    "metrics": {},
    "other_classifiers": {},
}


def write_exchanges(folder: Path, *lines: dict[str, Any]) -> None:
    (folder / "exchanges.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def logged(folder: Path) -> list[dict[str, str]]:
    (folder / "result.json").write_text(json.dumps(RESULT))
    with CSV().opened(folder) as log:
        log(RESULT)
        log(RESULT)  # a second time changes nothing
    return read(folder / "exchanges.csv")


def test_every_task_is_a_row_of_all_curves(tmp_path: Path) -> None:
    write_exchanges(tmp_path, FIELDS)
    logged(tmp_path)
    assert read(tmp_path / "metrics.csv") == [
        {"task": "1", "average_accuracy": "50.0", "retention": ""},
        {"task": "2", "average_accuracy": "40.0", "retention": "0.5"},
    ]


def test_every_exchange_is_a_row_with_a_column_per_field_and_note(tmp_path: Path) -> None:
    noted = FIELDS | {"notes": {"loss": 0.5}}
    write_exchanges(tmp_path, noted, FIELDS | {"task": 1, "notes": {"norm": 3, "loss": 0.25}}, FIELDS | {"notes": {}})
    found = logged(tmp_path)
    assert list(found[0]) == ["task", "exchange", "function", "uplink_bytes", "note/loss", "note/norm"]
    assert [(row["task"], row["note/loss"], row["note/norm"]) for row in found] == [
        ("0", "0.5", ""),
        ("1", "0.25", "3"),
        ("0", "", ""),
    ]


def test_a_run_of_the_time_before_notes_can_be_logged(tmp_path: Path) -> None:
    write_exchanges(tmp_path, FIELDS)
    assert logged(tmp_path) == [{key: str(value) for key, value in FIELDS.items()}]


def test_a_method_that_asks_nobody_has_an_empty_table(tmp_path: Path) -> None:
    write_exchanges(tmp_path)
    assert logged(tmp_path) == []


def test_notes_are_columns_of_the_rows_for_wandb(tmp_path: Path) -> None:
    write_exchanges(tmp_path, FIELDS | {"notes": {"loss": 0.5}}, FIELDS | {"task": 1})
    first, _, second, _ = rows(tmp_path, RESULT)
    fields = {f"exchange/{name}": value for name, value in FIELDS.items()}
    assert first == {"exchange": 1, **fields, "exchange/note/loss": 0.5}
    assert second == {"exchange": 2, **fields, "exchange/task": 1}


def test_the_table_of_a_run_has_its_exchanges(afcl_run: Outcome) -> None:
    found = read(afcl_run.folder / "exchanges.csv")
    assert len(found) == len(afcl_run.exchanges)
    for row, line in zip(found, afcl_run.exchanges, strict=True):
        for name in line.keys() - {"notes", "rejected"}:
            assert row[name] == str(line[name])


@pytest.mark.parametrize("before", ["logger=csv", "logger=wandb"])
def test_that_a_finished_run_is_not_logged_again_is_said(tiny: Command, before: str, output_dir: Path) -> None:
    assert tiny("method=afcl", before, *["logger.mode=disabled"] * (before == "logger=wandb")).code == 0
    again = tiny("method=afcl", "logger=wandb", "logger.mode=disabled")
    assert (again.code, again.err) == (
        0,
        "warning: The logger WandB was not used, as nothing was computed: a run is logged while it runs; resume=false "
        "runs it again and logs it.\n",
    )
    assert not (output_dir / "wandb").exists()


@pytest.mark.parametrize("logger", ["csv", "none"])
def test_a_logger_of_the_run_folder_says_nothing(tiny: Command, logger: str) -> None:
    assert tiny("method=afcl").code == 0
    assert tiny("method=afcl", f"logger={logger}").err == ""
