"""The page of the leaderboard in a real browser, which reads and uses it."""

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser, open_chromium
from page_samples import NASTY, manifest, read_boards, row_of, sample, write_samples
from records import made, record, views, write

from fcl_bench.leaderboard.boards import Board, Row
from fcl_bench.leaderboard.columns import COLUMNS, SHOWN
from fcl_bench.leaderboard.page import page
from fcl_bench.leaderboard.page_data import CURVES, marks
from fcl_bench.leaderboard.protocols import protocol_sentences
from fcl_bench.leaderboard.render import cells
from fcl_bench.leaderboard.statements import statements


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Board, ...]:
    folder = tmp_path_factory.mktemp("some records")
    write_samples(folder)
    return read_boards(folder)


@pytest.fixture(scope="module")
def large(boards: tuple[Board, ...]) -> Board:
    (board,) = (board for board in boards if len(board.rows) == 6)
    return board


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with open_chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="module")
def browser(driver: Any, boards: tuple[Board, ...], tmp_path_factory: pytest.TempPathFactory) -> Browser:
    path = tmp_path_factory.mktemp("page") / "leader board.html"
    path.write_text(page(boards), encoding="utf-8")
    return Browser(driver, path)


@pytest.fixture
def opened(browser: Browser, large: Board) -> Iterator[Browser]:
    """The page at its larger board, wide."""
    browser.resize(1400, 500)  # low: plots are drawn once they are scrolled to
    yield browser.load().follow(large)
    browser.check_quiet()


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Board:
    """Eight methods with names of 19 letters; the first has no curve of retention."""
    folder = tmp_path_factory.mktemp("eight records")
    for number in range(8):
        write(folder / str(number), sample(f"prototypes_replay_{number}", 1))
    (board,) = read_boards(folder)
    del row_of(board, "prototypes_replay_0").runs[0].result["curves"]["retention"]
    return board


@pytest.fixture(scope="module")
def page_of_eight(eight: Board, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "eight.html"
    path.write_text(page([eight]), encoding="utf-8")
    return path


@pytest.fixture
def opened_eight(driver: Any, page_of_eight: Path) -> Iterator[Browser]:
    browser = Browser(driver, page_of_eight)
    browser.resize(1400, 500)
    yield browser.load()
    browser.media()
    browser.check_quiet()


def names(rows: Sequence[Row]) -> list[str]:
    return [row.name for row in rows]


def by_mean(board: Board, metric: str, sign: int) -> list[str]:
    means = {row.name: row.scores[metric].mean for row in board.rows}
    return sorted(names(board.rows), key=lambda name: (means[name] is None, sign * (means[name] or 0)))


def test_the_table_has_the_cells_of_the_terminal(opened: Browser, large: Board) -> None:
    assert opened.texts("#summary") == ["2 boards · 5 methods · 20 runs"]
    assert opened.methods() == names(large.rows)
    assert opened.texts("#table thead th")[0] == "method"
    heads = opened.texts("#table thead th")
    assert heads == [
        "method",
        "seeds",
        "average (%)",
        "p (Holm)",
        *(COLUMNS[name].title for name in SHOWN[1:]),
        "facts",
    ]
    for number, line in enumerate(cells(large)[1:], start=1):
        shown = opened.texts(f"#table tbody tr:nth-child({number}) td")
        assert shown[0] == line[1]
        assert shown[1].split("\n") == [line[2], line[3]]
        assert shown[2] == line[4]
        assert [text.split("\n")[0] for text in shown[3:-1]] == line[5:-1]
        assert shown[-1].split() == line[-1].replace(",", "").split()
    assert opened.run("return document.querySelectorAll('#table tbody script, #table tbody b b').length") == 0


def test_the_page_says_what_protocols_differ_in_and_what_each_table_says(driver: Any, tmp_path: Path) -> None:
    settings = {"name": "tuned", "trials": 16, "hyperparameters": ["lr"]}
    second = [record("afcl", seed, protocol="frozen_v2", config__settings=settings) for seed in (1, 2)]
    boards = made(record(protocol="frozen_v1"), *second, record("fedncm", 1, 60.0, protocol="frozen_v2"))
    (tmp_path / "page.html").write_text(page(boards), encoding="utf-8")
    browser = Browser(driver, tmp_path / "page.html")
    browser.resize(1400)
    browser.load()
    assert browser.texts("#protocols li") == protocol_sentences(boards)
    for board in boards:
        browser.follow(board)
        assert browser.texts("#statements li") == statements(board) != []
    assert browser.texts("#table tbody td:nth-child(2)") == ["1 of 5", "2 of 5"]
    assert browser.methods() == ["fedncm", "afcl tuned"]
    place = 1 + browser.texts("#table thead th").index("tuned")
    assert browser.texts(f"#table tbody td:nth-child({place})") == ["not recorded", "1 in 16 trials"]
    browser.check_quiet()


def test_a_page_of_one_protocol_says_nothing_of_others(opened: Browser) -> None:
    assert opened.run("return document.getElementById('protocols').hidden")
    assert "tuned" not in opened.texts("#table thead th")


def test_best_is_bold_and_second_underlined(opened: Browser, large: Board) -> None:
    for metric, column in (("average_accuracy", 3), ("forgetting", 9)):
        marked_rows = marks(large, metric)
        assert sorted(marked_rows.values()) == [1, 2]
        for tag, rank in (("b", 1), ("u", 2)):
            marked = opened.texts(f"#table tbody tr:has(td:nth-child({column}) > {tag}) .name")
            assert [" ".join(name.split()) for name in marked] == [
                name for name in names(large.rows) if marked_rows.get(name) == rank
            ]


def test_a_heading_sorts_as_python_does(opened: Browser, large: Board) -> None:
    sorted_by = "return [...document.querySelectorAll('[aria-sort]')].map(head => [head.innerText, head.ariaSort])"
    for metric in ("plasticity", "forgetting", "uplink_bytes"):
        title, sign = COLUMNS[metric].title, 1 if COLUMNS[metric].lower_is_better else -1
        number = 1 + opened.texts("#table thead th").index(title)
        for way in (sign, -sign):
            opened.click(f"#table thead th:nth-child({number}) button")
            assert opened.methods() == by_mean(large, metric, way)
            assert opened.run(sorted_by) == [[title, "ascending" if way > 0 else "descending"]]


def test_filters_leave_the_right_rows(opened: Browser, large: Board) -> None:
    def typed(text: str) -> list[str]:
        opened.choose("#search", text)
        return opened.methods()

    assert typed("FED") == [name for name in names(large.rows) if "fed" in name]
    assert typed("finetune alert") == [f"finetune note={NASTY}"]
    assert opened.texts("#count") == ["1 of 6 rows"]
    assert typed("nothing") == []
    typed("")
    labels = opened.texts("#facts label")
    assert labels == ["exact", "stores no samples"]
    opened.click("#facts label:nth-of-type(1) input")
    assert set(opened.methods()) == {"afcl", "joint"}
    opened.click("#oracles")
    assert opened.methods() == ["afcl"]
    opened.click("#facts label:nth-of-type(1) input")
    opened.click("#facts label:nth-of-type(2) input")
    assert set(opened.methods()) == {name for name in names(large.rows) if name not in ("joint", "derpp")}


def test_columns_are_chosen(opened: Browser, large: Board) -> None:
    hidden = [key for key in COLUMNS if key not in SHOWN]
    fixed = opened.run("return [...document.querySelectorAll('#columns :disabled')].map(n => n.parentNode.textContent)")
    assert fixed == [COLUMNS[large.sort].title]
    for key in (hidden[0], "forgetting"):
        opened.click(f"#columns label:nth-of-type({1 + list(COLUMNS).index(key)}) input")
    heads = opened.texts("#table thead th")
    assert COLUMNS[hidden[0]].title in heads
    assert "forgetting" not in heads
    place = heads.index(COLUMNS[hidden[0]].title) + 1
    expected = [line[5] for line in cells(large, (hidden[0],))[1:]]
    assert [text.split("\n")[0] for text in opened.texts(f"#table tbody td:nth-child({place})")] == expected


def test_details_draw_the_curves_of_the_record(opened: Browser, large: Board) -> None:
    row, best = row_of(large, "fedncm"), large.ranked[0]
    best = best if best is not row else large.ranked[1]
    opened.follow(large, row)
    for number, name in enumerate(CURVES, start=1):
        traces = {
            trace["name"]: trace for trace in opened.traces(f"#curves figure:nth-child({number})") if "name" in trace
        }
        assert [shown.replace("&lt;", "<")[:8] for shown in traces] == [best.name[:8], row.name]
        per_seed = np.array([run.result["curves"][name] for run in row.runs], dtype=float)
        drawn = traces[row.name]
        assert drawn["x"] == [1, 2, 3]
        np.testing.assert_allclose(np.array(drawn["y"], dtype=float), per_seed.mean(axis=0), rtol=1e-5)
        deviation = np.nan_to_num(per_seed.std(axis=0, ddof=1))
        np.testing.assert_allclose(drawn["customdata"], deviation, rtol=1e-3, atol=1e-4)


def test_other_methods_and_seeds_can_be_drawn(opened: Browser, large: Board) -> None:
    opened.follow(large, row_of(large, "fedncm"))
    listed = opened.texts("#compared select:first-of-type option")
    opened.choose("#compared select", str(listed.index("derpp") - 1))
    opened.traces("#curves figure")
    drawn = "document.querySelector('#curves .plot').data.filter(trace => trace.name === arguments[0])"
    named = f"return {drawn}.length === arguments[1]"
    opened.until(named, "derpp", 1)
    opened.choose("#compared select:last-of-type", "lines")
    opened.until(named, "fedncm", 3)
    (first, *_) = (trace for trace in opened.traces("#curves figure") if trace["name"] == "fedncm")
    curve = row_of(large, "fedncm").runs[0].result["curves"]["average_accuracy"]
    np.testing.assert_allclose(first["y"], curve, rtol=1e-5)
    opened.click("#compared button[aria-label='Remove derpp']")
    opened.until(named, "derpp", 0)


def test_the_heat_map_is_the_matrix(opened: Browser, large: Board) -> None:
    row = row_of(large, "finetune")
    opened.follow(large, row)
    matrices = np.array([run.result["matrix"] for run in row.runs])
    (drawn,) = opened.traces("#details figure.tall")
    np.testing.assert_allclose(drawn["z"], matrices.mean(axis=0), rtol=1e-5)
    opened.choose("#matrix-seed", "1")
    same = "return Math.abs(document.querySelector('#details .tall .plot').data[0].z[2][0] - arguments[0]) < 1e-3"
    opened.until(same, matrices[1][2][0])
    np.testing.assert_allclose(opened.traces("#details figure.tall")[0]["z"], matrices[1], rtol=1e-5)


def test_curves_and_heat_map_can_be_drawn_in_another_view(driver: Any, tmp_path: Path) -> None:
    write(tmp_path / "new", sample("afcl", 1) | {"views": views(first_seen=1.2, present=1.5)})
    write(tmp_path / "old", sample("fedncm", 1))
    (board,) = read_boards(tmp_path)
    path = tmp_path / "page.html"
    path.write_text(page([board]), encoding="utf-8")
    browser = Browser(driver, path)
    browser.resize(1400, 500)
    row = row_of(board, "afcl")
    browser.load().follow(board, row)
    (drawn,) = browser.traces("#details figure.tall")
    np.testing.assert_allclose(drawn["z"], row.runs[0].result["matrix"], rtol=1e-5)
    assert {trace["name"] for trace in browser.traces("#curves figure")} == {"afcl", "fedncm"}
    browser.choose("#compared select[aria-label='Which tests tasks have']", "present")
    browser.until("return document.querySelector('#details .tall .plot').data[0].z[0][0] === 1.5")
    browser.until("return document.querySelector('#curves .plot').data.length === 1")  # the old record has no curve
    (curve,) = browser.traces("#curves figure")
    assert (curve["name"], curve["y"]) == ("afcl", [15, 30, 60])
    browser.check_quiet()


def test_every_run_is_shown_whole(opened: Browser, large: Board) -> None:
    row = next(row for row in large.rows if NASTY in row.name)
    opened.follow(large, row)
    assert opened.texts("#name") == [row.name]
    opened.run("document.querySelectorAll('.run').forEach(run => { run.open = true; })")
    assert opened.texts(".command") == [run.result["command"] for run in row.runs]
    for run, shown in zip(row.runs, opened.texts(".run"), strict=True):
        result = run.result
        for text in (result["run_id"], result["stream"]["hash"], result["inputs"], result["environment"]["git_commit"]):
            assert text in shown
        lines = shown.splitlines()
        assert {f"method.note={NASTY}", "method.lr=0.01", f"backbone.seed={run.result['seed']}", "torch=2.9"} <= {
            *lines
        }
    opened.click(".copy button")
    opened.until("return document.querySelector('.copy button').innerText === 'Copied'")
    values = opened.texts("#details tbody tr:first-child td")
    assert values[2:] == [f"{run.values['average_accuracy']:.2f}" for run in row.runs]


def test_a_single_seed_has_no_deviation(opened: Browser, large: Board) -> None:
    number = 1 + names(large.rows).index("derpp")
    shown = opened.texts(f"#table tbody tr:nth-child({number}) td")
    mean = row_of(large, "derpp").scores["average_accuracy"].mean
    assert shown[0] == "1"
    assert shown[1] == f"{mean:.2f} ± n/a\nn/a"
    assert shown[2] in ("n/a", "best")
    opened.follow(large, row_of(large, "derpp"))
    assert {"derpp"} <= {trace.get("name") for trace in opened.traces("#curves figure")}


def dominated(point: tuple[float, float], others: Sequence[tuple[float, float]]) -> bool:
    return any(x <= point[0] and y >= point[1] and (x, y) != point for x, y in others)


def test_scatter_plots_and_the_front_that_no_method_beats(opened: Browser, large: Board) -> None:
    def points(rows: Sequence[Row], across: tuple[str, ...], up: str) -> list[tuple[float, float]]:
        return [(sum(mean_of(row, name) for name in across), mean_of(row, up)) for row in rows]

    wanted = [
        (("uplink_bytes", "downlink_bytes"), "average_accuracy"),
        (("runtime_seconds",), "average_accuracy"),
        (("stability",), "plasticity"),
    ]
    for number, (across, up) in enumerate(wanted, start=1):
        front, drawn = opened.traces(f"#scatters figure:nth-child({number})")
        np.testing.assert_allclose(np.transpose([drawn["x"], drawn["y"]]), points(large.rows, across, up), rtol=1e-9)
        symbols = f"return document.querySelectorAll('#scatters figure:nth-child({number}) .point').length"
        assert opened.run(symbols) == len(large.rows)
        competing = points(large.ranked, across, up)
        best = sorted(one for one in competing if not dominated(one, competing)) if number < 3 else []
        np.testing.assert_allclose(list(zip(front["x"], front["y"], strict=True)), best, rtol=1e-9)
    name = drawn["customdata"][names(large.rows).index(f"finetune note={NASTY}")]
    assert name.startswith("finetune note=&lt;script>")


def mean_of(row: Row, metric: str) -> float:
    mean = row.scores[metric].mean
    assert mean is not None
    return mean * COLUMNS[metric].scale


def test_the_picture_of_the_stream_is_the_manifest(opened: Browser, large: Board) -> None:
    drawn, seen = opened.traces("#picture")
    counts = manifest(large.rows[0].runs[0].result)["counts"]
    expected = np.full((6, 3 * 5 - 1), np.nan)
    for task, client, label, samples in counts:
        expected[label, task * 5 + client] = samples
    np.testing.assert_allclose(10 ** np.array(drawn["z"], dtype=float), expected, rtol=1e-9)
    highest = [max(label for task, _, label, _ in counts if task <= now) + 0.5 for now in range(3)]
    assert seen["y"][::3] == highest
    opened.choose("#seed", "hash-3-2")
    assert "The first 50 of 60 clients are shown." in opened.texts("#stream-note")[0]
    assert len(opened.traces("#picture")[0]["z"][0]) == 3 * 51 - 1
    opened.choose("#seed", "hash-3-3")
    sentence = "The picture is not available because stream.json is not next to the record."
    assert opened.texts("#picture") == [sentence]


def test_boards_are_chosen_and_linked(opened: Browser, boards: tuple[Board, ...], large: Board) -> None:
    (small,) = (board for board in boards if board is not large)
    assert opened.texts("#board option") == [board.heading for board in boards]
    opened.choose("#board", str(boards.index(small)))
    opened.until("return document.getElementById('heading').textContent === arguments[0]", small.heading)
    assert opened.methods() == names(small.rows)
    opened.driver.back()
    opened.until("return document.getElementById('heading').textContent === arguments[0]", large.heading)
    opened.follow(small, small.rows[1])
    assert opened.texts("#name") == [small.rows[1].name]


def test_many_methods_and_settings_look_different(opened: Browser) -> None:
    looks = opened.run(
        "data.methods = [...Array(24).keys()].map(String);"
        "return data.methods.flatMap(method => [0, 1].map(variant => look({ method, variant, facts: [] })))"
    )
    assert len({(look["colour"], look["symbol"]) for look in looks[::2]}) == 24
    assert len({look["colour"] for look in looks[:16]}) == 8
    for one, other in zip(looks[::2], looks[1::2], strict=True):  # settings of one method
        assert one["colour"] == other["colour"]
        assert one["symbol"] != other["symbol"]
        assert one["dash"] != other["dash"]


def test_the_theme_is_that_of_the_system_until_it_is_chosen(opened: Browser, large: Board) -> None:
    theme = "return document.documentElement.dataset.theme"
    ground = "return getComputedStyle(document.body).backgroundColor"
    opened.media(color_scheme="light")
    opened.until(f"{theme} === 'light'")
    opened.media(color_scheme="dark")
    opened.until(f"{theme} === 'dark'")
    before = opened.traces("#scatters figure:first-child")[1]["marker"]["color"]
    night = opened.run(ground)
    opened.click("#theme")
    assert opened.run(theme) == "light"
    assert opened.run(ground) != night
    opened.until("return document.querySelector('#scatters .plot').data[1].marker.color[0] !== arguments[0]", before[0])
    opened.load()
    assert opened.run(theme) == "light"  # remembered
    opened.run("localStorage.clear()")


def test_a_phone_scrolls_the_table_only(opened: Browser, large: Board) -> None:
    fits = "return document.documentElement.scrollWidth <= window.innerWidth"
    opened.resize(390, 844)
    opened.load().follow(large)
    for number in (1, 2, 3):
        opened.traces(f"#scatters figure:nth-child({number})")
    opened.traces("#picture")
    opened.click("#columns summary")
    assert opened.run("return window.innerWidth") == 390
    assert opened.run(fits)
    assert opened.run("const t = document.getElementById('table'); return t.scrollWidth > t.clientWidth")
    opened.run("document.getElementById('table').scrollLeft = 200")
    left = "return document.querySelector('#table tbody th').getBoundingClientRect().left"
    assert opened.run(left) == pytest.approx(
        opened.run("return document.getElementById('table').getBoundingClientRect().left"), abs=2
    )
    opened.follow(large, large.rows[0])
    opened.traces("#curves figure")
    assert opened.run("const d = document.getElementById('details'); return d.scrollWidth <= d.clientWidth")
    assert opened.run(fits)


def test_everything_works_without_a_mouse(opened: Browser, large: Board) -> None:
    from selenium.webdriver.common.keys import Keys

    def tab_to(text: str) -> None:
        for _ in range(60):
            opened.type(Keys.TAB)
            if opened.focused().startswith(text):
                return
        raise AssertionError(f"Tab never reaches {text}")

    tab_to("Columns")
    opened.type(Keys.ENTER)
    assert opened.run("return document.getElementById('columns').open")
    opened.type(Keys.TAB)
    assert opened.focused() == ""  # the first column of the list that can be chosen
    opened.type(Keys.SPACE)
    opened.type(Keys.ESCAPE)
    assert not opened.run("return document.getElementById('columns').open")
    assert opened.focused() == "Columns"
    opened.run("document.activeElement.blur(); document.querySelector('.skip').focus()")
    assert opened.focused() == "Skip to the table"
    opened.type(Keys.ENTER)
    tab_to("plasticity (%)")
    opened.type(Keys.ENTER)
    assert opened.methods() == by_mean(large, "plasticity", -1)
    opened.type(Keys.SPACE)
    assert opened.methods() == by_mean(large, "plasticity", 1)
    tab_to("fedncm")
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert opened.run(outline) == "solid"
    opened.type(Keys.ENTER)
    opened.until("return document.getElementById('details').open")
    assert opened.texts("#name") == ["fedncm"]
    assert opened.run("return document.getElementById('details').contains(document.activeElement)")
    opened.type(Keys.ESCAPE)
    opened.until("return !document.getElementById('details').open")
    opened.until("return !location.hash.includes('method=')")
    assert opened.focused() == "fedncm"
    opened.type(Keys.SPACE)
    opened.until("return document.getElementById('details').open")


HIDDEN = """
const right = document.getElementById('table').getBoundingClientRect().right;
return [...document.querySelectorAll('#table thead th')].filter(h => h.getBoundingClientRect().right > right + 1).length
"""
SIDES = "return document.querySelector('.edges').dataset.more"
FADE = "return getComputedStyle(document.querySelector('.edges'), '::after').opacity === arguments[0]"


def test_a_table_that_is_cut_says_so_and_can_be_turned(opened: Browser) -> None:
    hidden = opened.run(HIDDEN)
    assert hidden > 0
    columns = "column" if hidden == 1 else "columns"
    assert opened.texts(".edges > .more") == [f"{hidden} more {columns} →"]
    assert opened.run(SIDES) == "right"
    opened.until(FADE, "1")
    opened.run("document.getElementById('table').scrollLeft = 9999")
    opened.until(f"{SIDES} === 'left'")
    opened.until(FADE, "0")
    assert opened.texts(".edges > .more") == ["← first columns"]
    opened.click(".edges > .more")
    opened.until(f"{SIDES} === 'right'")
    opened.until("return document.getElementById('table').scrollLeft === 0")
    opened.click(".edges > .more")
    opened.until(f"{SIDES}.includes('left')")
    opened.resize(2400)
    opened.until("return document.querySelector('.edges > .more').hidden")
    assert (opened.run(HIDDEN), opened.run(SIDES)) == (0, "")


def test_the_table_can_be_scrolled_by_keys(opened: Browser) -> None:
    from selenium.webdriver.common.keys import Keys

    area = "document.getElementById('table')"
    assert opened.run(f"return [{area}.tabIndex, {area}.role, {area}.ariaLabel]") == [0, "region", "Table of methods"]
    opened.run(f"{area}.focus()")
    opened.type(Keys.ARROW_RIGHT)
    opened.until(f"return {area}.scrollLeft > 0")


@pytest.mark.parametrize("width", [1400, 1000, 390])
def test_a_name_of_19_letters_is_whole_and_on_one_line(opened_eight: Browser, eight: Board, width: int) -> None:
    opened_eight.resize(width)
    opened_eight.run("document.getElementById('intervals').click()")
    assert opened_eight.texts(".name span") == names(eight.rows)
    shown = """
    const [first, ...others] = document.querySelectorAll('.name span');
    return [first, ...others].map(span => [span.scrollWidth <= span.clientWidth, span.offsetHeight])
    """
    (whole, height), *others = opened_eight.run(shown)
    assert whole
    assert height < 30
    assert others == [[True, height]] * 7


@pytest.mark.parametrize("width", [980, 718])  # of Letter in landscape and of A4 in portrait, within the margins
def test_paper_has_all_chosen_columns_and_no_controls(opened_eight: Browser, width: int) -> None:
    opened_eight.run("document.querySelectorAll('#columns input:not(:checked)').forEach(box => box.click())")
    opened_eight.resize(width)
    opened_eight.media("print")
    inside = """
    const [...cells] = document.querySelectorAll('#table th, #table td');
    const text = document.createRange();
    return cells.filter(cell => {
      text.selectNodeContents(cell);
      const box = text.getBoundingClientRect();
      return box.width > 0 && box.left >= 0 && box.right <= window.innerWidth;
    }).length
    """
    assert opened_eight.run(inside) == 9 * (len(COLUMNS) + 4)  # and method, seeds, p and facts
    assert opened_eight.run("return document.documentElement.scrollWidth <= window.innerWidth")
    controls = "return [...document.querySelectorAll('button, select, input')].filter(n => n.offsetParent).length"
    assert opened_eight.run(controls) == opened_eight.run("return document.querySelectorAll('.name').length")


def test_printing_draws_every_figure_in_light(opened_eight: Browser) -> None:
    opened_eight.media(color_scheme="dark")
    opened_eight.until("return document.documentElement.dataset.theme === 'dark'")
    opened_eight.run("plotly()")
    opened_eight.until("return window.Plotly !== undefined")
    opened_eight.driver.execute_cdp_cmd("Page.printToPDF", {})
    drawn = "return [...document.querySelectorAll('figure')].map(figure => 'drawn' in figure.dataset)"
    assert opened_eight.run(drawn) == [True] * 3
    opened_eight.until("return document.documentElement.dataset.theme === 'dark'")
    opened_eight.resize(1000)
    assert opened_eight.run("return document.querySelectorAll('.main-svg[viewBox]').length") == 0


def test_a_missing_curve_leaves_the_others(opened_eight: Browser, eight: Board) -> None:
    lacking = row_of(eight, "prototypes_replay_0")
    rival = next(row for row in eight.ranked if row is not lacking)
    opened_eight.follow(eight, lacking)
    for number, expected in ((1, [rival.name, lacking.name]), (2, [rival.name])):
        drawn = opened_eight.traces(f"#curves figure:nth-child({number})")
        assert [trace["name"] for trace in drawn] == expected


def test_colours_are_far_apart_for_colour_blind_readers(opened_eight: Browser) -> None:
    for theme in ("light", "dark"):
        opened_eight.media(color_scheme=theme)
        opened_eight.until(f"return document.documentElement.dataset.theme === '{theme}'")
        drawn = "return [...document.querySelectorAll('#table .dot')].map(dot => getComputedStyle(dot).fill)"
        palette = [linear(colour) for colour in opened_eight.run(drawn)]
        cell = "return getComputedStyle(document.querySelector('#table tbody th')).backgroundColor"
        ground = linear(opened_eight.run(cell))
        assert len(palette) == 8
        assert all(contrast(colour, ground) >= 3 for colour in palette)
        for vision in VISIONS.values():
            seen = [lab(vision @ colour) for colour in palette]
            assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(seen, 2)) > 15


VISIONS = {  # full deficiency, in linear RGB (Machado, Oliveira and Fernandes 2009)
    "normal": np.eye(3),
    "protan": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "deutan": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "tritan": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    """Light of the three colours of a screen, from ``rgb(R, G, B)``."""
    parts = np.array([int(part) / 255 for part in re.findall(r"\d+", colour)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(colour: np.ndarray) -> np.ndarray:
    """CIELAB, in which distances are those of perception."""
    ratio = XYZ @ np.clip(colour, 0, 1) / XYZ.sum(axis=1)
    x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    low, high = sorted((XYZ[1] @ one, XYZ[1] @ other))
    return (high + 0.05) / (low + 0.05)
