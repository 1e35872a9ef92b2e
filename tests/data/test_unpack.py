"""Archives that are sound, truncated, or try to write where they should not."""

import io
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from fcl_bench.data.archives import unpack
from fcl_bench.errors import UserError

BODY = bytes(range(256)) * 1000


def make_zip(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, BODY)
    return path


def make_tar(path: Path, *names: str, link: str | None = None, kind: bytes = tarfile.SYMTYPE) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(BODY)
            archive.addfile(member, io.BytesIO(BODY))
        if link:
            member = tarfile.TarInfo("set/link")
            member.type, member.linkname = kind, link
            archive.addfile(member)
    return path


@pytest.mark.parametrize(("make", "file"), [(make_zip, "a.zip"), (make_tar, "a.tar"), (make_tar, "a.tar.gz")])
@pytest.mark.parametrize("top", ["set/", ""], ids=["top folder", "flat"])
def test_unpack(tmp_path: Path, make: Callable[..., Path], file: str, top: str) -> None:
    archive = make(tmp_path / file, f"{top}a/1", f"{top}b/2")
    folder = unpack(archive, tmp_path / "set")
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == {"a/1", "b/2"}
    assert (folder / "a/1").read_bytes() == BODY
    assert {path.name for path in tmp_path.iterdir()} == {file, "set", "set.lock"}


def test_what_a_killed_process_has_unpacked_is_removed(tmp_path: Path) -> None:
    left, foreign = tmp_path / ".set.abcd_123", tmp_path / ".set.notes"
    for folder in (left, foreign):
        (folder / "contents").mkdir(parents=True)
    unpack(make_zip(tmp_path / "a.zip", "set/a"), tmp_path / "set")
    assert not left.exists()
    assert foreign.exists()


def test_unpack_does_not_repeat_itself(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    unpack(make_zip(tmp_path / "a.zip", "set/a"), tmp_path / "set")
    assert not list((tmp_path / "set").iterdir())


@pytest.mark.parametrize(
    ("make", "member"),
    [
        (make_zip, "../evil"),
        (make_zip, "set/../../evil"),
        (make_zip, "/evil"),
        (make_tar, "../evil"),
        (make_tar, "set/../../evil"),
        (make_tar, "/evil"),
    ],
)
def test_unpack_refuses_members_that_escape(tmp_path: Path, make: Callable[..., Path], member: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    archive = make(tmp_path / "archive", "set/good", member)
    with pytest.raises(UserError, match=f"Refused to unpack {archive}: its member {member}"):
        unpack(archive, inside / "set")
    assert {path.name for path in tmp_path.rglob("*")} == {"inside", "archive", "set.lock"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE], ids=["symbolic", "hard"])
@pytest.mark.parametrize("link", ["/etc/hostname", "../../../outside"])
def test_unpack_refuses_links_that_escape(tmp_path: Path, link: str, kind: bytes) -> None:
    archive = make_tar(tmp_path / "a.tar", "set/good", link=link, kind=kind)
    with pytest.raises(UserError, match="Refused to unpack"):
        unpack(archive, tmp_path / "set")
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(("make", "file"), [(make_zip, "a.zip"), (make_tar, "a.tar"), (make_tar, "a.tar.gz")])
def test_unpack_refuses_a_truncated_archive(tmp_path: Path, make: Callable[..., Path], file: str) -> None:
    archive = make(tmp_path / file, "set/a", "set/b")
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size * 2 // 3])
    with pytest.raises(UserError, match=f"{archive} is damaged or incomplete"):
        unpack(archive, tmp_path / "set")
    assert {path.name for path in tmp_path.iterdir()} == {file, "set.lock"}


@pytest.mark.parametrize("kind", [tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_unpack_refuses_what_is_neither_file_nor_folder(tmp_path: Path, kind: bytes) -> None:
    archive = make_tar(tmp_path / "a.tar", "set/good", link="good", kind=kind)
    with pytest.raises(UserError, match="its member set/link is a link or a device"):
        unpack(archive, tmp_path / "set")
    assert {path.name for path in tmp_path.iterdir()} == {"a.tar", "set.lock"}


@pytest.mark.parametrize("make", [make_zip, make_tar])
@pytest.mark.parametrize("second", ["set/Cat", "set/cat", "set/./cat"])
def test_unpack_refuses_names_that_some_file_systems_take_for_one(
    tmp_path: Path, make: Callable[..., Path], second: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own, about what is done here
        archive = make(tmp_path / "archive", "set/cat", second)
    with pytest.raises(UserError, match=f"it has two members {second}, or two that differ only"):
        unpack(archive, tmp_path / "set")


def test_unpack_refuses_accents_written_in_two_ways(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="it has two members"):
        unpack(make_zip(tmp_path / "a.zip", "set/caf\u00e9", "set/cafe\u0301"), tmp_path / "set")


def test_unpack_refuses_an_archive_that_declares_far_more_than_it_can_hold(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    member = tarfile.TarInfo("set/bomb")
    member.size = 2**40
    archive.write_bytes(member.tobuf() + bytes(10_240))
    with pytest.raises(UserError, match=r"Refused to unpack .*: its contents declare more than [\d,]+ bytes"):
        unpack(archive, tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_unpack_refuses_an_encrypted_archive(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", "set/a")
    data = bytearray(archive.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1  # in the directory of the archive
    archive.write_bytes(data)
    with pytest.raises(UserError, match=r"Refused to unpack .*: it is encrypted"):
        unpack(archive, tmp_path / "set")
