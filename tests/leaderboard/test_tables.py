"""The leaderboard as files: Markdown, CSV, LaTeX, and beside the paper's figures."""

import csv
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, command
from records import classifier, made, record, views, write

from fcl_bench.leaderboard.against import against, published
from fcl_bench.leaderboard.latex import latex
from fcl_bench.leaderboard.render import cells, markdown, overview
from fcl_bench.leaderboard.sheet import sheet


def several() -> list[dict[str, Any]]:
    """Two tables: three methods and an oracle with three tasks, two methods with ten."""
    means = {"a_b": 60.0, "c": 40.0, "d": 20.0}
    some = [record(name, seed, mean + seed) for name, mean in means.items() for seed in (1, 2, 3)]
    some += [record("joint", 1, 99.0, facts__oracle=True)]
    return some + [record(name, 1, mean, stream__tasks=10) for name, mean in (("a_b", 10.0), ("c", 15.0))]


def test_markdown_has_a_heading_and_a_table_for_every_group() -> None:
    lines = markdown(made(*several()), ["retention", "uplink_bytes"]).splitlines()
    assert [line for line in lines if line.startswith("## ")] == [
        "## Overview: average (%)",
        "## Overview: anytime (%)",
        "## digits, none (frozen), si_blurry x dirichlet: tasks=3",
        "## digits, none (frozen), si_blurry x dirichlet: tasks=10",
    ]
    assert "| method | seeds | average (%) | 95 % | p | retention | up (MB) | facts |" in lines
    assert "| :--- | ---: | ---: | ---: | ---: | ---: | ---: | :--- |" in lines
    assert "| `c` | 1 | 15.00 ± n/a | n/a | best | n/a | 2.00 |  |" in lines
    assert "| `joint` | 1 | 99.00 ± n/a | n/a |  | n/a | 2.00 | oracle |" in lines
    (row,) = (line for line in lines if line.startswith("| `a_b` | 3 | 62.00 ± 1.00 | "))
    assert row.endswith(" | best | n/a | 2.00 |  |")


def test_the_overview_has_a_column_per_table_and_the_best_mean_first() -> None:
    lines = markdown(made(*several())).splitlines()
    start = lines.index("## Overview: average (%)")
    assert lines[start + 2 : start + 9] == [
        "| method | tasks 3 | tasks 10 |",
        "| :--- | ---: | ---: |",
        "| `a_b` | 62.00 ± 1.00 | 10.00 ± n/a |",
        "| `c` | 42.00 ± 1.00 | 15.00 ± n/a |",
        "| `d` | 22.00 ± 1.00 |  |",
        "| `joint (oracle)` | 99.00 ± n/a |  |",
        "",
    ]
    assert "Overview" not in markdown(made(record()))


def test_a_bar_in_a_name_does_not_break_the_table() -> None:
    lines = markdown(made(record(config__method__lr="x|y"), record())).splitlines()
    (row,) = (line for line in lines if "x\\|y" in line)
    (titles,) = (line for line in lines if line.startswith("| method"))
    assert len(re.findall(r"(?<!\\)\|", row)) == titles.count("|")


def test_the_csv_has_every_number_in_the_units_of_the_record() -> None:
    rows = list(csv.DictReader(io.StringIO(sheet(made(*several())))))
    assert [(row["tasks"], row["method"]) for row in rows] == [
        *(("3", "joint"), ("3", "a_b"), ("3", "c"), ("3", "d")),
        *(("10", "c"), ("10", "a_b")),
    ]
    first = rows[1]
    assert (first["seeds"], first["alpha"], first["compared_by"]) == ("3", "0.1", "average_accuracy")
    assert [float(first[f"average_accuracy_{name}"]) for name in ("mean", "sd")] == [62.0, 1.0]
    assert float(first["average_accuracy_low"]) < 62 < float(first["average_accuracy_high"])
    assert float(first["uplink_bytes_mean"]) == 2_000_000
    assert (first["retention_mean"], first["p_to_best"]) == ("", "")
    assert [float(rows[2][f"{name}_to_best"]) for name in ("pairs", "difference", "p")] == [3, -20, 0]
    assert rows[0]["facts"] == "oracle"


def test_a_look_at_future_classes_stands_beside_every_other_fact() -> None:
    peeking = record("fedcbc", config__method__look_ahead=True, facts__sees_future_classes=True)
    honest = record("fedcbc", config__method__look_ahead=False)
    before = record("fedcbc", seed=2)  # of a version without the setting and the fact
    (board,) = made(peeking, honest, before)
    found = sorted((line[0], line[1], line[-1]) for line in cells(board)[1:])
    assert found == [("fedcbc", "2", ""), ("fedcbc look_ahead=true", "1", "sees future classes")]


def test_a_table_with_dropped_replies_says_so_and_another_does_not() -> None:
    before = record("afcl", config__stream__tasks=5, stream__tasks=5)
    none = record("afcl", metrics__rejected_replies=0)
    some = record("fedncm", metrics__rejected_replies=3)
    titles = [cells(board)[0] for board in made(before, none, some)]
    assert ["rejected replies" in each for each in titles] == [True, False]
    (first, *_) = made(none, some)
    column = cells(first)[0].index("rejected replies")
    assert sorted(line[column] for line in cells(first)[1:]) == ["0", "3"]


def test_latex_marks_the_best_two_and_how_much_better_the_best_is() -> None:
    table = latex(made(*several()))
    three, ten = (line for line in table.splitlines() if line.startswith("digits & "))
    assert r"dataset & $T$ & $\alpha$ & d & c & a\_b & Improve & joint (oracle) \\" in table
    assert ten == r"digits & 10 & 0.1 & -- & \textbf{15.00} & \underline{10.00} & 50.00\,\% & -- \\"
    spread = r" {\scriptsize $\pm$ 1.00}"
    better = 100 * (62 - 42) / 42
    assert three == (
        rf"digits & 3 & 0.1 & 22.00{spread} & \underline{{42.00}}{spread} & \textbf{{62.00}}{spread} & "
        rf"{better:.2f}\,\% & 99.00 \\"
    )


def test_other_classifiers_stand_in_every_form_without_a_rank() -> None:
    tables = made(record("a", 1, 50.0, other_classifiers__linear=classifier(60.0)), record("b", 1, 40.0))
    assert "| `a [linear]` | 1 | 60.00 ± n/a | n/a |  | " in markdown(tables)
    rows = list(csv.DictReader(io.StringIO(sheet(tables))))
    assert [(row["method"], row["row"], row["classifier"]) for row in rows] == [
        ("a", "a [linear]", "linear"),
        ("a", "a", ""),
        ("b", "b", ""),
    ]
    lines = latex(tables).splitlines()
    assert r"dataset & $T$ & $\alpha$ & b & a & Improve & a [linear] \\" in lines
    assert r"digits & 3 & 0.1 & \underline{40.00} & \textbf{50.00} & 25.00\,\% & 60.00 \\" in lines


def test_other_classifiers_come_after_competitors_in_the_overview() -> None:
    lucky = record("a", 1, 50.0, other_classifiers__linear=classifier(60.0))
    tables = made(lucky, record("b"), record("joint", facts__oracle=True), record("b", stream__alpha=1))
    names = [line[0] for line in overview(tables)]
    assert names == ["method", "b", "a", "a [linear]", "joint (oracle)"]


def test_every_classifier_stands_beside_the_figure_of_the_paper_which_does_not_name_its_own() -> None:
    budget = {"config__method__rounds": 20, "config__method__epochs": 5}
    (section,), _ = against(made(record("fedicarl", other_classifiers__linear=classifier(60.0), **PAPER, **budget)))
    assert [row[:3] for row in section.tables[0]][1:3] == [
        ["fedicarl [linear]", "60.00 ± n/a", "3.64"],
        ["fedicarl", "50.00 ± n/a", "3.64"],
    ]
    assert "Rounds x epochs per task: 20 x 5 here, 100 x 5 in the paper (fedicarl)." in section.words


def test_latex_of_a_cost_prefers_the_lower() -> None:
    some = [record("a", metrics__uplink_bytes=4e6), record("b", metrics__uplink_bytes=1e6)]
    line = next(line for line in latex(made(*some, sort="uplink_bytes")).splitlines() if line.startswith("digits"))
    assert line == r"digits & 3 & 0.1 & \underline{4.00} & \textbf{1.00} & 75.00\,\% \\"


def test_lines_of_equal_streams_name_what_else_differs() -> None:
    table = latex(made(record(), record(backbone="resnet18"), record(config__federation__dropout=0.5)))
    (titles,) = (line for line in table.splitlines() if line.startswith("dataset &"))
    assert titles.split(" & ")[:5] == ["dataset", "$T$", r"$\alpha$", "backbone", "federation.dropout"]


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs pdflatex (Debian: texlive-latex-recommended)")
def test_latex_compiles(tmp_path: Path) -> None:
    nasty = record("m", config__method__lr=r"a_b%c&d#e$f{g}h~i^j\k")
    (tmp_path / "table.tex").write_text(latex(made(*several(), nasty, record("m"))))
    (tmp_path / "paper.tex").write_text(
        r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}\input{table}\end{document}"
    )
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF")


PAPER = {"dataset": "cifar100", "stream__tasks": 10, "stream__alpha": 0.1, "stream__clients": 5}


def test_the_published_figures_are_complete_and_agree_with_themselves() -> None:
    """The paper gives AFCL's figure for gamma 0 in two tables, its improvement over the second in percent, and ten
    tasks of everything; all of it is checked here but for the digits themselves.
    """
    paper = published()
    methods = {"finetune", "fedlwf", "target", "fedewc", "fedicarl", "fedmgp", "fedcbc", "afcl"}
    improve = [35.12, 30.34, 114.35, 101.79, 75.62, 61.41, 143.19, 122.06, 62.57, 60.66, 143.13, 170.30]
    for entry, printed in zip(paper["average_accuracy"], improve, strict=True):
        values = entry["values"]
        assert set(values) == methods
        assert values["afcl"] == paper["gamma"][entry["dataset"]][0]
        assert 100 * (values["afcl"] / values["fedcbc"] - 1) == pytest.approx(printed, abs=0.02)
    for metric, length in (("stability", 9), ("plasticity", 10), ("runtime_seconds", 10)):
        for curves in paper[metric].values():
            assert set(curves) == methods
            assert {len(curve) for curve in curves.values()} == {length}
    assert {method for method, side in paper["retention"].items() if side == "above 1.00"} == {"afcl"}
    assert set(paper["retention"]) == methods
    for curves in paper["runtime_seconds"].values():
        assert all(curve == sorted(curve) for curve in curves.values())


def test_our_figures_stand_beside_the_paper_s() -> None:
    runs = [record("finetune", seed, 10.0, **PAPER) for seed in (1, 2)] + [record("derpp", 1, 5.0, **PAPER)]
    (section,), others = against(made(*runs))
    titles, *rows = section.tables[0]
    assert titles[:4] == ["method", "average (%)", "paper", "difference"]
    assert rows[0][:4] == ["finetune", "10.00 ± 0.00", "4.15", "+5.85"]
    assert rows[0][titles.index("seconds") :] == ["1.50", "4895.36", "-4893.86"]
    assert [row[0] for row in rows[1:]] == ["fedlwf", "target", "fedewc", "fedicarl", "fedmgp", "fedcbc", "afcl"]
    assert rows[1][1:4] == ["not run", "4.18", ""]
    assert others == []


def test_the_paper_s_figures_of_tasks_stand_beside_the_same_quantities() -> None:
    """Its table of stability and plasticity is of single steps, and its task tests are those of our view `present`."""
    new = record("finetune", 1, 20.0, views=views(first_seen=9.0, present=1.5), **PAPER)
    (section,), _ = against(made(new, record("fedlwf", 1, 10.0, **PAPER)))
    titles, finetune, fedlwf, *_ = section.tables[0]
    assert titles[1::3] == ["average (%)", "step stability (%) (present)", "step plasticity (%) (present)", "seconds"]
    assert finetune[4:10] == ["45.00 ± n/a", "2.43", "+42.57", "30.00 ± n/a", "27.90", "+2.10"]
    assert fedlwf[4:10] == ["n/a", "3.80", "", "n/a", "7.60", ""]
    assert section.tables[1] == [
        ["method", "retention (present)", "paper"],
        ["finetune", "1.50 ± n/a", "below 1.00"],
        ["fedlwf", "n/a", "below 1.00"],
    ]


def test_records_without_views_stand_beside_the_paper_s_as_not_available() -> None:
    (section,), _ = against(made(record("afcl", **PAPER)))
    assert section.tables[0][1][4:8] == ["n/a", "58.57", "", "n/a"]
    assert section.tables[1][1] == ["afcl", "n/a", "above 1.00"]


def test_the_differences_of_protocol_are_said_in_words() -> None:
    budget = {"config__method__rounds": 20, "config__method__epochs": 5}
    (section,), _ = against(made(record("finetune", **PAPER, **budget), record("derpp", **PAPER, **budget)))
    assert "backbone: none here, resnet18 in the paper." in section.words
    assert "disjoint_ratio: null here, 0.5 in the paper." in section.words
    assert not any(sentence.startswith("clients") for sentence in section.words)
    assert "Rounds x epochs per task: 20 x 5 here, 100 x 5 in the paper (finetune)." in section.words
    assert "Track: methods that train learn a head on frozen features here." in section.words
    assert "Not in the paper: derpp." in section.words
    remarks = published()["remarks"]
    assert {*remarks["all"], *remarks["stability"], *remarks["runtime_seconds"]} < set(section.words)
    (five,), _ = against(made(record("finetune", **(PAPER | {"stream__tasks": 5}))))
    assert not set(remarks["stability"]) & set(five.words)
    odd = {"config__federation__dropout": 0.5, "config__limit_train": 100}
    (limited,), _ = against(made(record("finetune", **PAPER, **odd)))
    assert {"federation.dropout: 0.5 here, 0 in the paper.", "limit_train: 100 here, null in the paper."} < set(
        limited.words
    )


def test_several_gammas_stand_beside_the_paper_s() -> None:
    runs = [record("afcl", 1, 60.0 - gamma, config__method__gamma=gamma, **PAPER) for gamma in (10, 0, 3)]
    (section,), _ = against(made(*runs))
    assert section.tables[1] == [
        ["gamma", "average (%)", "paper", "difference"],
        ["afcl gamma=0", "60.00 ± n/a", "58.56", "+1.44"],
        ["afcl gamma=10", "50.00 ± n/a", "58.15", "-8.15"],
    ]


@pytest.mark.parametrize("change", [{"stream__alpha": 0.7}, {"stream__name": "iid"}, {"dataset": "digits"}])
def test_what_the_paper_has_not_run_is_named(change: dict[str, Any]) -> None:
    sections, (sentence,) = against(made(record("finetune", **(PAPER | change))))
    assert sections == []
    assert re.match(r"The paper has no figures for .* \(tasks 10, ", sentence)


def test_a_reader_who_stops_reading_still_gets_the_files(afcl_run: Outcome, tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    (tmp_path / "board" / "paper.md").write_text("of other runs")
    words = [sys.executable, "-m", "fcl_bench", "leaderboard", str(afcl_run.folder), "--out", str(tmp_path / "board")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.close()
    process.wait(timeout=60)
    names = {"leaderboard.md", "leaderboard.csv", "leaderboard.tex", "index.html"}
    assert {path.name for path in (tmp_path / "board").iterdir()} == names


def test_a_folder_holds_all_forms(tmp_path: Path) -> None:
    write(tmp_path / "runs" / "one", record("finetune", **PAPER))
    write(tmp_path / "runs" / "two", record("finetune"))
    folder = tmp_path / "new" / "board"
    told = command("leaderboard", str(tmp_path / "runs"), "--out", str(folder), "--against", "paper")
    assert told.code == 0, told.err
    names = {"leaderboard.md", "leaderboard.csv", "leaderboard.tex", "index.html", "paper.md"}
    assert {path.name for path in folder.iterdir()} == names
    assert "| `finetune` | 50.00 ± n/a | 4.15 | +45.85 |" in (folder / "paper.md").read_text()
    assert "arXiv:2505.12245" in (folder / "paper.md").read_text()
    assert "against the paper: cifar100" in told.out
    assert told.err.startswith("fcl_bench: The paper has no figures for digits, none (frozen), ")
    (tmp_path / "file").write_text("")
    failed = command("leaderboard", str(tmp_path / "runs"), "--out", str(tmp_path / "file"))
    assert failed.code == 1
    assert re.search(r"fcl_bench: Cannot write to \S+/file: .* set --out=", failed.err)
