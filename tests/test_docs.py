"""What the documentation says is run as it stands there."""

import re
from pathlib import Path

import pytest
from conftest import TINY, run_in

import fcl_bench
from fcl_bench import check_method
from fcl_bench.checks import rules

ROOT = Path(__file__).parents[1]
TUTORIAL = (ROOT / "docs" / "adding-a-method.md").read_text()
BLOCK = re.compile(r"(?:`([\w/.]+)`, [^`\n]*:\n\n)?```(\w+)\n(.*?)```", re.DOTALL)
BLOCKS: list[tuple[str, str, str]] = BLOCK.findall(TUTORIAL)  # name of the file, if it is one; language; text
FILES = {name: text for name, _, text in BLOCKS if name}
MINE = ("methods/my_method.py", "configs/method/my_method.yaml", "tests/methods/test_my_method.py")


def adapted(command: str) -> list[str]:
    """A command of the tutorial, on tiny data; of the contract, which test_new_method runs whole, one check."""
    words = command.removeprefix("python -m ").split()
    few = ["-k", "repeats_itself" if "--pyargs" in words else "not contract"] * ("pytest" in words)
    tiny = [*TINY, "method.rounds=2", "cache_dir=cache"] * any(word.startswith("method=") for word in words)
    return [*words, *few, *tiny]


def test_the_tutorial_leads_from_nothing_to_a_row_on_the_leaderboard(checkout: Path) -> None:
    told = {}
    for name, language, text in BLOCKS:
        if name:
            (checkout / name).write_text(text)
        for command in text.splitlines() if language == "sh" else ():
            done = run_in(checkout, *adapted(command))
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            told[command.partition("fcl_bench ")[2]] = done.stdout
    card, table = told["show my_method method.keep=0.25"], told["leaderboard runs"]
    assert re.search(r"^  method.keep +0.25 +share of the model of the round before$", card, re.MULTILINE)
    for row, seeds in {"my_method": 1, "my_method keep=0.5": 3, "finetune": 3}.items():
        assert re.search(rf"^{row} +{seeds} +\d", table, re.MULTILINE), table


def test_the_method_of_the_tutorial_takes_less_than_60_lines() -> None:
    assert len([line for name in MINE for line in FILES[name].splitlines() if line.strip()]) < 60


def test_the_closed_form_method_holds_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (unlearn,) = (text for _, _, text in BLOCKS if text.startswith("    def unlearn("))
    method = FILES["methods/nearest_mean.py"].replace("Client, Clients", "Client, ClientData, Clients")
    (tmp_path / "nearest_mean.py").write_text(f"{method}\n{unlearn}")
    monkeypatch.syspath_prepend(tmp_path)
    from nearest_mean import NearestMean

    check_method(NearestMean)


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))],
    ids=lambda page: page.name,
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_a_promise_names_tests_that_are_there() -> None:
    text = (ROOT / "docs" / "what-we-promise.md").read_text()
    promises = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| promise ")]
    for promise in promises:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", promise)
        assert named, f"no test holds: {promise}"
        for file, test in named:
            assert f"\ndef {test}(" in (ROOT / file).read_text(), f"there is no {test} in {file}"
    for check in re.findall(r"\(((?:`\w+`(?:, )?)+)\)", text):
        for name in re.findall(r"\w+", check):
            assert hasattr(rules, f"check_{name}"), f"the contract has no check {name}"


def test_the_toolbox_is_listed_and_is_all_that_methods_need() -> None:
    table = TUTORIAL.partition("## The toolbox")[2].partition("`FederatedAveraging(backbone")[0]
    listed = set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines() if "|" in line)))
    assert listed == set(fcl_bench.__all__)
    for name in listed:
        exec(f"from fcl_bench import {name}")
    for method in (ROOT / "methods").glob("*.py"):
        assert "from fcl_bench." not in method.read_text(), f"{method.name} imports from inside fcl_bench"
