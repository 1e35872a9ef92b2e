"""What the page is made of, against hand-made records."""

import base64
import gzip
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from page_samples import NASTY, manifest, read_boards, row_of, sample, write_samples, write_with_stream
from records import classifier, views, write

from fcl_bench.leaderboard import page_streams
from fcl_bench.leaderboard.boards import Board
from fcl_bench.leaderboard.columns import COLUMNS
from fcl_bench.leaderboard.page import page
from fcl_bench.leaderboard.page_data import CURVES, marks, page_data
from fcl_bench.leaderboard.page_streams import stream_pictures
from fcl_bench.leaderboard.render import cells


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Board, ...]:
    folder = tmp_path_factory.mktemp("some records")
    write_samples(folder)
    return read_boards(folder)


@pytest.fixture(scope="module")
def large(boards: tuple[Board, ...]) -> Board:
    (board,) = (board for board in boards if len(board.rows) == 6)
    return board


def test_texts_are_those_of_the_tables(boards: tuple[Board, ...]) -> None:
    data = page_data(boards)
    for board, shown in zip(boards, data["boards"], strict=True):
        order = [board.sort, *(name for name in COLUMNS if name != board.sort)]
        for line, row in zip(cells(board, tuple(COLUMNS))[1:], shown["rows"], strict=True):
            texts = dict(zip(COLUMNS, row["texts"], strict=True))
            intervals = dict(zip(COLUMNS, row["intervals"], strict=True))
            assert [line[2], *line[5:-1]] == [texts[name] for name in order]
            assert line[3] == intervals[board.sort]
            assert line[4] == ("best" if row["name"] == shown["best"] else row["p"])


def test_curves_and_matrices_keep_six_digits(boards: tuple[Board, ...]) -> None:
    for board, shown in zip(boards, page_data(boards)["boards"], strict=True):
        for row, drawn in zip(board.rows, shown["rows"], strict=True):
            for run, line in zip(row.runs, drawn["runs"], strict=True):
                np.testing.assert_allclose(line["matrix"], run.result["matrix"], rtol=5e-6)
                for name, curve in zip(CURVES, line["curves"], strict=True):
                    expected = np.array(run.result["curves"][name], dtype=float)
                    np.testing.assert_allclose(np.array(curve, dtype=float), expected, rtol=5e-6)
                    assert all(len(str(value).replace(".", "")) <= 7 for value in curve if value is not None)


def test_settings_that_runs_share_are_stored_once(boards: tuple[Board, ...]) -> None:
    runs = [run for board in boards for row in board.rows for run in row.runs]
    parts = {json.dumps({key: value}) for run in runs for key, value in run.result["config"].items()}
    data = page_data(boards)
    assert len(data["pool"]) == len(set(data["pool"])) == len(parts) + 1  # and one environment
    drawn = [run for board in data["boards"] for row in board["rows"] for run in row["runs"]]
    lines = [sorted("\n".join(data["pool"][part] for part in run["config"]).splitlines()) for run in drawn]
    assert all(
        f"seed={run['seed']}" in text and f"backbone.seed={run['seed']}" in text
        for run, text in zip(drawn, lines, strict=True)
    )
    assert sum(f"method.note={NASTY}" in text for text in lines) == 3
    assert "torch=2.9" in data["pool"][drawn[0]["environment"]].splitlines()


def test_best_and_second_are_marked_as_shown_and_without_oracles(tmp_path: Path) -> None:
    values = {"a": (60.004, 5), "b": (60.001, 5), "c": (50.0, 5), "d": (40.0, 5), "joint": (99.0, 1)}
    for method, (accuracy, forgetting) in values.items():
        result = sample(method, 1, facts="oracle" if method == "joint" else "")
        result["metrics"] |= {"average_accuracy": accuracy, "forgetting": forgetting, "retention": None}
        result["metrics"] |= {"runtime_seconds": {"a": 3.0, "b": 1.0, "c": 2.0}.get(method, 9.0)}
        write(tmp_path / method, result)
    (board,) = read_boards(tmp_path)
    assert marks(board, "average_accuracy") == {"a": 1, "b": 1, "c": 2}  # 60.00 twice
    assert marks(board, "runtime_seconds") == {"b": 1, "c": 2}
    assert marks(board, "forgetting") == {}  # all equal
    assert marks(board, "retention") == {}  # none defined


def test_only_rows_that_compete_are_ranked(large: Board) -> None:
    (data,) = page_data([large])["boards"]
    assert {row["name"] for row in data["rows"] if not row["ranked"]} == {"joint"}


def test_another_classifier_is_a_row_that_is_not_ranked_and_no_further_run(tmp_path: Path) -> None:
    one = sample("afcl", 1)
    one["other_classifiers"] = {"linear": classifier(99.0)}
    one["metrics"]["epsilon"] = 3.0
    write(tmp_path / "one", one)
    data = page_data(read_boards(tmp_path))
    (board,) = data["boards"]
    assert {row["name"]: row["ranked"] for row in board["rows"]} == {"afcl": True, "afcl [linear]": False}
    assert (board["best"], data["runs"], data["methods"]) == ("afcl", 1, ["afcl"])
    assert data["columns"][-1]["key"] == "epsilon"
    assert [row["texts"][-1] for row in board["rows"]] == ["n/a", "3.00 ± n/a"]


def test_a_record_without_a_curve_has_an_empty_one(tmp_path: Path) -> None:
    write(tmp_path / "one", sample("afcl", 1))
    (board,) = read_boards(tmp_path)
    del board.rows[0].runs[0].result["curves"]["stability"]
    (run,) = page_data([board])["boards"][0]["rows"][0]["runs"]
    assert [len(curve) for curve in run["curves"]] == [3, 3, 0, 3]


def test_views_are_drawn_where_a_record_has_them(tmp_path: Path) -> None:
    write(tmp_path / "new", sample("afcl", 1) | {"views": views(present=1.5)})
    write(tmp_path / "old", sample("fedncm", 1))
    data = page_data(read_boards(tmp_path))
    assert data["views"] == ["dealt", "first_seen", "present"]
    found = {row["name"]: row["runs"][0]["views"] for row in data["boards"][0]["rows"]}
    present = {"curves": [[15, 30, 60], [0.375, 0.75, 1.5], [], []], "matrix": [[1.5] * 3] * 3}
    assert found == {"afcl": {"present": present}, "fedncm": {}}


def test_streams_come_from_any_record_of_the_same_hash(boards: tuple[Board, ...], large: Board) -> None:
    drawn = stream_pictures(boards)
    missing = "stream.json is not next to the record"
    assert {key: value for key, value in drawn.items() if isinstance(value, str)} == dict.fromkeys(
        ("hash-3-3", "hash-2-1", "hash-2-2"), missing
    )
    for seed, clients in ((1, 4), (2, 60)):  # of a large federation the first 50
        expected = manifest(row_of(large, "afcl").runs[seed - 1].result, clients)["counts"]
        picture = drawn[f"hash-3-{seed}"]
        assert isinstance(picture, dict)
        assert unpacked(picture) == sorted(share for share in expected if share[1] < 50)
        numbers = [picture[key] for key in ("tasks", "clients", "shown", "classes")]
        assert numbers == [3, clients, min(clients, 50), 6]


def unpacked(picture: dict) -> list[list[int]]:
    cells = itertools.accumulate(picture["steps"])
    shape = (picture["tasks"], picture["shown"], picture["classes"])
    places = [[int(axis) for axis in np.unravel_index(cell, shape)] for cell in cells]
    return [[*place, count] for place, count in zip(places, picture["counts"], strict=True)]


@pytest.mark.parametrize("content", ["{}", "[", '{"hash": "hash-3-1", "sizes": [[1]], "counts": [[0, 0]]}', "[1]"])
def test_a_manifest_that_cannot_be_used_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    write(tmp_path / "one", sample("afcl", 1))
    (tmp_path / "one" / "stream.json").write_text(content)
    assert list(stream_pictures(read_boards(tmp_path)).values()) == ["stream.json is not next to the record"]


def test_every_board_gets_a_picture_before_one_gets_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, tasks in itertools.product((1, 2), (2, 3)):
        result = sample("afcl", seed, tasks)
        write_with_stream(tmp_path / f"{seed}-{tasks}", result, manifest(result))
    first = len(manifest(sample("afcl", 1, 2))["counts"])
    monkeypatch.setattr(page_streams, "MOST_SHARES", first + 1)
    reasons = {key: value for key, value in stream_pictures(read_boards(tmp_path)).items() if isinstance(value, str)}
    assert reasons == dict.fromkeys(("hash-2-2", "hash-3-2"), "the page would become too large")


def test_no_text_of_a_record_is_markup(boards: tuple[Board, ...]) -> None:
    text = page(boards)
    assert "alert(1)" not in text
    packed = re.search(r'id="data">([A-Za-z0-9+/=]+)</script>', text)
    assert packed
    data = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    assert f"finetune note={NASTY}" in {row["name"] for board in data["boards"] for row in board["rows"]}
