"""``python -m fcl_bench new-method NAME``."""

from pathlib import Path

import pytest
from conftest import command, contents, run_in

from fcl_bench.cli.new_method import new_method
from fcl_bench.errors import UserError

PLACES = ("methods/{}.py", "configs/method/{}.yaml", "tests/methods/test_{}.py")


def test_three_files_and_what_to_do_next(checkout: Path) -> None:
    before = contents(checkout)
    told = command("new-method", "my_method_2", "--root", str(checkout))
    assert (told.code, told.err) == (0, "")
    *paths, _, _, run, check = told.out.splitlines()
    assert paths == [str(checkout / place.format("my_method_2")) for place in PLACES]
    assert run == "  python -m fcl_bench method=my_method_2"
    assert check == "  pytest --pyargs fcl_bench.checks --method=my_method_2"
    after = contents(checkout)
    assert {name: after[name] for name in before} == before
    assert {Path(name).name for name in set(after) - set(before)} == {Path(path).name for path in paths}
    assert "class MyMethod2:\n" in Path(paths[0]).read_text()
    card = Path(paths[0]).read_text().split('"""')[1].splitlines()
    assert [line.partition(":")[0] for line in card if ":" in line] == ["MyMethod2", "Paper", "Followed", "Deviates"]


def test_the_new_method_passes_its_test_and_is_listed(checkout: Path) -> None:
    command("new-method", "some_name", "--root", str(checkout))
    done = run_in(checkout, "pytest", "tests/methods/test_some_name.py")
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout
    listed = run_in(checkout, "fcl_bench", "list")
    assert "  some_name              SomeName: federated averaging, to begin with\n" in listed.stdout


@pytest.mark.parametrize(
    "name", ["MyMethod", "my-method", "2nd", "_mine", "a__b", "", "lambda", "null", "a.b", "ä", "a/b"]
)
def test_a_name_must_be_in_snake_case(checkout: Path, name: str) -> None:
    before = contents(checkout)
    refused = command("new-method", name, "--root", str(checkout))
    wanted = "Expected a name in snake_case that Python and Hydra can read, such as my_method"
    assert (refused.code, refused.out, refused.err) == (2, "", f"fcl_bench: {wanted}, but got '{name}'.\n")
    assert contents(checkout) == before


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("afcl", "is taken, see python -m fcl_bench list; choose another."),
        ("client", "is taken: its class Client has a namesake; choose another."),
        ("cross_entropy", "is taken: its class CrossEntropy has a namesake; choose another."),
        ("mine", "is taken: {}/tests/cli/test_mine.py exists; choose another."),
    ],
)
def test_a_taken_name_is_refused_and_nothing_is_written(checkout: Path, name: str, reason: str) -> None:
    (checkout / "tests" / "cli" / "test_mine.py").write_text("mine = True\n")
    before = contents(checkout)
    refused = command("new-method", name, "--root", str(checkout))
    assert (refused.code, refused.err) == (2, f"fcl_bench: The name '{name}' {reason.format(checkout)}\n")
    assert contents(checkout) == before


def test_nothing_is_left_behind_by_a_failure(checkout: Path) -> None:
    (checkout / "tests").rename(checkout / "elsewhere")
    before = contents(checkout)
    with pytest.raises(UserError, match=r"Cannot write to \S+/tests/methods: No such file or directory; .* --root= "):
        new_method("my_method", checkout)
    assert contents(checkout) == before


@pytest.mark.parametrize("project", [None, "[project]\nname = 'another'\n", "[tool.ruff]\n", "not toml"])
def test_without_a_checkout_it_says_what_to_do(tmp_path: Path, project: str | None) -> None:
    if project:
        (tmp_path / "pyproject.toml").write_text(project)
    refused = command("new-method", "my_method", "--root", str(tmp_path))
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        f"fcl_bench: There is no checkout of fcl-bench in {tmp_path}: clone the repository and install it by pip "
        "install -e, or add the method in a package of your own with an entry point, see docs/adding-a-method.md.\n"
    )
