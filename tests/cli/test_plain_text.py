"""Terminals that do not have all of our characters."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Outcome
from records import sealed_again, write


def shown(encoding: str, *words: str) -> str:
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "50"}
    done = subprocess.run([sys.executable, "-m", "fcl_bench", *words], env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode(encoding)


@pytest.mark.parametrize(("encoding", "sign"), [("ascii", "+/-"), ("latin-1", "±"), ("utf-8", "±")])
def test_a_leaderboard_is_readable_in_any_encoding(afcl_run: Outcome, tmp_path: Path, encoding: str, sign: str) -> None:
    name = "méthode"
    path = write(tmp_path / "one", sealed_again(afcl_run.result, method=name, config__method__name=name))
    text = shown(encoding, "leaderboard", str(path))
    name = "m?thode" if encoding == "ascii" else "méthode"
    accuracy = afcl_run.result["metrics"]["average_accuracy"]
    assert f"{name}      1  {accuracy:.2f} {sign} n/a" in text
    assert f"{sign} standard deviation over seeds" in text


def test_a_stream_is_readable_in_ascii(tmp_path: Path) -> None:
    words = ("dataset=gaussian", "dataset.classes=6", "dataset.train_size=60", "dataset.test_size=12", "stream.tasks=3")
    text = shown("ascii", "stream", *words, "--out", str(tmp_path / "stream.png"))
    assert text.count("...") > 3  # rich cuts what is too long for the terminal, with a character of its own
    assert "?" not in text
