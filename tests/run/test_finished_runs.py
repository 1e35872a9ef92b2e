"""A finished run is recognised without loading anything, but never when what it was made from may have changed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TINY, Command, Outcome, command, contents
from test_identity import pictures

from fcl_bench.config.compose import composed
from fcl_bench.data.download import Source
from fcl_bench.run import identity


class Loaded(Exception):
    """The data were looked at."""


@pytest.fixture
def refuse_to_load(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def refuse(*_: object) -> None:
        raise Loaded

    return lambda: monkeypatch.setattr("fcl_bench.run.experiment.plan", refuse)


def test_a_finished_run_and_a_finished_sweep_start_without_torch(
    tiny: Command, output_dir: Path, cache_dir: Path, tmp_path: Path
) -> None:
    first = tiny("method=afcl")
    before = contents(output_dir)
    words = [*TINY, f"output_dir={output_dir}", f"cache_dir={cache_dir}", "method=afcl"]
    code = (
        "import sys; from fcl_bench.__main__ import main; words = sys.argv[1:]; "
        "codes = main(words), main(['-m', *words]); "
        "print(codes, {'torch', 'timm', 'lightning', 'sklearn'} & set(sys.modules))"
    )
    # in the working directory of the first run, on which relative paths depend
    told = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    *lines, last = told.stdout.splitlines()
    assert last == "(0, 0) set()", told.stdout + told.stderr
    assert lines[0].startswith("This run was finished before (version ")
    assert f"record: {first.folder}" in lines
    assert lines[-1].startswith("sweep: 1 of 1 done (1 finished before), 0 failed, after 0:00:0")
    after = contents(output_dir)
    del after["multirun.yaml"]
    assert after == before


def test_notes_that_killed_processes_left_half_written_are_removed(tiny: Command, tmp_path: Path) -> None:
    notes = tmp_path / "cache" / "identities"
    notes.mkdir(parents=True)
    old, new = (notes / f".{name * 32}.json.abcd_123" for name in "ab")
    for note in (old, new):
        note.touch()
    os.utime(old, (0, 0))
    assert tiny("method=afcl", f"cache_dir={tmp_path}/cache").code == 0
    assert not old.exists()
    assert new.exists()  # it may be in the making
    assert [path.suffix for path in notes.iterdir() if path != new] == [".json"]


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """A run on image files; those that were written just before it count as old."""
    monkeypatch.setattr(identity, "JUST_NOW", 0)
    pictures(tmp_path / "data", 1)
    place = (f"data_dir={tmp_path / 'data'}", f"output_dir={tmp_path / 'runs'}", f"cache_dir={tmp_path / 'cache'}")
    small = ("dataset=image_folder", "backbone=none", "stream.tasks=2", "partition.clients=2")
    return lambda *words: command("method=afcl", *small, *place, *words)


def test_untouched_files_are_not_read_again(shown: Callable[..., Outcome], refuse_to_load: Callable[[], None]) -> None:
    assert shown().code == 0
    refuse_to_load()
    assert shown().out.startswith("This run was finished before")


def test_a_file_changed_without_a_trace_in_its_size_and_time_of_modification_is_noticed(
    shown: Callable[..., Outcome], tmp_path: Path
) -> None:
    assert shown().code == 0
    path = tmp_path / "data/images/train/class0/0.png"
    stat, data = path.stat(), path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    refused = shown()
    assert refused.code == 1
    assert "holds a different run: the contents of its data set, weights or stream were not the present" in refused.err
    path.write_bytes(data)
    assert shown().out.startswith("This run was finished before")  # the same contents at another time


@pytest.mark.parametrize("change", ["added", "removed", "newer code", "newer package", "other folder", "cleared"])
def test_whatever_could_change_the_contents_makes_them_be_looked_at(
    shown: Callable[..., Outcome],
    refuse_to_load: Callable[[], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    assert shown().code == 0
    folder = tmp_path / "data/images/test/class1"
    if change == "added":
        (folder / "new.png").write_bytes((folder / "0.png").read_bytes())
    elif change == "removed":
        (folder / "0.png").unlink()
    elif change == "newer code":
        monkeypatch.setattr(identity, "_code", lambda: "")
    elif change == "newer package":
        monkeypatch.setattr(identity, "_packages", lambda: {"torch": "99"})
    elif change == "other folder":
        monkeypatch.chdir(tmp_path)
    else:
        assert command("cache", "clear", "--cache-dir", str(tmp_path / "cache")).code == 0
    refuse_to_load()
    with pytest.raises(Loaded):
        shown()


def test_files_that_changed_while_they_were_read_are_not_trusted(
    shown: Callable[..., Outcome], refuse_to_load: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "JUST_NOW", 60 * 10**9)
    assert shown().code == 0
    refuse_to_load()
    with pytest.raises(Loaded):
        shown()


def test_what_is_known_of_other_packages_is_not_enough(tmp_path: Path) -> None:
    words = (*TINY, "method=afcl", f"cache_dir={tmp_path}")
    ours = composed(*words)
    theirs = composed(*words, "partition._target_=test_finished_runs.partition")
    unknown = composed(*words, "seed=2")
    identity.store(ours, "ours", (), since=0)
    identity.store(theirs, "theirs", (), since=0)
    identity.store(unknown, "unknown", None, since=0)
    assert [identity.lookup(config) for config in (ours, theirs, unknown)] == ["ours", None, None]


def partition(name: str, clients: int, alpha: float, balance: str, priors: str) -> None:
    """A partition of somebody else."""


def test_a_wrong_value_is_refused_even_if_the_run_is_finished(tiny: Command) -> None:
    assert tiny("method=finetune", "method.rounds=1").code == 0
    for word, message in {
        "local.accelerator=cud": "Expected local.accelerator to be one of cuda, auto, cpu, gpu, mps, but got 'cud'.",
        "resume=maybe": "Expected resume to be a valid boolean, but got 'maybe'.",
        "+strem=iid": "There is no setting 'strem'; a run has: stream, ",
        "data_dir=null": "Expected data_dir to be a valid string, but got None.",
    }.items():
        refused = tiny("method=finetune", "method.rounds=1", word)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.startswith(f"fcl_bench: {message}")


def test_a_form_of_the_data_that_would_be_preferred_is_watched_for(tmp_path: Path) -> None:
    source = Source("https://example.org/b.tar.gz", "", accepts=("a/", "b.tar.gz", "c*.zip"))
    for name in ("b.tar.gz", "c2.zip", "c1.zip"):
        (tmp_path / name).touch()
    assert source.places(tmp_path) == tuple(tmp_path / name for name in ("a", "b.tar.gz", "c1.zip", "c2.zip"))
