"""Files are known by how they look from outside."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fcl_bench.data.file_states import FileStates, Look


def rewrite(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])


def rewrite_in_secret(path: Path) -> None:
    before = path.stat()
    rewrite(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [rewrite, rewrite_in_secret, Path.unlink, lambda path: path.rename(f"{path}x")])
@pytest.mark.parametrize("watched", ["folder", "folder/inner/file"])
def test_every_change_shows(tmp_path: Path, change: Callable[[Path], None], watched: str) -> None:
    file = tmp_path / "folder" / "inner" / "file"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"contents")
    path = str(tmp_path / watched)
    before = FileStates()[path]
    assert FileStates()[path] == before
    assert before.changed == file.stat().st_ctime_ns
    change(file)
    assert FileStates()[path].digest != before.digest


def test_a_path_without_a_file_has_a_state_until_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "later"
    before = FileStates()[str(path)]
    assert before.changed == 0
    path.touch()
    assert FileStates()[str(path)] != before


def test_a_path_is_looked_at_once(tmp_path: Path) -> None:
    states = FileStates()
    before = states[str(tmp_path)]
    (tmp_path / "file").touch()
    assert states[str(tmp_path)] == before != FileStates()[str(tmp_path)]


def test_links_in_a_circle_and_to_nothing_are_no_hindrance(tmp_path: Path) -> None:
    for name, target in {"up": tmp_path, "and_up": tmp_path, "self": tmp_path / "self", "nothing": "nowhere"}.items():
        (tmp_path / name).symlink_to(target)
    (tmp_path / "file").touch()
    before = FileStates()[str(tmp_path)]
    (tmp_path / "file").write_text("changed")
    assert FileStates()[str(tmp_path)].digest != before.digest


def test_another_file_with_the_same_name_size_and_times_shows(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        path.write_bytes(b"1")
    looks = [Look.of(path.stat()) for path in (one, two)]
    assert looks[0].inode == one.stat().st_ino != looks[1].inode
    assert looks[0].size == looks[1].size == 1
