"""What a record says about the code that made it."""

import io
import subprocess
from pathlib import Path

import plugin
import pytest
from conftest import TINY, Command
from rich.console import Console

from fcl_bench.cli.console import View
from fcl_bench.config.compose import composed
from fcl_bench.run import environment
from fcl_bench.run.environment import code
from fcl_bench.run.experiment import run


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    for name in environment.CODE:
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.py").write_text("x = 1\n")
    (tmp_path / "README.md").write_text("one\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        (None, False),
        ("methods/one.py", True),
        ("methods/new.py", True),
        ("configs/method.yaml", True),
        ("fcl_bench/run/deep.py", True),
        ("README.md", False),
        ("runs/result.json", False),
    ],
)
def test_the_commit_says_whether_code_differs_from_it(checkout: Path, file: str | None, changes: bool) -> None:
    if file:
        (checkout / file).parent.mkdir(parents=True, exist_ok=True)
        (checkout / file).write_text("x = 2\n")
    commit = git(checkout, "rev-parse", "HEAD")
    assert environment._commit(checkout) == (f"{commit}+changes" if changes else commit)


def test_outside_of_git_there_is_no_commit(tmp_path: Path) -> None:
    assert environment._commit(tmp_path) is None


def test_a_record_names_the_package_and_the_code_of_its_method(
    tiny: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = tiny("method=afcl").result["environment"]
    assert ours["method_package"] == f"fcl-bench {ours['fcl-bench']}"
    plugin.install(tmp_path / "site", monkeypatch)
    theirs = tiny("method=nearest_mean").result["environment"]
    assert theirs["method_package"] == "third-party 1.0"
    assert theirs["method_code"] != ours["method_code"]
    assert theirs["git_commit"] == ours["git_commit"]


@pytest.mark.parametrize(
    ("target", "package", "known"),
    [
        ("sklearn.svm.SVC", "scikit-learn ", True),
        ("nowhere.Some", "None", False),
        ("Some", "None", False),
        ("builtins.dict", "None", False),
    ],
)
def test_methods_of_packages_without_our_entry_point(target: str, package: str, known: bool) -> None:
    described = code(target)
    assert str(described["method_package"]).startswith(package)
    assert (described["method_code"] is not None) == known


def test_a_finished_run_whose_method_was_edited_says_so(
    tiny: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = plugin.install(tmp_path / "site", monkeypatch) / "nearest_mean.py"
    assert tiny("method=nearest_mean").code == 0
    environment.code.cache_clear()  # as in a new process
    assert "finished before (version 0.1.0, commit " in tiny("method=nearest_mean").out
    assert "changed since" not in tiny("method=nearest_mean").out
    file.write_text(file.read_text() + "# edited\n")
    environment.code.cache_clear()
    shown = tiny("method=nearest_mean").out.splitlines()[0]
    assert shown.endswith("; the file of the method has changed since); resume=false runs it again.")
    swept = tiny("-m", "method=nearest_mean", "seed=1").out.splitlines()[0]
    assert swept.endswith(" was finished before; the file of the method has changed since")
    environment.code.cache_clear()


def test_only_the_command_changes_how_the_process_keeps_memory(
    tiny: Command, tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise RuntimeError("the memory of the process was touched")

    monkeypatch.setattr(environment, "return_freed_memory", refuse)
    config = composed(*TINY, "method=afcl", f"output_dir={tmp_path}/library", f"cache_dir={cache_dir}")
    assert run(config, View(Console(file=io.StringIO())))["status"] == "complete"
    with pytest.raises(RuntimeError, match="was touched"):
        tiny("method=afcl")
