import os
from pathlib import Path

import numpy as np
import pytest
from conftest import command
from matplotlib import colormaps
from matplotlib.colors import LogNorm
from matplotlib.image import imread
from rich.console import Console

from fcl_bench.leaderboard.picture_file import check_picture, save
from fcl_bench.leaderboard.stream_picture import dense_counts, picture, table
from fcl_bench.partition import Dirichlet, Shards
from fcl_bench.stream import Stream, make_stream
from fcl_bench.temporal import Disjoint, SiBlurry

LABELS = np.repeat(np.arange(100), 20)


def printed(stream: Stream, width: int) -> list[str]:
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(table(stream, [f"name{label}" for label in range(100)]))
    return capture.get().splitlines()


def test_counts_add_up_and_follow_registration() -> None:
    stream = make_stream(LABELS, LABELS, SiBlurry(10), Dirichlet(5, 0.1), seed=0)
    counts = dense_counts(stream.counts, 10, 5)
    assert counts.shape == (10, 5, 100)
    assert (counts.sum(axis=(0, 1)) == 20).all()
    assert (counts.sum(axis=2) == stream.sizes).all()
    for task, of_task in zip(stream.tasks, counts, strict=True):
        assert tuple(np.flatnonzero(of_task.sum(axis=0))) == task.classes
        for client, held in enumerate(of_task):
            numbers = stream.number[LABELS[stream.indices(task.index, client)]]
            assert [np.count_nonzero(numbers == number) for number in range(100)] == held.tolist()


@pytest.mark.parametrize("width", [80, 200])
def test_the_table_has_a_row_per_task_and_client_whatever_the_width(width: int) -> None:
    stream = make_stream(LABELS, LABELS, SiBlurry(10), Dirichlet(5, 0.1), seed=0)
    lines = printed(stream, width)
    assert max(map(len, lines)) <= width
    assert "task  client  samples  classes  effective" in "\n".join(lines)
    rows = [line.split() for line in lines if line.strip() and line.split()[0].isdigit()]
    assert len(rows) == 10 + 10 * 5
    assert [row[:3] for row in rows[:2]] == [["1", "all", "200"], ["0", "40", rows[1][2]]]


def test_the_table_names_the_largest_classes() -> None:
    stream = make_stream(LABELS, LABELS, Disjoint(50), Shards(2, 1), seed=0)
    first = [stream.order[number] for number in (0, 1)]  # two classes per task, one per client
    lines = printed(stream, 120)
    assert any(line.split() == ["0", "20", "1", "1.0", f"name{first[0]}", "20"] for line in lines)
    assert any(line.split() == ["1", "20", "1", "1.0", f"name{first[1]}", "20"] for line in lines)
    assert "2 new, 0 known; 40 test samples" in "\n".join(lines)


def test_the_table_of_many_clients_is_cut() -> None:
    stream = make_stream(LABELS, LABELS, Disjoint(2), Shards(100, 1), seed=0)
    text = "\n".join(printed(stream, 120))
    assert text.count("80 more clients with 10 to 10 samples") == 2


@pytest.mark.parametrize(("tasks", "clients"), [(1, 1), (7, 3)])
def test_the_picture_shows_every_count_as_a_colour(tmp_path: Path, tasks: int, clients: int) -> None:
    labels = LABELS[:200]
    stream = make_stream(labels, labels, SiBlurry(tasks), Dirichlet(clients, 0.1), seed=0)
    counts = dense_counts(stream.counts, tasks, clients)
    save(picture(counts), tmp_path / "stream.png")
    pixels = (imread(tmp_path / "stream.png")[:, :, :3] * 255).round().astype(int) @ [1 << 16, 1 << 8, 1]
    shown = set(counts.ravel()) - {0}
    colours = colormaps["viridis_r"](LogNorm(1, max(10, *shown))(list(shown)), bytes=True)[:, :3].astype(int)
    assert set(colours @ [1 << 16, 1 << 8, 1]) <= set(pixels.ravel())


def test_the_picture_names_its_axes(tmp_path: Path) -> None:
    stream = make_stream(LABELS, LABELS, SiBlurry(5), Shards(2), seed=0)
    save(picture(dense_counts(stream.counts, 5, 2)), tmp_path / "stream.svg")
    text = (tmp_path / "stream.svg").read_text()
    for label in (
        "client",
        "class, in order of registration",
        "training samples (log scale)",
        *(f"task {task.index + 1}: {len(task.new)} new, {len(task.known)} known" for task in stream.tasks),
    ):
        assert label in text


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("x.bad", "Expected a picture name ending in .png, .svg, .pdf, but got x.bad."),
        ("x", "Expected a picture name ending in .png, .svg, .pdf, but got x."),
        ("file/x.png", "Cannot write the picture file/x.png: Not a directory; set --out to a file in another folder."),
        ("folder.svg", "Cannot write the picture folder.svg: Is a directory; set --out to a file in another folder."),
    ],
)
def test_a_bad_file_name_is_refused_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("folder.svg").mkdir()
    refused = command("stream", "dataset=no_such_data_set", "--out", name)
    assert (refused.code, refused.out, refused.err) == (2, "", f"fcl_bench: {reason}\n")
    assert sorted(os.listdir()) == ["file", "folder.svg"]


def test_a_good_file_name_changes_nothing_until_the_picture_is_written(tmp_path: Path) -> None:
    there = tmp_path / "there.png"
    there.write_text("as before")
    check_picture(there)
    check_picture(tmp_path / "folder" / "of" / "folders" / "new.png")
    assert os.listdir(tmp_path) == ["there.png"]
    assert there.read_text() == "as before"
