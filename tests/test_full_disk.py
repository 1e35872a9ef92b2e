"""Places that cannot be written: one sentence that names the place and the setting, and nothing lost or half-written.

The system itself refuses here to let files grow, as a full disk does.
"""

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import TINY, Outcome, command, contents

from fcl_bench.data.download import fetch
from fcl_bench.errors import UserError

resource = pytest.importorskip("resource")
FULL = os.strerror(errno.EFBIG)
OUT = r"Cannot write to PLACE: {}; free it, or set --out= to another folder\."
BESIDE = r"{}; make room, or make its folder writable\."


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file may be larger, whoever writes it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


WAYS = {
    "leaderboard RUN --out PLACE": OUT,
    "plot RUN --kind curves --out PLACE/a.png": OUT,
    "certify RUN data_dir=PLACE": rf"Cannot write RUN/certificate\.json: {BESIDE}",
    "unlearn RUN --client 0": rf"Cannot write RUN-without-\w+: {BESIDE}",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_verb_says_where_it_cannot_write(way: str, afcl_run: Outcome, tmp_path: Path) -> None:
    run = afcl_run.kept(tmp_path / "runs" / afcl_run.folder.name)
    place = tmp_path / "place"
    before = contents(tmp_path)
    with files_up_to(0):
        failed = command(*way.replace("RUN", str(run.folder)).replace("PLACE", str(place)).split())
    assert failed.code == 1
    sentence = WAYS[way].format(FULL).replace("RUN", str(run.folder)).replace("PLACE", str(place))
    assert re.search(rf"^fcl_bench: {sentence}$", failed.err, re.MULTILINE), failed.err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("way", list(WAYS)[:3])
def test_a_folder_that_is_read_only_is_named(
    way: str, afcl_run: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    run = afcl_run.kept(tmp_path / "runs" / afcl_run.folder.name)
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    failed = command(*way.replace("RUN", str(run.folder)).replace("PLACE", str(tmp_path)).split())
    assert failed.code == 1
    assert os.strerror(errno.EROFS) in failed.err
    assert failed.err.count("\n") == 1


def test_a_run_names_the_setting_of_the_place_that_is_full(output_dir: Path, tmp_path: Path) -> None:
    words = (*TINY, "method=afcl", f"output_dir={output_dir}", f"cache_dir={tmp_path}/cache")
    for size, setting in ((100, "output_dir"), (13_000, "cache_dir")):  # the inputs are the first larger file
        with files_up_to(size):
            failed = command(*words)
        assert failed.code == 1
        assert re.fullmatch(rf"fcl_bench: Cannot write to \S+: {FULL}; .* set {setting}= .*\n", failed.err)
    assert command(*words).result["status"] == "complete"


def test_a_download_names_the_file_it_cannot_save(tmp_path: Path) -> None:
    (tmp_path / "published").write_bytes(bytes(1000))
    md5 = hashlib.md5(bytes(1000)).hexdigest()
    target = tmp_path / "data" / "archive"
    with files_up_to(500), pytest.raises(UserError, match=rf"^cannot save file:\S+ as {target}: {FULL}$"):
        fetch((tmp_path / "published").as_uri(), target, md5)
    assert not target.exists()
    assert fetch((tmp_path / "published").as_uri(), target, md5).read_bytes() == bytes(1000)
