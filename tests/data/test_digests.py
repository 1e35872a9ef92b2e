"""Digests of files: what they follow from, and when they are computed again."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fcl_bench.data import digests
from fcl_bench.data.digests import clear, digests_of, remembered, remembered_in
from fcl_bench.data.images import Folder, open_files


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files, which count as old."""
    monkeypatch.setattr(digests, "JUST_NOW", 0)
    folder = tmp_path / "place"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_text(name)
    return folder


@pytest.fixture
def look(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[list[str], list[str]]]:
    """The digests of all files, and the names of those that were read for that."""
    read: list[str] = []
    plain = Folder.digest

    def counted(self: Folder, path: str) -> str:
        read.append(path)
        return plain(self, path)

    def look() -> tuple[list[str], list[str]]:
        read.clear()
        with remembered_in(tmp_path / "cache"):
            found = digests_of(open_files(place), ["a", "b", "c"])
        return found, sorted(read)

    monkeypatch.setattr(Folder, "digest", counted)
    return look


Look = Callable[[], tuple[list[str], list[str]]]


def test_files_are_read_once(look: Look) -> None:
    expected = [digest(name.encode()) for name in "abc"]
    assert look() == (expected, ["a", "b", "c"])
    assert look() == (expected, [])


def test_a_change_that_size_and_time_of_modification_do_not_show_is_seen(look: Look, place: Path) -> None:
    look()
    stat = (place / "b").stat()
    (place / "b").write_text("x")
    os.utime(place / "b", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert look() == ([digest(b"a"), digest(b"x"), digest(b"c")], ["b"])


def test_a_file_that_was_changed_just_before_is_read_again(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "JUST_NOW", 60 * 10**9)
    look()
    assert look()[1] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-5], lambda text: text.replace('": "', '": "f', 1), lambda _: "["]
)
def test_a_damaged_note_counts_as_none(look: Look, tmp_path: Path, damage: Callable[[str], str]) -> None:
    expected = look()
    (note,) = (tmp_path / "cache" / "contents").iterdir()
    note.write_text(damage(note.read_text()))
    assert look() == expected


def test_nothing_is_written_where_nobody_asks_for_it_or_nothing_can_be(look: Look, place: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert digests_of(open_files(place), ["a"]) == [digest(b"a")]
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "cache").write_text("a file")
    assert look()[1] == look()[1] == ["a", "b", "c"]


def test_notes_can_be_cleared(look: Look, tmp_path: Path) -> None:
    look()
    clear(tmp_path / "cache")
    assert look()[1] == ["a", "b", "c"]


def test_what_was_computed_is_remembered_by_what_it_follows_from(tmp_path: Path) -> None:
    def refuse() -> str:
        raise AssertionError("it is known")

    with remembered_in(tmp_path):
        assert remembered("1 + 1", lambda: "2") == "2"
        assert remembered("1 + 1", refuse) == "2"
        assert remembered("1 + 2", lambda: "3") == "3"
    (first, _) = sorted((tmp_path / "contents").iterdir())
    assert json.loads(first.read_text().partition("\n")[2])
