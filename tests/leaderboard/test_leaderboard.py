"""The leaderboard: grouping and statistics on hand-made records, and what it says to bad ones."""

import csv
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command, command
from records import classifier, made, record, views, write
from rich.console import Console
from scipy.stats import ttest_rel

from fcl_bench.leaderboard.columns import COLUMNS, SHOWN
from fcl_bench.leaderboard.page_data import page_data
from fcl_bench.leaderboard.render import cells, markdown, overview, show
from fcl_bench.leaderboard.runs import gather
from fcl_bench.leaderboard.sheet import sheet
from fcl_bench.leaderboard.statements import UNEVEN
from fcl_bench.leaderboard.statistics import Score


def test_mean_and_sample_deviation_over_seeds() -> None:
    (board,) = made(*(record(seed=seed, accuracy=value) for seed, value in enumerate((50.0, 52.0, 57.0))))
    (row,) = board.rows
    assert (row.name, len(row.runs)) == ("afcl", 3)
    assert row.scores["average_accuracy"].mean == pytest.approx(53.0)
    assert row.scores["average_accuracy"].deviation == pytest.approx(13**0.5)  # (9 + 1 + 16) / 2
    assert row.scores["retention"] == Score(None, None, None)
    assert (row.scores["uplink_bytes"].mean, row.scores["stored_bytes"].mean) == (2e6, 5e5)
    assert (row.scores["downlink_bytes"].mean, row.scores["runtime_seconds"].mean) == (0.0, 1.5)
    assert set(row.scores) == set(COLUMNS)


def test_rows_are_sorted_by_the_better_end_and_undefined_ones_come_last() -> None:
    some = [record("a", accuracy=50), record("b", accuracy=70), record("c", accuracy=60)]
    some.append(record("d", accuracy=99, metrics__forgetting=None, metrics__retention=1.0))
    orders = {sort: [row.name for row in made(*some, sort=sort)[0].rows] for sort in COLUMNS}
    assert orders["average_accuracy"] == ["d", "b", "c", "a"]
    assert orders["forgetting"] == ["b", "c", "a", "d"]
    assert orders["retention"] == ["d", "a", "b", "c"]
    assert orders["runtime_seconds"] == ["a", "b", "c", "d"]


def test_a_run_that_is_found_twice_counts_once() -> None:
    (board,) = made(record(seed=1), record(seed=2), record(seed=1), record(seed=2, run_id="another"))
    assert [len(row.runs) for row in board.rows] == [2]


def test_other_settings_of_a_method_have_a_row_of_their_own_which_names_them() -> None:
    others = [record("finetune", seed=seed, config__method__lr=0.1) for seed in (1, 2)]
    other = record("finetune", config__method__optimizer__momentum=0.0, config__method__keep=True)
    (board,) = made(record("finetune"), *others, other, record("afcl", config__method__lr=0.5))
    assert {row.name: len(row.runs) for row in board.rows} == {
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
        ("stream.tasks", 10, (": tasks=3", ": tasks=10")),
        ("config.limit_train", 100, (": limit_train=100", ": limit_train=null")),
        ("config.limit_classes", 4, None),
        ("config.federation.dropout", 0.5, (": federation.dropout=0", ": federation.dropout=0.5")),
        ("config.federation.late", 0.3, ("", ": federation.late=0.3")),
        ("config.dataset.classes", 6, ("", ": dataset.classes=6")),
        ("backbone", "resnet18", None),
        ("dataset", "cifar10", None),
        ("track", "end_to_end", None),
        ("stream.name", "iid", None),
    ],
)
def test_runs_under_other_conditions_are_never_mixed(place: str, value: Any, headings: tuple[str, str] | None) -> None:
    other = record("afcl", seed=2, **{place.replace(".", "__"): value})
    found = made(record(), record("finetune", seed=2), other)
    assert sorted(len(board.rows) for board in found) == [1, 2]
    assert len({board.heading for board in found}) == 2
    if headings:
        common = "digits, none (frozen), si_blurry x dirichlet"
        assert [board.heading for board in found] == [f"{common}{rest}" for rest in headings]


def test_what_cannot_change_a_result_is_no_condition() -> None:
    elsewhere = record("finetune", seed=2, config__dataset__data_dir="elsewhere", config__federation__dropout=0)
    (board,) = made(record(), elsewhere)
    assert board.stream == "tasks 3, clients 3, alpha 0.1"


@pytest.mark.parametrize("node", ["dataset", "backbone", "federation", "method"])
def test_a_class_that_moved_to_another_module_parts_neither_tables_nor_rows(node: str) -> None:
    moved = record(seed=2, **{f"config__{node}___target_": "other.place.Class"})
    (board,) = made(record(**{f"config__{node}___target_": "fcl_bench.place.Class"}), moved)
    assert [(row.name, len(row.runs)) for row in board.rows] == [("afcl", 2)]


def test_a_record_from_before_methods_had_names_shares_the_row_of_its_method() -> None:
    old = {"_target_": "fcl_bench.methods.afcl.AFCL", "lr": 0.01, "optimizer": {"momentum": 0.9}}
    (board,) = made(record(seed=1), record(seed=2, config__method=old))
    assert [(row.name, len(row.runs)) for row in board.rows] == [("afcl", 2)]


def test_unnamed_methods_of_others_are_told_apart_by_their_classes() -> None:
    one, other = (record("methods", config__method={"_target_": f"my_lab.methods.{name}"}) for name in "AB")
    (board,) = made(one, other)
    assert {row.name for row in board.rows} == {
        "methods _target_=my_lab.methods.A",
        "methods _target_=my_lab.methods.B",
    }


def test_a_class_without_a_name_is_a_setting() -> None:
    adam = record("finetune", config__method__optimizer___target_="torch.optim.Adam")
    (board,) = made(record("finetune", config__method__optimizer___target_="torch.optim.SGD"), adam)
    names = {"finetune optimizer._target_=torch.optim.Adam", "finetune optimizer._target_=torch.optim.SGD"}
    assert {row.name for row in board.rows} == names


@pytest.mark.parametrize(
    ("place", "usual", "other"),
    [("stream__reserved", 0, 20), ("config__backbone__clients_hold", None, "images")],
)
def test_a_setting_that_old_records_do_not_know_parts_tables_only_where_it_matters(
    place: str, usual: Any, other: Any
) -> None:
    (board,) = made(record("a"), record("b", **{place: usual}))
    assert board.stream == "tasks 3, clients 3, alpha 0.1"
    assert len(made(record("a"), record("b", **{place: other}))) == 2


def test_a_metric_that_a_record_does_not_have_is_not_available() -> None:
    thin = record("thin", 1, 60.0)
    for name in ("retention", "uplink_bytes"):
        del thin["metrics"][name], thin["curves"][name]
    del thin["facts"], thin["other_classifiers"]
    (board,) = made(record("whole"), thin)
    titles, *rows = cells(board)
    assert [row[0] for row in rows] == ["thin", "whole"]
    assert [row[titles.index("up (MB)")] for row in rows] == ["n/a", "2.00"]
    assert rows[0][titles.index("retention")] == "n/a"
    assert board.rows[0].runs[0].result["curves"]["retention"] == [None, None, None]


def test_a_metric_that_is_not_known_here_can_be_asked_for(tmp_path: Path) -> None:
    for name, epsilon in {"a": 1.0, "b": 3.0}.items():
        write(tmp_path / name, record(name, metrics__epsilon=epsilon, metrics__wall_seconds=10 * epsilon))
    write(tmp_path / "c", record("c"))
    told = command("leaderboard", str(tmp_path), "--sort", "epsilon", "--columns", "wall_seconds")
    assert (told.code, told.err) == (0, "")
    lines = [line.split() for line in told.out.splitlines()]
    assert ["method", "seeds", "epsilon", "95", "%", "p", "wall_seconds", "facts"] in lines
    found = {line[0]: line[1:] for line in lines if line and line[0] in "abc"}
    assert found == {
        "b": ["1", "3.00", "±", "n/a", "n/a", "best", "30.00"],  # a score, and a cost
        "a": ["1", "1.00", "±", "n/a", "n/a", "n/a", "10.00"],
        "c": ["1", "n/a", "n/a", "n/a"],
    }
    assert "epsilon" not in command("leaderboard", str(tmp_path)).out


def test_metrics_of_views_are_columns_and_not_available_in_old_records(tmp_path: Path) -> None:
    write(tmp_path / "new", record("new", views=views(first_seen=1.1, present=1.7)))
    old = write(tmp_path / "old", record("old"))
    names = "retention,retention (first_seen),retention (present),step_stability (present)"
    told = command("leaderboard", str(tmp_path), "--sort", "average_accuracy (present)", "--columns", names)
    assert (told.code, told.err) == (0, "")
    (titles,) = (line for line in told.out.splitlines() if line.startswith("method"))
    assert re.split(r"  +", titles)[2:-1] == [
        *("average (%) (present)", "95 %", "p", "retention", "retention (first_seen)", "retention (present)"),
        "step stability (%) (present)",
    ]
    rows = [re.split(r"  +", line) for line in told.out.splitlines() if line.startswith(("new", "old"))]
    assert rows == [
        ["new", "1", "68.00 ± n/a", "n/a", "best", "n/a", "1.10 ± n/a", "1.70 ± n/a", "51.00 ± n/a"],
        ["old", "1", *["n/a"] * 6],  # it is not compared
    ]
    alone = command("leaderboard", str(old), "--columns", "retention (present),calibration_error")
    assert (alone.code, alone.err) == (0, "")
    assert "retention (present)  calibration error (%)" in alone.out


def test_views_of_other_classifiers_are_their_own() -> None:
    linear = classifier(60.0) | {"views": views(present=1.2)}
    (board,) = made(record("a", views=views(present=1.7), other_classifiers__linear=linear))
    found = {row.name: row.scores["retention (present)"].mean for row in board.rows}
    assert found == {"a": 1.7, "a [linear]": 1.2}
    (board,) = made(record("a", views=views(present=1.7), other_classifiers__linear=classifier(60.0)))
    assert {row.name: row.scores["retention (present)"].mean for row in board.rows} == {"a": 1.7, "a [linear]": None}


def test_views_change_no_table_that_does_not_ask_for_them() -> None:
    assert markdown(made(record(views=views(present=1.7)))) == markdown(made(record()))


def test_a_damaged_view_is_named(tmp_path: Path) -> None:
    damaged = views(present=1.7)
    damaged["present"]["matrix"] = [[1.0]]
    path = write(tmp_path / "bad", record(views=damaged))
    assert command("leaderboard", str(path)).err.startswith(
        f"fcl_bench: The record {path} is damaged (views.present: the curve of average_accuracy has not a value for "
    )


def test_csv_and_page_have_every_metric() -> None:
    tables = made(record("a", metrics__epsilon=1.0), record("b", stream__alpha=1))
    titles, *lines = csv.reader(io.StringIO(sheet(tables)))
    assert [line[titles.index("epsilon_mean")] for line in lines] == ["1.0", ""]
    data = page_data(tables)
    assert [column["key"] for column in data["columns"]] == [*COLUMNS, "epsilon"]
    assert [board["rows"][0]["texts"][-1] for board in data["boards"]] == ["1.00 ± n/a", "n/a"]
    assert [board["rows"][0]["runs"][0]["values"][-1] for board in data["boards"]] == ["1.00", "n/a"]


def test_other_classifiers_have_rows_that_do_not_compete() -> None:
    some = [record("a", seed, 50.0, other_classifiers__linear=classifier(60.0 + seed)) for seed in (1, 2)]
    some += [record("b", seed, 40.0, other_classifiers__linear=classifier(1.0)) for seed in (1, 2)]
    some += [record("b", seed, 30.0, config__method__lr=5) for seed in (1, 2)]
    (board,) = made(*some)
    names = ["a [linear]", "a", "b lr=0.01", "b lr=5", "b lr=0.01 [linear]"]
    assert [row.name for row in board.rows] == names
    assert [row.name for row in board.ranked] == ["a", "b lr=0.01", "b lr=5"]
    assert [row.comparison is None for row in board.rows] == [True, True, False, False, True]
    linear = board.rows[0]
    assert (linear.method, linear.facts) == ("a", ("other_classifier",))
    assert (linear.scores["average_accuracy"].mean, linear.scores["retention"].mean) == (61.5, 0.5)
    assert linear.scores["uplink_bytes"].mean == 2_000_000  # of the run that has learned both
    assert linear.scores["anytime_accuracy"].mean is None  # of the method's own classifier only
    assert linear.runs[0].result["curves"]["average_accuracy"] == [61 / 4, 61 / 2, 61]
    titles, first, *_ = cells(board)
    assert (first[0], first[titles.index("p")], first[-1]) == ("a [linear]", "", "other classifier")


def test_a_damaged_other_classifier_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "bad", record(other_classifiers__linear=classifier(60.0) | {"metrics": {}}))
    assert command("leaderboard", str(path)).err.startswith(
        f"fcl_bench: The record {path} is damaged (other_classifiers.linear: there is no average_accuracy): remove it"
    )


def test_bad_records_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    write(tmp_path / "good", record(seed=1))
    write(tmp_path / "good2", record(seed=2, accuracy=52.0))
    write(tmp_path / "old", record(schema=0))
    write(tmp_path / "stopped", record(seed=3, status="interrupted", metrics={}))
    write(tmp_path / "thin", record(metrics={}))
    write(tmp_path / "list", record()).write_text("[]")
    cut = write(tmp_path / "cut", record())
    cut.write_text(cut.read_text()[:100])
    told = command("leaderboard", str(tmp_path), str(tmp_path / "good"), str(tmp_path / "missing"))
    assert told.code == 0
    line = r"^afcl +2  51\.00 ± 1\.41  38\.29 to 63\.71  best  40\.00 ± 0\.00 +n/a .* 49\.00 ± 1\.41 "
    assert re.search(line, told.out, re.MULTILINE)
    patterns = (
        r"The record \S+/cut/result\.json cannot be read \(.*\): remove it and run again\.",
        r"The record \S+/list/result\.json has schema None, but this version reads schema 1\.",
        r"The record \S+/old/result\.json has schema 0, but this version reads schema 1\.",
        r"The record \S+/thin/result\.json is damaged \(metrics: there is no average_accuracy\): remove it .*\.",
        r"There is no file or folder \S+/missing: name folders of runs, or records\.",
        r"Unfinished runs \(interrupted or failed\) that are left out: 1\.",
    )
    lines = told.err.splitlines()
    assert len(lines) == len(patterns)
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(f"fcl_bench: {pattern}", line)


def test_nothing_to_compare_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "stopped", record(status="interrupted"))
    refused = command("leaderboard", str(tmp_path))
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        "fcl_bench: Unfinished runs (interrupted or failed) that are left out: 1.\n"
        "fcl_bench: There is no finished run to compare: name folders that hold some, such as runs.\n"
    )
    assert command("leaderboard").code == 2


@pytest.mark.parametrize("width", [80, 160, 400])
def test_a_terminal_shows_every_column(width: int) -> None:
    tables = made(record("finetune", seed=1, config__method__lr=0.5), record("finetune", seed=1))
    screen = io.StringIO()
    show(tables, Console(file=screen, force_terminal=True, width=width))
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    assert max(map(len, drawn.splitlines())) <= width
    titles, *rows = cells(tables[0])
    assert {COLUMNS[name].title for name in SHOWN} < set(titles)
    assert all(drawn.count(title) >= 1 for title in titles)
    assert all(drawn.count(cell) >= 1 for row in rows for cell in row)


def test_the_best_is_compared_with_all_but_oracles() -> None:
    some = [record("a", seed, 70 + seed) for seed in (1, 2, 3)]
    some += [record("b", seed, value) for seed, value in ((1, 60.0), (2, 62.0), (3, 61.0), (4, 5.0))]
    some += [record("c", 1, 50.0), record("d", 7, 40.0)]
    some += [record("joint", seed, 90.0, facts__oracle=True) for seed in (1, 2, 3)]
    (board,) = made(*some)
    assert [row.name for row in board.rows] == ["joint", "a", "c", "b", "d"]
    assert [row.name for row in board.ranked] == ["a", "c", "b", "d"]
    beside = {row.name: row.comparison for row in board.rows}
    assert beside["joint"] is beside["a"] is None
    wanted = ttest_rel([60, 62, 61], [71, 72, 73]).pvalue
    assert (beside["b"].pairs, beside["b"].p) == (3, pytest.approx(wanted))
    assert beside["b"].p_holm == beside["b"].p  # the only method with a test
    assert (beside["c"].pairs, beside["c"].p) == (1, None)
    assert (beside["d"].pairs, beside["d"].p) == (0, None)
    titles, *rows = cells(board)
    assert [row[titles.index("p")] for row in rows] == ["", "best", "n/a", f"{wanted:.3f}", "n/a"]


def test_mixed_protocols_are_named_and_kept_apart(tmp_path: Path) -> None:
    write(tmp_path / "one", record(protocol="frozen_v1"))
    write(tmp_path / "two", record())
    told = command("leaderboard", str(tmp_path))
    assert told.err == "fcl_bench: Runs of several protocols (frozen_v1, none) are not mixed.\n"
    assert told.out.count("digits, none (frozen)") == 2


def test_one_protocol_may_be_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "one", record(protocol="frozen_v1"))
    write(tmp_path / "two", record())
    told = command("leaderboard", str(tmp_path), "--protocol", "frozen_v1")
    assert told.err == ""
    assert told.out.count("digits, none (frozen)") == 1
    assert (
        command("plot", str(tmp_path), "--kind", "curves", "--protocol", "none", "--out", f"{tmp_path}/a.png").code == 0
    )
    wrong = command("leaderboard", str(tmp_path), "--protocol", "frozen")
    assert (wrong.code, wrong.out) == (1, "")
    assert "no finished run under --protocol frozen; there are some under: frozen_v1, none." in wrong.err


def test_a_single_seed_has_no_interval(tmp_path: Path) -> None:
    told = command("leaderboard", str(write(tmp_path / "one", record())))
    assert re.search(r"^afcl +1  50\.00 ± n/a   n/a  best ", told.out, re.MULTILINE)


def test_tables_of_streams_with_other_settings_have_an_overview() -> None:
    other = record(stream__name="disjoint", stream__ratio=0.5)
    titles, *_ = overview(made(record(), other, record(stream__ratio=0.1)))
    streams = ("disjoint, ratio 0.5", "si_blurry, ratio null", "si_blurry, ratio 0.1")
    assert titles == ["method", *(f"stream {words}" for words in streams)]


def test_a_fixed_seed_of_the_network_does_not_part_seeds() -> None:
    runs = [record(method, seed, config__backbone__seed=1) for method in ("a", "b") for seed in (1, 2, 3)]
    (board,) = made(*runs)
    assert [len(row.runs) for row in board.rows] == [3, 3]
    assert not board.uneven


def test_a_row_has_the_same_name_in_all_tables_only_for_the_same_settings() -> None:
    few, many = (
        record("finetune", config__method__rounds=2),
        record("finetune", config__method__rounds=200, stream__alpha=1),
    )
    names = [row.name for board in made(few, many) for row in board.rows]
    assert names == ["finetune rounds=2", "finetune rounds=200"]


def test_rows_of_all_tables_come_before_others_in_an_overview() -> None:
    lucky = record("lucky", accuracy=90.0)
    _, *rows = overview(made(lucky, record("a"), record("a", stream__alpha=1)))
    assert [row[0] for row in rows] == ["a", "lucky"]


def test_different_seeds_are_told() -> None:
    even, uneven = made(record("a"), record("b")), made(record("a"), record("b", seed=2))
    assert [board.uneven for board in (*even, *uneven)] == [False, True]
    assert UNEVEN in markdown(uneven)
    assert UNEVEN not in markdown(even)


def test_an_unusual_federation_is_told() -> None:
    (board,) = made(record(config__federation={"participation": 0.2, "dropout": 0.0}, config__backbone__weights="none"))
    assert board.stream == "tasks 3, clients 3, alpha 0.1, backbone.weights none, federation.participation 0.2"
    (board,) = made(record(config__federation={"dropout": 0.0, "late": 0.3, "delay": 2, "away": 0.0}))
    assert board.stream == "tasks 3, clients 3, alpha 0.1, federation.late 0.3"


def test_lost_answers_of_records_that_did_not_count_them_are_not_known(tmp_path: Path) -> None:
    write(tmp_path / "new", record("new", metrics__lost_answers=3, metrics__late_answers=0))
    write(tmp_path / "old", record("old"))
    told = command("leaderboard", str(tmp_path), "--columns", "lost_answers,late_answers")
    assert (told.code, told.err) == (0, "")
    found = {line.split()[0]: line.split()[-3:] for line in told.out.splitlines() if line.startswith(("new", "old"))}
    assert found["new"][-2:] == ["3", "0"]
    assert found["old"][-2:] == ["n/a", "n/a"]


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"metrics__uplink_bytes": 2_000_001}, "uplink_bytes"),
        ({"metrics__retention": 0.5, "metrics__stored_bytes": 0}, "retention, stored_bytes"),
        ({"matrix__2": [30.0, 50.0, 71.0]}, "matrix"),
        ({"inputs": "4567"}, "inputs"),
        ({"other_classifiers__linear": classifier(51.0)}, "the linear classifier"),
    ],
)
def test_two_records_of_one_run_that_differ_are_named(tmp_path: Path, change: dict[str, Any], difference: str) -> None:
    one = record(other_classifiers__linear=classifier(50.0))
    other = record(**({"other_classifiers__linear": classifier(50.0)} | change))
    for name, content in {"1": one, "2": one, "3": other}.items():
        write(tmp_path / name, content)
    told = command("leaderboard", str(tmp_path))
    assert told.err == (
        f"fcl_bench: Two records of the same run differ in {difference}: {tmp_path}/1/result.json and "
        f"{tmp_path}/3/result.json; the first one counts.\n"
    )
    assert re.search(r"^afcl +1  50\.00 ± n/a .* 2\.00 ", told.out, re.MULTILINE)


@pytest.mark.parametrize("metric", ["runtime_seconds", "client_seconds", "peak_memory_mb", "wall_seconds", "new"])
def test_seconds_memory_and_what_one_does_not_have_are_no_contradiction(tmp_path: Path, metric: str) -> None:
    write(tmp_path / "1", record())
    write(tmp_path / "2", record(**{f"metrics__{metric}": 7.0}))
    assert command("leaderboard", str(tmp_path)).err == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"metrics__retention": "12.5"}, "metrics.retention: Input should be a valid number"),
        ({"curves__retention": [1.0]}, "curves: the curve of retention has not a value for each of 3 tasks"),
        ({"matrix": [[1.0, 2.0]]}, "curves: the curve of average_accuracy has not a value for each of 1 tasks"),
        ({"matrix": [[1.0], [1.0], [1.0]]}, "matrix: the matrix has not a value for every two tasks"),
        ({"facts": None}, "facts: Input should be a valid dictionary"),
        ({"seed": "1"}, "seed: Input should be a valid integer"),
        ({"protocol": 5}, "protocol: Input should be a valid string"),
        ({"stream": {"name": "iid"}}, "stream.partition: Field required"),
        ({"config__method": None}, "config.method: Input should be a valid dictionary or instance of MethodContent"),
        ({"metrics__retention": 1e300}, "metrics.retention: Input should be less than or equal to 1000000000000000000"),
        ({"environment": None}, "environment: Input should be a valid dictionary"),
    ],
)
def test_a_damaged_record_is_named_and_the_rest_is_shown(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    write(tmp_path / "good", record())
    write(tmp_path / "bad", record(**change))
    told = command("leaderboard", str(tmp_path))
    assert told.code == 0
    assert (
        told.err
        == f"fcl_bench: The record {tmp_path}/bad/result.json is damaged ({reason}): remove it and run again.\n"
    )
    assert "afcl  " in told.out


def test_a_record_of_endless_depth_is_named(tmp_path: Path) -> None:
    write(tmp_path / "deep", {}).write_text("[" * 100_000)
    assert re.match(
        r"fcl_bench: The record \S+ cannot be read \(.*\): remove it", command("leaderboard", str(tmp_path)).err
    )


@pytest.mark.parametrize(
    ("option", "value"), [("--sort", "avrage_accuracy"), ("--columns", "retention,avrage_accuracy")]
)
def test_an_unknown_metric_is_named_with_the_closest(tmp_path: Path, option: str, value: str) -> None:
    refused = command("leaderboard", str(write(tmp_path / "one", record(metrics__epsilon=1.0))), option, value)
    assert refused.code == 2
    assert refused.err.startswith("fcl_bench: There is no metric 'avrage_accuracy'; choose from: average_accuracy, ")
    assert ", epsilon, " in refused.err


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
