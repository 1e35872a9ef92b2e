"""JSON of strangers: what no writer of ours makes is refused in words, and nothing is waited for."""

import json
import os
from pathlib import Path

import pytest

from fcl_bench.strict_json import MOST_BYTES, MOST_LEVELS, read_json


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b"\xef\xbb\xbf{}", "BOM"),
        ('{"a": 1}'.encode("utf-16"), "codec can't decode"),
        (b'{"a": 1, "b": 2, "a": 3}', "the name 'a' comes twice in an object"),
        (b"[NaN]", "NaN is not a finite number"),
        (b"[-Infinity]", "-Infinity is not a finite number"),
        (b"[1e400]", "1e400 is not a finite number"),
        (b"[" + b"9" * 30 + b"]", "is larger than any number that is counted"),
        (b"[" + b"9" * 5000 + b"]", "is larger than any number that is counted"),
        (b'["\\ud800"]', "surrogates not allowed"),
        (b"[" * 100_000, "nested more than 60 levels deep"),
        (b"[" * 500 + b"]" * 500, "nested more than 60 levels deep"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=reason):
        read_json(path)


def test_what_json_writers_make_comes_back(tmp_path: Path) -> None:
    content = {"text": "Erdős \U0001f600 \n", "numbers": [0, -1.5, 1e-300, 2**63], "nothing": [None, {}, [], ""]}
    path = tmp_path / "a.json"
    for ascii_only in (True, False):
        path.write_text(json.dumps(content, ensure_ascii=ascii_only), encoding="utf-8")
        assert read_json(path) == content
    deepest = "[" * (MOST_LEVELS - 1) + "]" * (MOST_LEVELS - 1)
    path.write_text(deepest)
    assert read_json(path) == json.loads(deepest)


def test_what_is_not_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(ValueError, match="it is not a file"):
            read_json(tmp_path / name)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="symbolic links"):
        read_json(tmp_path / "loop")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(ValueError, match="it has 33,554,433 bytes, more than the 33,554,432 that it can need"):
        read_json(tmp_path / "large")
