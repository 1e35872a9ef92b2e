"""``python -m fcl_bench leaderboard`` and ``plot``: from folders of records to what is shown and written."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from fcl_bench.errors import ConfigError, UserError
from fcl_bench.files import write_atomically, writing_to
from fcl_bench.leaderboard.against import Section
from fcl_bench.leaderboard.boards import Board, boards, contradictions
from fcl_bench.leaderboard.columns import (
    COLUMNS,
    HEADLINE,
    LATER,
    SHOWN,
    check_metric_names,
    metrics_in,
    view_metrics,
)
from fcl_bench.leaderboard.hours import hours
from fcl_bench.leaderboard.latex import latex
from fcl_bench.leaderboard.references import REFERENCES, Reference
from fcl_bench.leaderboard.render import in_markdown, markdown, markdown_cells, show, show_cells
from fcl_bench.leaderboard.runs import Run, gather
from fcl_bench.leaderboard.sheet import sheet
from fcl_bench.run.result import VIEWS
from fcl_bench.visible import visible


def leaderboard(words: Sequence[str]) -> None:
    """Compare runs: a table for each group of comparable ones, with what the seeds say about each method."""
    options = _options(words)
    columns = [name.strip() for name in options.columns.split(",")]
    runs = read_finished_runs(options.runs, options.protocol)
    known = metrics_in([*(run.values for run in runs), LATER, view_metrics()])
    check_metric_names([options.sort, *columns], known)
    tables = boards(runs, options.sort, columns)
    reference = REFERENCES.get(options.against)
    sections, missing = reference.compare(tables) if reference else ([], [])
    files = _files(tables, columns) if options.out or options.wandb else {}
    if reference and sections and files:
        files[reference.file] = _markdown_sections(reference, sections)
    if options.out:  # before anything is shown, as who reads it may have seen enough
        _write(options.out, files)
    console = Console(highlight=False)
    show(tables, console, columns)
    if reference:
        _show_sections(reference, sections, console)
    for sentence in missing:
        _note(sentence)
    for sentence in hours(runs) if options.hours else ():
        print(visible(f"machine time, {sentence}"))
    if options.out:
        print(f"written to {options.out}: {', '.join(files)}")
    if options.wandb:
        from fcl_bench.leaderboard.wandb_board import publish

        print(publish(tables, files, options.wandb, Path()))


def plot(words: Sequence[str]) -> None:
    """Draw a figure of a paper from runs, as PNG, SVG or PDF."""
    from fcl_bench.leaderboard.picture_file import check_picture, save
    from fcl_bench.leaderboard.plots import KINDS, SETTING, VIEWED_KINDS, draw

    of_views = ", ".join(VIEWED_KINDS)
    parser = argparse.ArgumentParser("python -m fcl_bench plot", description=plot.__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUNS", help="folders of runs, or records (result.json)")
    parser.add_argument("--kind", required=True, choices=[*KINDS, SETTING], help="what to draw")
    parser.add_argument("--setting", metavar="NAME", help="of the methods, a number, for --kind setting: gamma, lr ...")
    parser.add_argument("--protocol", metavar="NAME", help="only runs under this protocol")
    parser.add_argument("--view", default=VIEWS[0], choices=VIEWS, help=f"which tests tasks have, for {of_views}")
    parser.add_argument("--out", type=Path, metavar="FILE", help="its suffix is the format (default: KIND.png)")
    options = parser.parse_args(words)
    if (options.kind == SETTING) != (options.setting is not None):
        raise ConfigError("--kind setting and --setting NAME need each other: give both or none.")
    if options.view != VIEWS[0] and options.kind not in VIEWED_KINDS:
        raise ConfigError(f"--view is for --kind {of_views}, which draw tests of tasks: leave it out.")
    out = options.out or Path(f"{options.kind}.png")
    check_picture(out)
    tables = boards(read_finished_runs(options.runs, options.protocol))
    figures = list(draw(options.kind, tables, options.setting, options.view))
    for number, (table, figure) in enumerate(figures, start=1):
        path = out.with_stem(f"{out.stem}-{number}") if len(figures) > 1 else out
        save(figure, path)
        print(f"{path}: {table}" if table else path)


def read_finished_runs(paths: Sequence[Path], protocol: str | None = None) -> tuple[Run, ...]:
    """The complete runs below some folders, of one protocol if it is named; a line on stderr for all else there."""
    found = gather(paths)
    for problem in found.problems:
        _note(problem)
    if found.interrupted:
        _note(f"Unfinished runs (interrupted or failed) that are left out: {found.interrupted}.")
    if found.unlearned:
        _note(f"Records of runs that have forgotten samples are left out: {found.unlearned}.")
    if not found.runs:
        raise UserError("There is no finished run to compare: name folders that hold some, such as runs.")
    without = sum(run.trust.startswith("no digest") for run in found.runs)
    if without:
        _note(f"Records without a digest, of earlier versions, whose numbers fit each other: {without}.")
    for sentence in contradictions(found.runs):
        _note(sentence)
    protocols = sorted({run.conditions["protocol"] or "none" for run in found.runs})
    if protocol is not None:
        return _under(protocol, found.runs, protocols)
    if len(protocols) > 1:
        _note(f"Runs of several protocols ({', '.join(protocols)}) are not mixed.")
    return found.runs


def _under(protocol: str, runs: Sequence[Run], protocols: Sequence[str]) -> tuple[Run, ...]:
    if protocol not in protocols:
        there = ", ".join(protocols)
        raise UserError(f"There is no finished run under --protocol {protocol}; there are some under: {there}.")
    return tuple(run for run in runs if (run.conditions["protocol"] or "none") == protocol)


def _note(sentence: str) -> None:
    print(f"fcl_bench: {visible(sentence)}", file=sys.stderr)


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m fcl_bench leaderboard", description=leaderboard.__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUNS", help="folders of runs, or records (result.json)")
    parser.add_argument(
        "--sort",
        default=HEADLINE,
        metavar="METRIC",
        help=f"one of {', '.join(COLUMNS)}, any other metric of the records, or one of a view: 'retention (present)'",
    )
    parser.add_argument(
        "--columns",
        default=",".join(SHOWN),
        metavar="METRICS",
        help="to show, with commas between them",
    )
    parser.add_argument("--protocol", metavar="NAME", help="only runs under this protocol")
    parser.add_argument("--out", type=Path, metavar="DIR", help="also write index.html, and Markdown, CSV and LaTeX")
    parser.add_argument("--hours", action="store_true", help="also say how many hours the runs took, by protocol")
    parser.add_argument("--against", choices=list(REFERENCES), help="put published figures, or orders, beside ours")
    parser.add_argument("--wandb", metavar="PROJECT", help="publish all of it as a run of Weights & Biases")
    return parser.parse_args(words)


def _show_sections(reference: Reference, sections: Sequence[Section], console: Console) -> None:
    for section in sections:
        console.print("", Text(f"against {reference.name}: {section.heading}", "bold"), sep="\n", soft_wrap=True)
        for cells in section.tables:
            show_cells(cells, console)
            console.print()
        for sentence in section.words:
            console.print(Text(f"- {sentence}"), soft_wrap=not console.is_terminal)


def _markdown_sections(reference: Reference, sections: Sequence[Section]) -> str:
    lines = [f"# {reference.title}", "", reference.introduction(), ""]
    for section in sections:
        tables = "\n\n".join(map(markdown_cells, section.tables))
        sentences = [f"* {in_markdown(sentence)}" for sentence in section.words]
        lines += [f"## {in_markdown(section.heading)}", "", tables, "", *sentences, ""]
    return "\n".join(lines)


def _files(tables: Sequence[Board], columns: Sequence[str]) -> dict[str, str]:
    """Every form of the tables, by the name of its file."""
    from fcl_bench.leaderboard.page import page

    return {
        "leaderboard.md": markdown(tables, columns),
        "leaderboard.csv": sheet(tables),
        "leaderboard.tex": latex(tables),
        "index.html": page(tables),
    }


def _write(folder: Path, files: dict[str, str]) -> None:
    with writing_to(folder, "--out"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_atomically(folder / name, text.encode())
        for reference in REFERENCES.values():
            if reference.file not in files:
                (folder / reference.file).unlink(missing_ok=True)  # of other runs
