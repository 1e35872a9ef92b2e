"""Downloads from a local server that behaves well, cannot continue or drops connections."""

import hashlib
import io
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fcl_bench.data import download
from fcl_bench.data.download import Source, fetch, verify
from fcl_bench.errors import ConfigError, UserError

BODY = bytes(range(256)) * 1000
MD5 = hashlib.md5(BODY).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves BODY at /file; ``drops`` holds, for the next requests, the number of bytes after which to hang up."""

    def __init__(self, continues: bool) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.continues = continues
        self.drops: list[int] = []
        self.ranges: list[str | None] = []  # the Range header of each request

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        self.server.ranges.append(wanted)
        if self.path != "/file":
            return self.send_error(404)
        start = int(re.findall(r"\d+", wanted)[0]) if wanted and self.server.continues else 0
        if start >= len(BODY):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        self.send_header("Content-Length", str(len(BODY) - start))
        self.end_headers()
        stop = start + self.server.drops.pop(0) if self.server.drops else None
        self.wfile.write(BODY[start:stop])
        return None

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def _no_waiting_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture(params=[True, False], ids=["continues", "restarts"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(request.param) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "data" / "archive.bin"


def leave_part(target: Path, contents: bytes) -> None:
    target.parent.mkdir()
    target.with_name("archive.bin.part").write_bytes(contents)


def files_beside(target: Path) -> set[str]:
    return {path.name for path in target.parent.iterdir()} - {"archive.bin.lock"}


def test_fetch_is_quiet_and_leaves_only_the_file(server: Server, target: Path, capfd: pytest.CaptureFixture) -> None:
    assert fetch(server.url, target, MD5) == target
    assert target.read_bytes() == BODY
    assert files_beside(target) == {"archive.bin"}
    assert capfd.readouterr() == ("", "")


def test_fetch_shows_progress_on_a_terminal(server: Server, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    fetch(server.url, target, MD5)
    assert "archive.bin" in terminal.getvalue()


def test_fetch_continues_a_part_or_restarts(server: Server, target: Path) -> None:
    leave_part(target, BODY[:1000])
    assert fetch(server.url, target, MD5).read_bytes() == BODY
    assert server.ranges == ["bytes=1000-"]


def test_fetch_takes_up_dropped_connections(server: Server, target: Path) -> None:
    server.drops = [70_000, 50_000]
    assert fetch(server.url, target, MD5).read_bytes() == BODY
    assert server.ranges == [None, "bytes=70000-", "bytes=120000-" if server.continues else "bytes=50000-"]


def test_fetch_gives_up_on_a_line_that_always_drops(server: Server, target: Path) -> None:
    server.drops = [10] * 100
    with pytest.raises(UserError, match=r"dropped 5 times: it closed after 10 of [\d,]+ bytes"):
        fetch(server.url, target, MD5)
    assert len(server.ranges) == 5
    assert not target.exists()


@pytest.mark.parametrize("bad", [b"x" * 1000, b"x" * (len(BODY) + 5)], ids=["other contents", "too long"])
def test_fetch_replaces_a_bad_part(server: Server, target: Path, bad: bytes) -> None:
    leave_part(target, bad)
    assert fetch(server.url, target, MD5).read_bytes() == BODY


def test_fetch_needs_no_server_for_a_complete_part(target: Path) -> None:
    leave_part(target, BODY)
    assert fetch("http://127.0.0.1:9/nobody", target, MD5).read_bytes() == BODY


def test_fetch_refuses_a_wrong_checksum_and_keeps_nothing(server: Server, target: Path) -> None:
    with pytest.raises(UserError, match="wrong checksum"):
        fetch(server.url, target, "0" * 32)
    assert files_beside(target) == set()


def test_fetch_checks_a_file_that_is_there(server: Server, target: Path) -> None:
    target.parent.mkdir()
    target.write_bytes(BODY[:-1])
    with pytest.raises(UserError, match=f"{target} has a wrong checksum .* Delete it"):
        fetch(server.url, target, MD5)
    assert server.ranges == []


def test_fetch_does_not_insist_on_a_missing_page(server: Server, target: Path) -> None:
    with pytest.raises(UserError, match="answers 404"):
        fetch(server.url + "s", target, MD5)
    assert len(server.ranges) == 1


def test_fetch_says_where_it_cannot_write(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where a folder should be")
    with pytest.raises(UserError, match=f"cannot save {server.url} as {tmp_path / 'data' / 'archive.bin'}"):
        fetch(server.url, tmp_path / "data" / "archive.bin", MD5)


def test_two_processes_download_once(server: Server, target: Path) -> None:
    program = "import sys, pathlib; from fcl_bench.data.download import fetch; "
    program += "fetch(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3])"
    command = [sys.executable, "-c", program, server.url, str(target), MD5]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(timeout=30) for process in processes] == [0, 0]
    assert server.ranges == [None]
    assert target.read_bytes() == BODY


SOURCE = Source("http://127.0.0.1:9/set-1.tar.gz", MD5, ("set-1/", "set-1.tar.gz", "set1.zip", "set1[!0]*.zip"))


@pytest.mark.parametrize(("allowed", "why"), [(True, "out of reach"), (False, "downloads are off")])
def test_offline_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool, why: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=why) as caught:
        SOURCE.find(Path("data"), download=allowed)
    for part in (f"{tmp_path}/data", ", ".join(SOURCE.accepts), SOURCE.url):
        assert part in str(caught.value)


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("name", ["nope", "a/data"])
def test_a_data_dir_that_does_not_exist_is_not_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, allowed: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    for data_dir in (Path(name), tmp_path / name):
        with pytest.raises(ConfigError) as caught:
            SOURCE.find(data_dir, download=allowed)
        assert str(caught.value) == (
            f"There is no folder {tmp_path / name}: set data_dir to where the data are, "
            "or create this folder to have them downloaded to it."
        )
    assert not list(tmp_path.iterdir())


def test_only_the_default_data_dir_is_created_for_a_download(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = Source(server.url, MD5, ("file",))
    assert source.find(Path("data"), download=True).read_bytes() == BODY


def test_find_prefers_the_first_form_and_tells_folders_from_files(tmp_path: Path) -> None:
    (tmp_path / "set10.zip").touch()
    (tmp_path / "set-1").touch()
    for name in ("set1-png.zip", "set1.zip", "set-1.tar.gz"):
        (tmp_path / name).touch()
        assert SOURCE.find(tmp_path, download=False) == tmp_path / name


def test_verify_says_that_a_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"Cannot read {tmp_path}/train: No such file"):
        verify(tmp_path / "train", MD5)


def test_a_pipe_in_place_of_an_archive_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tar")
    with pytest.raises(UserError, match=r"Cannot read .*a\.tar: it is not a file"):
        verify(tmp_path / "a.tar", "")
