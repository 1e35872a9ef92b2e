"""Figures from records: what is drawn is compared with the records themselves."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Command, command
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.transforms import Bbox
from records import classifier, made, record, views, write

from fcl_bench.errors import UserError
from fcl_bench.leaderboard.boards import boards
from fcl_bench.leaderboard.plot_setting import gamma, over_setting
from fcl_bench.leaderboard.plot_synthetic import synthetic
from fcl_bench.leaderboard.plot_trade import front
from fcl_bench.leaderboard.plots import KINDS, curves, matrix, pareto, retention
from fcl_bench.leaderboard.runs import run_of
from fcl_bench.leaderboard.statistics import score
from fcl_bench.learning import Costs, Progress
from fcl_bench.run.checkpoint import first_checkpoint

TWO = {"first": 60.0, "second": 40.0}


def some(**changes: Any) -> list[dict[str, Any]]:
    return [record(name, seed, mean + seed, **changes) for name, mean in TWO.items() for seed in (1, 3)]


def test_curves_are_means_over_seeds_with_a_band() -> None:
    ((_, figure),) = curves(made(*some(), *some(stream__tasks=10)))
    panels = figure.axes
    assert [panel.get_title() for panel in panels] == [
        "digits, tasks 3, alpha 0.1",
        "digits, tasks 10, alpha 0.1",
    ]
    drawn = {line.get_label(): line.get_ydata() for line in panels[0].lines}
    assert drawn["first"] == pytest.approx([62 / 4, 62 / 2, 62])
    assert drawn["second"] == pytest.approx([42 / 4, 42 / 2, 42])
    band = panels[0].collections[0].get_paths()[0].vertices[:, 1]
    assert (band.max(), band.min()) == pytest.approx((62 + 2**0.5, (62 - 2**0.5) / 4))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["first", "second"]


def test_retention_begins_with_the_second_task() -> None:
    values = {"curves__retention": [None, 0.5, 0.25]}
    ((_, figure),) = retention(made(record(**values)))
    assert figure.axes[0].lines[0].get_ydata() == pytest.approx([np.nan, 0.5, 0.25], nan_ok=True)


def test_a_view_has_its_own_curves_and_matrix() -> None:
    boards = made(*(record("new", seed, views=views(present=1.0 + seed)) for seed in (0, 1)), record("old"))
    ((_, figure),) = retention(boards, "present")
    assert figure.get_supylabel() == "retention (present)"
    (line,) = figure.axes[0].lines  # a record without the view has no curve
    assert (line.get_label(), line.get_ydata().tolist()) == ("new", pytest.approx([1.5 / 4, 1.5 / 2, 1.5]))
    ((_, figure),) = curves(boards, "present")
    assert figure.axes[0].lines[0].get_ydata().tolist() == pytest.approx([15, 30, 60])
    ((_, figure),) = matrix(boards, "present")
    panels = {panel.get_title(): panel.images[0].get_array() for panel in figure.axes if panel.get_title()}
    assert np.all(panels["new"] == 1.5)
    assert np.isnan(np.asarray(panels["old"], dtype=float)).all()


def test_a_view_is_chosen_on_the_command_line(tmp_path: Path) -> None:
    new = write(tmp_path / "new", record("new", views=views(present=1.7)))
    old = write(tmp_path / "old", record("old"))
    out = tmp_path / "figure.svg"
    told = command("plot", str(new), "--kind", "curves", "--view", "present", "--out", str(out))
    assert (told.code, told.err) == (0, "")
    assert out.exists()
    lacking = command("plot", str(old), "--kind", "retention", "--view", "present", "--out", str(out))
    assert lacking.code == 1
    assert lacking.err.startswith("fcl_bench: No record has the view present: all are of earlier versions. Run again,")
    refused = command("plot", str(new), "--kind", "pareto", "--view", "present")
    assert refused.code == 2
    assert refused.err.startswith(
        "fcl_bench: --view is for --kind curves, retention, matrix, which draw tests of tasks"
    )


def test_a_heat_map_is_the_mean_matrix() -> None:
    ((_, figure),) = matrix(made(*some()))
    panels = {panel.get_title(): panel for panel in figure.axes if panel.get_title()}
    assert panels["first"].images[0].get_array()[2].tolist() == [30, 62, 70]
    assert panels["second"].images[0].get_array()[2].tolist() == [30, 42, 70]
    assert [text.get_text() for text in panels["first"].texts] == ["90", "0", "0", "60", "80", "0", "30", "62", "70"]


def test_pareto_plots_have_the_traffic_of_both_ways_and_the_front() -> None:
    cheap = record("cheap", 1, 50.0, metrics__uplink_bytes=1e6, metrics__runtime_seconds=9.0)
    oracle = record("joint", 1, 99.0, metrics__downlink_bytes=1e6, facts__oracle=True)
    dear = record("dear", 1, 40.0, metrics__downlink_bytes=3e6)
    ((_, figure),) = pareto(made(cheap, oracle, dear))
    traffic, seconds = figure.axes
    points = {container.get_label(): container[0].get_xydata()[0].tolist() for container in traffic.containers}
    assert points == {"cheap": [1.0, 50.0], "joint": [3.0, 99.0], "dear": [5.0, 40.0]}
    assert traffic.lines[-1].get_xydata().tolist() == [[1.0, 50.0]]  # an oracle is not on the front
    assert seconds.lines[-1].get_xydata().tolist() == [[1.5, 40.0], [9.0, 50.0]]


def test_several_tables_share_one_look_per_row() -> None:
    ((_, figure),) = pareto(made(record("b"), record("a", stream__alpha=1), record("b", stream__alpha=1)))
    colours = {
        (container.get_label(), container[0].get_color()) for panel in figure.axes for container in panel.containers
    }
    assert len(colours) == 2
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["b", "a"]


def test_only_an_oracle_is_dashed_and_open() -> None:
    names = [f"method_{number:02}" for number in range(30)]
    records = [record(name, facts__oracle=name == "method_03") for name in names]
    ((_, figure),) = curves(made(*records))
    looks = {line.get_label(): (line.get_linestyle(), line.get_markerfacecolor()) for line in figure.axes[0].lines}
    assert [name for name, (line, face) in looks.items() if line == "--"] == ["method_03"]
    assert [name for name, (line, face) in looks.items() if face == "none"] == ["method_03"]


def test_an_oracle_alone_has_no_front() -> None:
    ((_, figure),) = pareto(made(record("joint", facts__oracle=True)))
    assert len(figure.axes) == 2
    assert not [line for panel in figure.axes for line in panel.lines if line.get_drawstyle() == "steps-post"]


def test_the_front_is_that_of_brute_force() -> None:
    points = [tuple(point) for point in np.random.default_rng(0).integers(0, 9, (40, 2)).tolist()]
    best = {
        one for one in points if not any(other != one and other[0] <= one[0] and other[1] >= one[1] for other in points)
    }
    assert front(points) == sorted(best)


def test_gammas_are_a_line() -> None:
    runs = [
        record("afcl", seed, 60 - gamma + seed, config__method__gamma=gamma) for gamma in (10, 0, 1) for seed in (1, 3)
    ]
    ((_, figure),) = gamma(made(*runs))
    (line,) = figure.axes[0].containers
    assert line[0].get_xydata().tolist() == [[0, 62], [1, 61], [10, 52]]


def test_gammas_with_another_setting_are_another_line() -> None:
    pairs = [(value, form) for value in (0, 1) for form in ("statistics", "recursive")]
    runs = [record("afcl", config__method__gamma=value, config__method__form=form) for value, form in pairs]
    ((_, figure),) = gamma(made(*runs))
    labels = [line.get_label() for line in figure.axes[0].containers]
    assert sorted(labels) == ["digits, tasks 3, alpha 0.1 form=recursive", "digits, tasks 3, alpha 0.1 form=statistics"]


def swept(method: str, key: str, values: dict[Any, float]) -> list[dict[str, Any]]:
    """A run per value of a setting, with the accuracy of each."""
    name = f"config__method__{key}"
    return [record(method, 1, accuracy, **{name: value}) for value, accuracy in values.items()]


@pytest.mark.parametrize("name", ["optimizer.momentum", "method.optimizer.momentum"])
def test_any_number_of_any_method_is_a_line(name: str) -> None:
    first = swept("first", "optimizer__momentum", {0.5: 20.0, 0.0: 10.0})
    second = swept("second", "optimizer__momentum", {0.9: 70.0, 0.1: 60.0, "auto": 99.0})
    once = swept("third", "optimizer__momentum", {0.3: 50.0})
    ((_, figure),) = over_setting(made(*first, *second, *once), name)
    drawn = {line.get_label(): line[0].get_xydata().tolist() for line in figure.axes[0].containers}
    assert drawn == {
        "digits, tasks 3, alpha 0.1 first": [[0.0, 10.0], [0.5, 20.0]],
        "digits, tasks 3, alpha 0.1 second": [[0.1, 60.0], [0.9, 70.0]],
    }
    assert figure.axes[0].get_xlabel() == "optimizer.momentum"
    assert figure.axes[0].get_xscale() == "linear"


def test_other_classifiers_are_no_part_of_a_line() -> None:
    runs = swept("first", "lr", {0.1: 10.0, 0.2: 20.0})
    for one in runs:
        one["other_classifiers"] = {"linear": classifier(1.0)}
    ((_, figure),) = over_setting(made(*runs), "lr")
    (line,) = figure.axes[0].containers
    assert line[0].get_xydata().tolist() == [[0.1, 10.0], [0.2, 20.0]]


def test_values_of_very_different_size_have_a_logarithmic_axis() -> None:
    ((_, figure),) = over_setting(made(*swept("first", "lr", {0: 1.0, 0.001: 2.0, 1: 3.0})), "lr")
    assert figure.axes[0].get_xscale() == "symlog"
    ticks = figure.axes[0].transData.transform([[0.001, 0], [0.01, 0], [0.1, 0], [1, 0]])[:, 0]
    assert np.diff(ticks) == pytest.approx(np.diff(ticks)[0])


def test_a_setting_that_nothing_differs_in_is_refused_with_those_that_can_be_drawn() -> None:
    boards = made(*swept("first", "lr", {0.1: 1.0, 0.2: 2.0}), *swept("first", "form", {"a": 1.0, "b": 2.0}))
    with pytest.raises(
        UserError, match=r"^No method has runs that differ in the number form alone: choose from: lr\.$"
    ):
        list(over_setting(boards, "form"))


LONG = "a_method_whose_name_is_very_much_longer_than_any_other_name"


def boxes(figure: Figure) -> tuple[Bbox, list[Bbox], list[Bbox]]:
    """Of the legend, the panels and their titles, in pixels of the finished figure."""
    figure.draw_without_rendering()
    (legend,) = figure.legends
    panels = [panel.get_tightbbox() for panel in figure.axes]
    titles = [title for panel in figure.axes for title in (panel.title, panel._left_title) if title.get_text()]
    return legend.get_window_extent(), panels, [title.get_window_extent() for title in titles]


def is_inside(inner: Bbox, outer: Bbox) -> bool:
    return bool((inner.min >= outer.min).all() and (inner.max <= outer.max).all())


def check_room(figure: Figure, dpi: int) -> None:
    """The figure holds legend, panels and titles, which do not overlap, and the panels have kept their size."""
    figure.set_dpi(dpi)
    legend, panels, titles = boxes(figure)
    assert is_inside(legend, figure.bbox)
    for panel in figure.axes:
        width, height = panel.get_window_extent().size / figure.dpi
        assert width > 3
        assert height > 2
    for number, box in enumerate(panels):
        assert is_inside(box, figure.bbox)
        assert not any(box.overlaps(other) for other in [legend, *panels[:number]])
    for number, box in enumerate(titles):
        assert not any(box.overlaps(other) for other in titles[:number])


@pytest.mark.parametrize(("kind", "rows", "more"), [("curves", 30, LONG), ("pareto", 30, ""), ("retention", 2, LONG)])
def test_a_figure_holds_the_legend_of_many_rows_with_long_names(kind: str, rows: int, more: str) -> None:
    names = [f"{LONG}_{number}{more}" for number in range(rows)]
    ((_, figure),) = KINDS[kind](made(*(record(name, curves__retention=[None, 0.5, 0.25]) for name in names)))
    check_room(figure, dpi=72)
    check_room(figure, dpi=150)
    shown = [text.get_text().replace("\n", "") for text in figure.legends[0].get_texts()]
    assert sorted(shown) == sorted(names)


@pytest.mark.parametrize("kind", ["curves", "gamma"])
def test_a_figure_of_mixed_tables_holds_their_titles(kind: str) -> None:
    runs = []
    for number in range(7):
        dataset = f"a_data_set_of_a_long_name_{number}"
        for value in (0.1, 1, 10):
            one = record(config__method__gamma=value, dataset=dataset, stream__partition=f"partition_{number}")
            runs.append(one)
    boards = made(*runs)
    assert len(boards) == 7
    ((_, figure),) = KINDS[kind](boards)
    check_room(figure, dpi=72)
    check_room(figure, dpi=150)


def test_rows_without_a_metric_are_left_out_of_its_plot() -> None:
    whole = record("whole", accuracy=60.0)
    bare = record("bare", accuracy=40.0)
    blank = record("blank", accuracy=20.0, curves__average_accuracy=[None] * 3)
    boards = made(whole, bare, blank)
    (lacking,) = (row for row in boards[0].rows if row.name == "bare")
    del lacking.runs[0].result["curves"]["average_accuracy"]
    lacking.scores["uplink_bytes"] = score([None])
    ((_, drawn),) = curves(boards)
    assert [line.get_label() for line in drawn.axes[0].lines] == ["whole"]
    ((_, drawn),) = pareto(boards)
    traffic, seconds = drawn.axes
    assert [container.get_label() for container in traffic.containers] == ["whole", "blank"]
    assert [container.get_label() for container in seconds.containers] == ["whole", "bare", "blank"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("gamma", "stream", "synthetic")])
def test_every_kind_is_written_as_png_and_svg(tmp_path: Path, kind: str) -> None:
    for number, one in enumerate(some()):
        write(tmp_path / str(number), one)
    for suffix in (".png", ".svg"):
        path = tmp_path / f"figure{suffix}"
        told = command("plot", str(tmp_path), "--kind", kind, "--out", str(path))
        assert told.code == 0, told.err
        assert told.out.startswith(str(path))
    assert imread(tmp_path / "figure.png").std() > 0.05
    assert "<svg" in (tmp_path / "figure.svg").read_text()


def test_synthetic_images_come_from_the_checkpoint_beside_a_record(tmp_path: Path) -> None:
    path = write(tmp_path / "one", record())
    refused = command("plot", str(tmp_path), "--kind", "synthetic")
    assert refused.code == 1
    assert "None of these runs has synthetic images in its checkpoint: name " in refused.err
    images = torch.randint(0, 256, (70, 3, 5, 6), dtype=torch.uint8)
    checkpoint = path.parent / "checkpoint" / "checkpoint.safetensors"
    checkpoint.parent.mkdir()
    point = first_checkpoint(Progress(0, 0, 0, None, Costs()), 1)
    checkpoint.write_bytes(replace(point, memories={0: {"teacher": 1}, 2: {"synthetic": images}}).encoded())
    ((words, figure),) = synthetic(boards([run_of(record(), path)]))
    assert words.startswith("afcl, ")
    drawn = figure.axes[0].images[0].get_array()
    assert drawn.shape == (40, 48, 3)
    for number in (0, 7, 8, 63):
        line, place = divmod(number, 8)
        part = drawn[5 * line : 5 * line + 5, 6 * place : 6 * place + 6]
        assert np.array_equal(part.transpose(2, 0, 1), images[number].numpy())


def test_the_stream_comes_from_the_manifest_beside_a_record(tiny: Command, output_dir: Path, tmp_path: Path) -> None:
    done = tiny("method=afcl")
    told = command("plot", str(output_dir), "--kind", "stream", "--out", str(tmp_path / "stream.svg"))
    assert told.code == 0, told.err
    sizes = json.loads((done.folder / "stream.json").read_text())["sizes"]
    titles = re.findall(r"task \d: \d+ new, \d+ known", (tmp_path / "stream.svg").read_text())
    assert len(set(titles)) == len(sizes) == 3
    (done.folder / "stream.json").write_text("{")
    refused = command("plot", str(output_dir), "--kind", "stream")
    assert refused.code == 1
    assert re.match(r"fcl_bench: There is no stream\.json next to \S+result\.json: name ", refused.err)


def test_several_tables_of_one_kind_are_numbered(tmp_path: Path) -> None:
    write(tmp_path / "one", record())
    write(tmp_path / "two", record(stream__alpha=0.5))
    told = command("plot", str(tmp_path), "--kind", "matrix", "--out", str(tmp_path / "m.png"))
    heading = "digits, none (frozen), si_blurry x dirichlet"
    assert told.out.splitlines() == [
        f"{tmp_path}/m-1.png: {heading}: alpha=0.1 (tasks 3, clients 3, alpha 0.1)",
        f"{tmp_path}/m-2.png: {heading}: alpha=0.5 (tasks 3, clients 3, alpha 0.5)",
    ]


def test_a_setting_is_drawn_from_the_command_line(tmp_path: Path) -> None:
    for number, one in enumerate(swept("first", "lr", {0.1: 1.0, 0.2: 2.0})):
        write(tmp_path / str(number), one)
    path = tmp_path / "a new folder" / "lr.svg"
    told = command("plot", str(tmp_path), "--kind", "setting", "--setting", "lr", "--out", str(path))
    assert (told.code, told.out) == (0, f"{path}\n"), told.err
    assert "<!-- lr -->" in path.read_text()


def test_what_cannot_be_drawn_is_named(tmp_path: Path) -> None:
    path = str(write(tmp_path / "one", record()))
    refused = command("plot", path, "--kind", "gamma", "--out", str(tmp_path / "x.png"))
    sentence = "No method has runs that differ in the number gamma alone: run -m method=METHOD method.gamma=1,2,4."
    assert (refused.code, refused.err) == (1, f"fcl_bench: {sentence}\n")
    assert command("plot", str(tmp_path / "nothing"), "--kind", "curves", "--out", str(tmp_path / "x.png")).code == 1
    assert command("plot", path, "--kind", "pie").code == 2


@pytest.mark.parametrize("words", [("--kind", "setting"), ("--kind", "curves", "--setting", "lr")])
def test_the_kind_setting_and_the_name_of_a_setting_need_each_other(words: tuple[str, ...]) -> None:
    refused = command("plot", "runs", *words)
    sentence = "--kind setting and --setting NAME need each other: give both or none."
    assert (refused.code, refused.err) == (2, f"fcl_bench: {sentence}\n")


def test_a_bad_file_name_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    refused = command("plot", "/no/such/runs", "--kind", "curves", "--out", str(tmp_path / "x.bad"))
    sentence = "Expected a picture name ending in .png, .svg, .pdf, but got x.bad."
    assert (refused.code, refused.err) == (2, f"fcl_bench: {sentence}\n")
