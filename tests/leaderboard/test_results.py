"""The committed results: complete, and the source of every table that is shown of them."""

import itertools
from pathlib import Path

from fcl_bench.config.catalogue import catalogue
from fcl_bench.leaderboard.boards import Board, boards
from fcl_bench.leaderboard.latex import latex
from fcl_bench.leaderboard.manifests import find_manifest
from fcl_bench.leaderboard.render import markdown, markdown_cells, overview
from fcl_bench.leaderboard.runs import Run, gather
from fcl_bench.leaderboard.sheet import sheet

ROOT = Path(__file__).parents[2]
FOUND = gather([ROOT / "results"])
Place = tuple[int, float, int]  # tasks, alpha, seed
STREAMS = list(itertools.product((5, 10), (0.1, 0.2)))
SEED_1: set[Place] = {(*stream, 1) for stream in STREAMS}
TEN_TASKS: set[Place] = {(10, 0.1, seed) for seed in (1, 2, 3)}
SEEDS = {"frozen_v1": (1, 2, 3), "frozen_v2": (1, 2, 3, 4, 5)}
FEWER = {  # rows of frozen_v1 that take longest
    **dict.fromkeys(("target", "fedcbc", "fedmgp"), SEED_1 | TEN_TASKS),
    "joint_sgd": SEED_1,
}


def all_places(protocol: str) -> set[Place]:
    return {(*stream, seed) for stream in STREAMS for seed in SEEDS[protocol]}


def runs_under(protocol: str) -> list[Run]:
    return [run for run in FOUND.runs if run.conditions["protocol"] == protocol]


def tables(*protocols: str) -> tuple[Board, ...]:
    chosen = protocols or tuple(SEEDS)
    return boards([run for protocol in chosen for run in runs_under(protocol)])


def places(protocol: str) -> dict[tuple[str, str], set[Place]]:
    """What there is of every method with each arithmetic; no place twice."""
    ran: dict[tuple[str, str], set[Place]] = {}
    for run in runs_under(protocol):
        place = (run.conditions["tasks"], run.conditions["alpha"], run.result["seed"])
        row = (run.method, run.settings.get("arithmetic", "float64"))
        assert place not in ran.setdefault(row, set())
        ran[row].add(place)
    return ran


def test_all_records_are_of_cifar100_under_one_of_the_protocols() -> None:
    assert (FOUND.problems, FOUND.interrupted) == ((), 0)
    assert {run.conditions["dataset"] for run in FOUND.runs} == {"cifar100"}
    assert {run.conditions["protocol"] for run in FOUND.runs} == set(SEEDS)


def test_every_method_of_the_first_protocol_has_seed_1_on_every_stream_and_most_have_all_seeds() -> None:
    ran = places("frozen_v1")
    methods = {method for method, _ in ran}
    assert set(FEWER) <= methods <= set(catalogue()["method"])
    assert {method for method, arithmetic in ran if arithmetic == "integer"} == {"afcl", "fedncm"}
    for (method, _), found in ran.items():
        assert found == FEWER.get(method, all_places("frozen_v1"))


def test_every_method_of_the_second_protocol_is_tuned_and_has_the_same_seeds_on_every_stream() -> None:
    for run in runs_under("frozen_v2"):
        assert run.result["config"]["settings"]["name"] == "tuned"
        assert not run.result["environment"]["git_commit"].endswith("+changes")
    for found in places("frozen_v2").values():
        seeds = {seed for *_, seed in found}
        assert found == {(*stream, seed) for stream in STREAMS for seed in seeds}
        assert found <= all_places("frozen_v2")


def test_methods_of_one_seed_saw_the_same_stream_and_it_can_be_drawn() -> None:
    for protocol, seeds in SEEDS.items():
        for board in tables(protocol):
            for seed in seeds:
                draws = [run for row in board.rows for run in row.runs if run.result["seed"] == seed]
                assert len({run.result["stream"]["hash"] for run in draws}) <= 1
                assert not draws or find_manifest(draws) is not None


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


def test_the_readme_shows_accuracy_at_the_end_and_during_the_stream_of_the_second_protocol() -> None:
    readme = (ROOT / "README.md").read_text()
    for metric in ("average_accuracy", "anytime_accuracy"):
        assert f"\n{markdown_cells(overview(tables('frozen_v2'), metric))}\n" in readme


def test_afcl_is_the_oracle_on_every_stream() -> None:
    """Joint ridge regression in float64 on all data at once gives 63.26 %, however they are dealt."""
    for board in tables("frozen_v1"):
        rows = {row.name: row for row in board.rows}
        assert rows["afcl"].scores["average_accuracy"] == rows["joint"].scores["average_accuracy"]
        assert {run.result["metrics"]["whole_accuracy"] for run in rows["afcl"].runs} == {63.26}


def test_with_whole_numbers_every_stream_and_seed_gave_the_same_weights_which_are_certified() -> None:
    for protocol in SEEDS:
        for method in ("afcl", "fedncm"):
            own = [run for run in runs_under(protocol) if run.method == method]
            exact = [run for run in own if run.settings.get("arithmetic") == "integer"]
            assert exact
            assert len({run.result["evidence"]["weights"] for run in exact}) == 1
            assert all(run.certificate and run.certificate.verdict == "equal" for run in exact)
