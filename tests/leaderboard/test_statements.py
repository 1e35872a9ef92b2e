"""What the leaderboard says in sentences, against hand-made records and figures computed by hand or by scipy."""

import csv
import io
import re
from pathlib import Path
from typing import Any

import plugin
import pytest
from conftest import command
from records import believed, classifier, made, record, write
from scipy import stats

from fcl_bench.leaderboard.boards import Board
from fcl_bench.leaderboard.columns import SHOWN
from fcl_bench.leaderboard.page_data import page_data
from fcl_bench.leaderboard.protocols import difference, protocol_sentences
from fcl_bench.leaderboard.render import cells, markdown, overviews
from fcl_bench.leaderboard.sheet import sheet
from fcl_bench.leaderboard.statements import statements

TUNED = {"name": "tuned", "trials": 16, "hyperparameters": ["lr", "mu"]}
FAITHFUL = {"name": "faithful"}
NOTHING = {"name": "tuned", "trials": 0, "hyperparameters": []}


def v2(method: str, seed: int = 1, accuracy: float = 50.0, settings: Any = TUNED, **changes: Any) -> dict[str, Any]:
    """A record of the second protocol."""
    return record(method, seed, accuracy, protocol="frozen_v2", config__settings=settings, **changes)


def said(board: Board, start: str) -> str:
    """The one sentence that begins so."""
    (sentence,) = (sentence for sentence in statements(board) if sentence.startswith(start))
    return sentence


def column_of(board: Board, title: str) -> dict[str, str]:
    titles, *lines = cells(board)
    return {line[0]: line[titles.index(title)] for line in lines}


def test_tuned_and_faithful_rows_of_a_method_are_two_and_named_so() -> None:
    one = [v2("afcl", seed, 60.0) for seed in (1, 2)]
    other = [v2("afcl", seed, 50.0, FAITHFUL) for seed in (1, 2)]
    (board,) = made(*one, *other)
    assert [(row.name, row.method, row.seeds) for row in board.rows] == [
        ("afcl tuned", "afcl", (1, 2)),
        ("afcl faithful", "afcl", (1, 2)),
    ]


def test_rows_that_were_tuned_differently_are_not_one_and_an_axis_is_named() -> None:
    again = v2("afcl", 2, settings=TUNED | {"trials": 32})
    (board,) = made(v2("afcl"), again, v2("er", config__method__memory_size=300), v2("er"))
    assert sorted(row.name for row in board.rows) == [
        "afcl tuned settings.trials=16",
        "afcl tuned settings.trials=32",
        "er tuned",
        "er tuned memory_size=300",
    ]


def test_tables_of_two_protocols_stand_side_by_side_with_names_of_their_own() -> None:
    """A learning rate that differs between protocols is no part of a name in either."""
    first = [record("afcl", 1, 40.0, protocol="frozen_v1", stream__alpha=alpha) for alpha in (0.1, 0.2)]
    second = [v2("afcl", 1, 60.0, config__method__lr=0.5, stream__alpha=alpha) for alpha in (0.1, 0.2)]
    boards = made(*first, *second)
    assert [(board.conditions["protocol"], [row.name for row in board.rows]) for board in boards] == [
        *[("frozen_v1", ["afcl"])] * 2,
        *[("frozen_v2", ["afcl tuned"])] * 2,
    ]
    assert [(title, [line[0] for line in table]) for title, table in overviews(boards)] == [
        ("average (%), protocol frozen_v1", ["method", "afcl"]),
        ("anytime (%), protocol frozen_v1", ["method", "afcl"]),
        ("average (%), protocol frozen_v2", ["method", "afcl tuned"]),
        ("anytime (%), protocol frozen_v2", ["method", "afcl tuned"]),
    ]
    names = {line["row"]: line["protocol"] for line in csv.DictReader(io.StringIO(sheet(boards)))}
    assert names == {"afcl": "frozen_v1", "afcl tuned": "frozen_v2"}


def test_what_two_protocols_differ_in_is_read_from_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = "# @package _global_\n# Mine\ndefaults:\n"
    one = f"{head}  - override /budget: paper\nprotocol: one\nbackbone:\n  input_size: 64\nseed: 1\n"
    two = (
        f"{head}  - override /budget: two_cores\n  - override /local: trainer\nprotocol: two\nseed: 1\nlimit_test: 9\n"
    )
    package = plugin.install(tmp_path, monkeypatch)
    (package / "configs" / "protocol").mkdir()
    for name, content in (("one", one), ("two", two), ("same", one.replace("protocol: one", "protocol: same"))):
        (package / "configs" / "protocol" / f"{name}.yaml").write_text(content)
    assert difference("one", "two") == (
        "two differs from one in budget two_cores (there paper), local trainer (there not named), "
        "limit_test 9 (there not named), backbone.input_size not named (there 64); the rest of what they name is equal."
    )
    assert difference("one", "same") == "The protocols one and same name the same settings."
    assert difference("one", "gone").startswith("What the protocol gone fixes is not known here, as it has no file")
    assert difference("../method/afcl", "one").startswith("What the protocol ../method/afcl fixes is not known here")


def test_only_tables_of_several_protocols_need_that_sentence() -> None:
    assert protocol_sentences(made(v2("afcl"), v2("afcl", stream__alpha=1))) == []
    mixed, differ = protocol_sentences(made(record(), record(protocol="frozen_v1"), v2("afcl")))
    assert (
        mixed == "Runs of several protocols (none, frozen_v1, frozen_v2) have tables of their own and are never mixed."
    )
    assert differ.startswith("frozen_v2 differs from frozen_v1 in ")
    assert "settings tuned (there not named)" in differ
    assert "published.seeds [1, 2, 3, 4, 5] (there not named)" in differ
    assert "input_size" not in differ
    (alone,) = protocol_sentences(made(record(), v2("afcl")))
    assert alone.startswith("Runs of several protocols (none, frozen_v2) ")


def test_accuracy_for_its_price_is_per_byte_of_both_ways_and_per_second() -> None:
    cheap = {"metrics__uplink_bytes": 3_000_000, "metrics__downlink_bytes": 1_000_000, "metrics__runtime_seconds": 8.0}
    quick = {"metrics__uplink_bytes": 30_000_000, "metrics__runtime_seconds": 0.5}
    (board,) = made(record("a", 1, 20.0, **cheap), record("b", 1, 60.0, **quick))
    assert {"accuracy_per_megabyte", "accuracy_per_second", "anytime_accuracy", "average_accuracy"} < set(SHOWN)
    assert column_of(board, "% per MB") == {"a": "5.000", "b": "2.000"}
    assert column_of(board, "% per second") == {"a": "2.500", "b": "120.000"}
    assert said(board, "Most accuracy") == (
        "Most accuracy for its price: a (5.000 % per MB), b (120.000 % per second)."
    )


def test_another_classifier_has_its_own_accuracy_for_the_price_and_none_is_had_for_nothing() -> None:
    some = record("a", 1, 20.0, other_classifiers__linear=classifier(60.0))
    free = record("b", metrics__uplink_bytes=0, metrics__downlink_bytes=0, metrics__runtime_seconds=None)
    (board,) = made(some, free)
    assert column_of(board, "% per MB") == {"a": "10.000", "a [linear]": "30.000", "b": "n/a"}
    assert column_of(board, "% per second")["b"] == "n/a"


def test_who_is_best_at_the_end_but_not_during_the_stream_is_said() -> None:
    late = record("late", 1, 63.26, metrics__anytime_accuracy=48.1)
    steady = record("steady", 1, 56.3, metrics__anytime_accuracy=56.4)
    oracle = record("joint", 1, 99.0, facts__oracle=True, metrics__anytime_accuracy=99.0)
    (board,) = made(late, steady, oracle)
    assert said(board, "Best at") == (
        "Best at the end of the stream: late (63.26 %; 48.10 % during it); "
        "best during it: steady (56.40 %; 56.30 % at the end)."
    )
    (same,) = made(late, record("steady", 1, 56.3, metrics__anytime_accuracy=1.0), oracle)
    assert not [sentence for sentence in statements(same) if sentence.startswith("Best at")]


def test_significance_is_that_of_the_paired_test_after_holm() -> None:
    values = {
        "best": [60.0, 61.0, 62.0, 61.0, 60.5],
        "close": [59.0, 61.5, 60.0, 62.0, 60.0],
        "far": [30.0, 31.0, 29.0, 30.0, 30.2],
    }
    runs = [record(name, seed, value) for name, row in values.items() for seed, value in enumerate(row, start=1)]
    (board,) = made(*runs, record("once", 1, 10.0), record("joint", 1, 99.0, facts__oracle=True))
    p = {name: stats.ttest_rel(values[name], values["best"]).pvalue for name in ("close", "far")}
    assert 2 * p["far"] < 0.05 < p["close"]  # Holm: the smaller one counts twice
    assert said(board, "In average (%)") == (
        "In average (%), best is better than 1 of 3 others at the 5 % level; "
        f"not told apart from it: close (p {p['close']:.3f}); with fewer than two seeds in common: once."
    )


def test_what_the_best_costs_stores_and_reveals() -> None:
    paid = {
        "metrics__uplink_bytes": 2_500_000,
        "metrics__downlink_bytes": 1_000_000,
        "metrics__samples_revealed": 7,
        "metrics__stored_bytes": 250_000,
    }
    (board,) = made(record("a", 1, 60.0, **paid), record("b", 1, 1.0))
    assert said(board, "What a costs") == (
        "What a costs: 2.50 MB up, 1.00 MB down, 1.50 seconds, 0.25 MB stored by clients, 7 samples revealed."
    )
    (unknown,) = made(record("a", 1, 60.0, metrics__samples_revealed=None))
    assert "revealed" not in said(unknown, "What a costs")


def test_every_row_says_how_much_it_was_tuned() -> None:
    runs = [v2("a"), v2("b", settings=FAITHFUL), v2("c", settings=NOTHING), v2("d", settings=TUNED | {"trials": 8})]
    (board,) = made(*runs, v2("e"))
    assert column_of(board, "tuned") == {
        "a tuned": "2 in 16 trials",
        "b faithful": "faithful",
        "c tuned": "nothing to tune",
        "d tuned": "2 in 8 trials",
        "e tuned": "2 in 16 trials",
    }
    assert said(board, "Every tuned row") == (
        "Every tuned row that has something to tune had 16 trials, but d tuned had 8."
    )
    assert said(board, "With nothing") == "With nothing to tune: c tuned."
    lines = {line["method"]: line for line in csv.DictReader(io.StringIO(sheet((board,))))}
    assert [lines["a"][name] for name in ("settings", "hyperparameters", "trials")] == ["tuned", "lr mu", "16"]
    assert [lines["b"][name] for name in ("settings", "hyperparameters", "trials")] == ["faithful", "", ""]


def test_a_table_without_protocol_and_settings_says_nothing_of_tuning() -> None:
    (plain,) = made(record())
    (first,) = made(record(protocol="frozen_v1"))
    assert "tuned" not in cells(plain)[0]
    assert column_of(first, "tuned") == {"afcl": "not recorded"}
    assert not [sentence for sentence in statements(first) if "tun" in sentence]


def test_rows_with_fewer_seeds_than_the_protocol_publishes_are_marked_and_named() -> None:
    whole = [v2("whole", seed) for seed in (1, 2, 3, 4, 5)]
    more = [v2("more", seed) for seed in (1, 2, 3, 4, 5, 9)]
    some = [v2(name, seed) for name in ("some", "same") for seed in (1, 3)]
    (board,) = made(*whole, *more, *some, v2("one", 1, other_classifiers__linear=classifier(1.0)))
    assert column_of(board, "seeds") == {
        "whole tuned": "5",
        "more tuned": "6",
        "some tuned": "2 of 5",
        "same tuned": "2 of 5",
        "one tuned": "1 of 5",
        "one tuned [linear]": "1 of 5",
    }
    found = said(board, "frozen_v2 publishes the seeds 1 to 5, of which some are missing: ")
    assert found.endswith("missing: 2 to 5 of one tuned; 2, 4, 5 of same tuned, some tuned.")
    assert said(board, "frozen_v2 does not publish") == "frozen_v2 does not publish these seeds: 9 of more tuned."
    (complete,) = made(*whole)
    assert not [sentence for sentence in statements(complete) if "publish" in sentence]
    (first,) = made(record(protocol="frozen_v1"))
    assert column_of(first, "seeds") == {"afcl": "1"}


def test_page_markdown_and_terminal_say_the_same(tmp_path: Path) -> None:
    some = [record("afcl", 1, 63.0, protocol="frozen_v1"), v2("afcl", 1, 63.0), v2("fedncm", 1, 56.0, NOTHING)]
    boards = made(*some)
    data = page_data(boards)
    text = markdown(boards)
    for number, one in enumerate(some):
        write(tmp_path / str(number), one)
    with believed():
        told = command("leaderboard", str(tmp_path))
    assert told.code == 0, told.err
    wanted = [*protocol_sentences(boards), *(sentence for board in boards for sentence in statements(board))]
    assert len(wanted) > 8
    for sentence in wanted:
        assert f"* {sentence}\n" in text
        assert f"- {sentence}\n" in told.out
    assert [*data["protocols"], *(sentence for board in data["boards"] for sentence in board["statements"])] == wanted
    assert [[row["tuned"] for row in board["rows"]] for board in data["boards"]] == [
        ["not recorded"],
        ["2 in 16 trials", "nothing to tune"],
    ]
    assert [[row["seeds"] for row in board["rows"]] for board in data["boards"]] == [["1"], ["1 of 5"] * 2]


def test_a_record_with_settings_that_are_none_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "one", v2("afcl", settings={"name": "best"}))
    told = command("leaderboard", str(path))
    assert told.code == 1
    assert re.search(r"is damaged \(config\.settings\.name: Input should be 'faithful' or 'tuned'\)", told.err)
