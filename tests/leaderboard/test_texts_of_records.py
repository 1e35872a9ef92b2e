"""Text of a record does nothing in any form that it is shown in."""

import csv
import io
from pathlib import Path

import pytest
from conftest import command
from records import made, record, write

from fcl_bench.leaderboard.latex import latex
from fcl_bench.leaderboard.plots import KINDS
from fcl_bench.leaderboard.render import markdown
from fcl_bench.leaderboard.sheet import sheet

FORMULAS = ("=HYPERLINK(1)", "+1", "-1+1", "@SUM(A1)")


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_text_cell_of_the_csv_is_a_formula(formula: str) -> None:
    one = record(formula, stream__partition=formula, dataset=formula, metrics__backward_transfer=-5.0)
    one["facts"][formula] = True
    one["metrics"][formula] = 1.0
    lines = list(csv.reader(io.StringIO(sheet(made(one)))))
    titles, cells = lines
    assert cells[titles.index("method")] == f"'{formula}"
    assert cells[titles.index("backward_transfer_mean")] == "-5.0"  # a number stays one
    for cell in titles + cells:
        assert not cell.startswith(("=", "+", "-", "@")) or float(cell) < 0


def test_markdown_has_no_tags_links_or_code_of_a_record() -> None:
    nasty = "<img src=x>[a](javascript:b)`"
    text = markdown(made(record(nasty, dataset=nasty, stream__alpha=nasty), record("b", dataset=nasty)))
    name = "`<img src=x>[a](javascript:b)'`"  # in a span of code, which does not end early
    assert name in text
    elsewhere = text.replace(name, "")
    assert r"\<img src=x>[a]\(javascript:b)" in elsewhere
    assert "<img" not in elsewhere.replace(r"\<", "")
    assert "](" not in elsewhere


def test_latex_takes_no_bracket_for_the_length_of_a_line() -> None:
    text = latex(made(record(dataset="[1cm]"), record(dataset="[2cm]")))
    assert "\n{}[1cm]" in text
    assert "\n[" not in text


@pytest.mark.parametrize("kind", ["curves", "matrix", "pareto"])
def test_a_dollar_in_a_figure_is_no_formula(kind: str, tmp_path: Path) -> None:
    tables = made(record("$\\frac{$", dataset="$x"), record("a$", dataset="$x"))
    for _, figure in KINDS[kind](tables):
        figure.savefig(tmp_path / "figure.svg")


def test_what_is_told_of_a_record_is_one_visible_line(tmp_path: Path) -> None:
    write(tmp_path / "good", record())
    write(tmp_path / "bad", record() | {"metrics": {"average_accuracy": 1.0, "\x1b[2J\n": "text"}})
    told = command("leaderboard", str(tmp_path))
    assert r"metrics.\x1b[2J\n: Input should be a valid number" in told.err
    assert told.err.count("\n") == 1
