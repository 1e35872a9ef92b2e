"""The committed results: complete, and the source of every table that is shown of them."""

import itertools
from pathlib import Path

from fcl_bench.config.catalogue import catalogue
from fcl_bench.leaderboard.boards import Board, boards
from fcl_bench.leaderboard.latex import latex
from fcl_bench.leaderboard.manifests import find_manifest
from fcl_bench.leaderboard.render import markdown, markdown_cells, overview
from fcl_bench.leaderboard.runs import gather
from fcl_bench.leaderboard.sheet import sheet

ROOT = Path(__file__).parents[2]
FOUND = gather([ROOT / "results"])
Place = tuple[int, float, int]  # tasks, alpha, seed
ALL: set[Place] = set(itertools.product((5, 10), (0.1, 0.2), (1, 2, 3)))
SEED_1: set[Place] = set(itertools.product((5, 10), (0.1, 0.2), (1,)))
TEN_TASKS: set[Place] = {(10, 0.1, seed) for seed in (1, 2, 3)}
FEWER = {  # these take longest
    **dict.fromkeys(("target", "fedcbc", "fedmgp"), SEED_1 | TEN_TASKS),
    "joint_sgd": SEED_1,
}


def tables() -> tuple[Board, ...]:
    return boards(FOUND.runs)


def test_every_method_has_seed_1_on_every_stream_and_most_have_all_seeds() -> None:
    assert (FOUND.problems, FOUND.interrupted) == ((), 0)
    ran: dict[tuple[str, str], set[Place]] = {}
    for run in FOUND.runs:
        assert (run.conditions["dataset"], run.conditions["protocol"]) == ("cifar100", "frozen_v1")
        place = (run.conditions["tasks"], run.conditions["alpha"], run.result["seed"])
        row = (run.method, run.settings.get("arithmetic", "float64"))
        assert place not in ran.setdefault(row, set())
        ran[row].add(place)
    methods = {method for method, _ in ran}
    assert set(FEWER) <= methods <= set(catalogue()["method"])
    assert {method for method, arithmetic in ran if arithmetic == "integer"} == {"afcl", "fedncm"}
    for (method, _), places in ran.items():
        assert places == FEWER.get(method, ALL)


def test_methods_of_one_seed_saw_the_same_stream_and_it_can_be_drawn() -> None:
    for board in tables():
        for seed in (1, 2, 3):
            draws = [run for row in board.rows for run in row.runs if run.result["seed"] == seed]
            assert len({run.result["stream"]["hash"] for run in draws}) == 1
            assert find_manifest(draws) is not None


def test_a_record_names_no_place_of_the_machine_it_was_made_on() -> None:
    for run in FOUND.runs:
        assert run.result["config"]["data_dir"] == "data"
        assert not Path(run.result["config"]["output_dir"]).is_absolute()
        assert "/" not in run.result["command"]


def test_the_leaderboard_is_that_of_the_records() -> None:
    folder = ROOT / "results" / "leaderboard"
    assert (folder / "leaderboard.md").read_text() == markdown(tables())
    assert (folder / "leaderboard.csv").read_text() == sheet(tables())
    assert (folder / "leaderboard.tex").read_text() == latex(tables())


def test_the_readme_shows_the_table_of_the_records() -> None:
    assert f"\n{markdown_cells(overview(tables()))}\n" in (ROOT / "README.md").read_text()


def test_afcl_is_the_oracle_on_every_stream() -> None:
    """Joint ridge regression in float64 on all data at once gives 63.26 %, however they are dealt."""
    for board in tables():
        rows = {row.name: row for row in board.rows}
        assert rows["afcl"].scores["average_accuracy"] == rows["joint"].scores["average_accuracy"]
        assert {run.result["metrics"]["whole_accuracy"] for run in rows["afcl"].runs} == {63.26}


def test_with_whole_numbers_every_stream_and_seed_gave_the_same_weights_which_are_certified() -> None:
    for method in ("afcl", "fedncm"):
        own = [run for run in FOUND.runs if run.method == method and run.settings.get("arithmetic") == "integer"]
        assert len(own) == len(ALL)
        assert len({run.result["evidence"]["weights"] for run in own}) == 1
        assert all(run.certificate and run.certificate.verdict == "equal" for run in own)
