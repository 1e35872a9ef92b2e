"""The page of the leaderboard: its data against hand-made records, and a real browser that reads and uses it."""

import base64
import gzip
import itertools
import json
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from fcl_bench.leaderboard import page_streams
from fcl_bench.leaderboard.boards import Board, Row, boards
from fcl_bench.leaderboard.columns import COLUMNS, SHOWN
from fcl_bench.leaderboard.page import page
from fcl_bench.leaderboard.page_data import CURVES, marks, page_data
from fcl_bench.leaderboard.page_streams import pictures
from fcl_bench.leaderboard.render import cells
from fcl_bench.leaderboard.runs import gather

NASTY = "<script>alert(1)</script><b>&amp;"
FACTS = {"exact": False, "exemplar_free": True, "needs_frozen_backbone": False, "oracle": False}
WAIT = 20.0  # seconds, for a busy machine


def record(method: str, seed: int, tasks: int = 3, facts: dict[str, bool] | None = None, **settings: Any) -> dict:
    """A whole ``result.json``, of numbers that chance gives."""
    rng = np.random.default_rng([seed, tasks, *method.encode(), *json.dumps(settings).encode()])
    curves = {name: rng.uniform(0, 100, tasks).tolist() for name in COLUMNS}
    curves["retention"][0] = None
    metrics = {name: curve[-1] for name, curve in curves.items()} | {"uplink_bytes": int(rng.integers(1, 10**9))}
    stream = {"name": "si_blurry", "tasks": tasks, "partition": "dirichlet", "clients": 4, "alpha": 0.1}
    return {
        **{"schema": 1, "status": "complete", "run_id": f"seed{seed}-{method}", "seed": seed, "method": method},
        **{
            "dataset": "digits",
            "backbone": "none",
            "protocol": None,
            "track": "frozen",
            "facts": FACTS | (facts or {}),
        },
        **{"stream": {**stream, "seed": seed, "hash": f"hash-{tasks}-{seed}"}, "metrics": metrics, "curves": curves},
        "matrix": rng.uniform(0, 100, (tasks, tasks)).tolist(),
        "environment": {"torch": "2.9.1", "python": "3.11.7", "git_commit": "c0ffee" * 6},
        "config": {
            **{"seed": seed, "limit_train": None, "limit_test": None, "dataset": {"name": "digits"}},
            **{"backbone": {"name": "none", "seed": seed}, "federation": {"dropout": 0.0}},
            "method": {"_target_": f"fcl_bench.methods.{method}.M", "rate": 0.5, **settings},
        },
        "command": f"python -m fcl_bench method={method} seed={seed}",
        "inputs": "abc123",
    }


def manifest(result: dict, clients: int = 4, classes: int = 6) -> dict:
    """The parts of ``stream.json`` that the page reads."""
    tasks, rng = result["stream"]["tasks"], np.random.default_rng(result["seed"])
    shares = [share for share in np.ndindex(tasks, clients, classes) if rng.uniform() < 0.4]
    counts = [[*map(int, share), int(rng.integers(1, 500))] for share in rng.permutation(shares)]
    return {"hash": result["stream"]["hash"], "sizes": [[1] * clients] * tasks, "counts": counts}


def write(folder: Path, result: dict, stream: dict | None = None) -> None:
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))
    if stream is not None:
        (folder / "stream.json").write_text(json.dumps(stream))


def made(folder: Path) -> tuple[Board, ...]:
    found = gather([folder])
    assert not found.problems
    return boards(found.runs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board of six rows with streams, and a smaller one without."""
    place = tmp_path_factory.mktemp("some records")
    exact, oracle = {"exact": True}, {"exact": True, "oracle": True, "exemplar_free": False}
    for seed in (1, 2, 3):
        some = [record("afcl", seed, facts=exact), record("joint", seed, facts=oracle), record("fedncm", seed)]
        some += [record("finetune", seed), record("finetune", seed, note=NASTY)]
        for number, result in enumerate(some):
            clients = {(1, 3): 4, (2, 0): 60}.get((seed, number))
            write(place / f"{seed}-{number}", result, manifest(result, clients) if clients else None)
    write(place / "single", record("derpp", 1, facts={"exemplar_free": False}))
    for seed, method in itertools.product((1, 2), ("afcl", "fedncm")):
        write(place / f"{method}-{seed}", record(method, seed, tasks=2))
    return place


@pytest.fixture(scope="module")
def found(folder: Path) -> tuple[Board, ...]:
    return made(folder)


@pytest.fixture(scope="module")
def large(found: tuple[Board, ...]) -> Board:
    (board,) = (board for board in found if len(board.rows) == 6)
    return board


def row_of(board: Board, method: str) -> Row:
    return next(row for row in board.rows if row.name.split()[0] == method)


# The data


def test_texts_are_those_of_the_tables(found: tuple[Board, ...]) -> None:
    data = page_data(found)
    for board, shown in zip(found, data["boards"], strict=True):
        order = [board.sort, *(name for name in COLUMNS if name != board.sort)]
        for line, row in zip(cells(board, tuple(COLUMNS))[1:], shown["rows"], strict=True):
            texts = dict(zip(COLUMNS, row["texts"], strict=True))
            intervals = dict(zip(COLUMNS, row["intervals"], strict=True))
            assert [line[2], *line[5:-1]] == [texts[name] for name in order]
            assert line[3] == intervals[board.sort]
            assert line[4] == ("best" if row["name"] == shown["best"] else row["p"])


def test_curves_and_matrices_keep_six_digits(found: tuple[Board, ...]) -> None:
    for board, shown in zip(found, page_data(found)["boards"], strict=True):
        for row, drawn in zip(board.rows, shown["rows"], strict=True):
            for run, line in zip(row.runs, drawn["runs"], strict=True):
                np.testing.assert_allclose(line["matrix"], run.result["matrix"], rtol=5e-6)
                for name, curve in zip(CURVES, line["curves"], strict=True):
                    expected = np.array(run.result["curves"][name], dtype=float)
                    np.testing.assert_allclose(np.array(curve, dtype=float), expected, rtol=5e-6)
                    assert all(len(str(value).replace(".", "")) <= 7 for value in curve if value is not None)


def test_settings_that_runs_share_are_stored_once(found: tuple[Board, ...]) -> None:
    runs = [run for board in found for row in board.rows for run in row.runs]
    parts = {json.dumps({key: value}) for run in runs for key, value in run.result["config"].items()}
    data = page_data(found)
    assert len(data["pool"]) == len(set(data["pool"])) == len(parts) + 1  # and one environment
    drawn = [run for board in data["boards"] for row in board["rows"] for run in row["runs"]]
    lines = [sorted("\n".join(data["pool"][part] for part in run["config"]).splitlines()) for run in drawn]
    assert all(
        f"seed={run['seed']}" in text and f"backbone.seed={run['seed']}" in text
        for run, text in zip(drawn, lines, strict=True)
    )
    assert sum(f"method.note={NASTY}" in text for text in lines) == 3
    assert data["pool"][drawn[0]["environment"]].splitlines()[0] == "torch=2.9.1"


def test_best_and_second_are_marked_as_shown_and_without_oracles(tmp_path: Path) -> None:
    values = {"a": (60.004, 5), "b": (60.001, 5), "c": (50.0, 5), "d": (40.0, 5), "joint": (99.0, 1)}
    for method, (accuracy, forgetting) in values.items():
        result = record(method, 1, facts={"oracle": method == "joint"})
        result["metrics"] |= {"average_accuracy": accuracy, "forgetting": forgetting, "retention": None}
        result["metrics"] |= {"runtime_seconds": {"a": 3.0, "b": 1.0, "c": 2.0}.get(method, 9.0)}
        write(tmp_path / method, result)
    (board,) = made(tmp_path)
    found = marks(board)
    assert found["average_accuracy"] == {"a": 1, "b": 1, "c": 2}  # 60.00 twice
    assert found["runtime_seconds"] == {"b": 1, "c": 2}
    assert found["forgetting"] == found["retention"] == {}  # all equal, none defined


def test_streams_come_from_any_record_of_the_same_hash(found: tuple[Board, ...], large: Board) -> None:
    drawn = pictures(found)
    missing = "stream.json is not beside the record"
    assert {key: value for key, value in drawn.items() if isinstance(value, str)} == dict.fromkeys(
        ("hash-3-3", "hash-2-1", "hash-2-2"), missing
    )
    for seed, clients in ((1, 4), (2, 60)):  # of a large federation the first 50
        expected = manifest(row_of(large, "afcl").runs[seed - 1].result, clients)["counts"]
        picture = drawn[f"hash-3-{seed}"]
        assert isinstance(picture, dict)
        assert unpacked(picture) == sorted(share for share in expected if share[1] < 50)
        numbers = [picture[key] for key in ("tasks", "clients", "shown", "classes")]
        assert numbers == [3, clients, min(clients, 50), 6]


def unpacked(picture: dict) -> list[list[int]]:
    cells = itertools.accumulate(picture["steps"])
    shape = (picture["tasks"], picture["shown"], picture["classes"])
    places = [[int(axis) for axis in np.unravel_index(cell, shape)] for cell in cells]
    return [[*place, count] for place, count in zip(places, picture["counts"], strict=True)]


@pytest.mark.parametrize("content", ["{}", "[", '{"hash": "hash-3-1", "sizes": [[1]], "counts": [[0, 0]]}', "[1]"])
def test_a_manifest_that_cannot_be_used_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    write(tmp_path / "one", record("afcl", 1))
    (tmp_path / "one" / "stream.json").write_text(content)
    assert list(pictures(made(tmp_path)).values()) == ["stream.json is not beside the record"]


def test_every_board_gets_a_picture_before_one_gets_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, tasks in itertools.product((1, 2), (2, 3)):
        result = record("afcl", seed, tasks)
        write(tmp_path / f"{seed}-{tasks}", result, manifest(result))
    first = len(manifest(record("afcl", 1, 2))["counts"])
    monkeypatch.setattr(page_streams, "MOST_SHARES", first + 1)
    reasons = {key: value for key, value in pictures(made(tmp_path)).items() if isinstance(value, str)}
    assert reasons == dict.fromkeys(("hash-2-2", "hash-3-2"), "the page would become too large")


def test_no_text_of_a_record_is_markup(found: tuple[Board, ...]) -> None:
    text = page(found)
    assert "alert(1)" not in text
    packed = re.search(r'id="data">([A-Za-z0-9+/=]+)</script>', text)
    assert packed
    data = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    assert f"finetune note={NASTY}" in {row["name"] for board in data["boards"] for row in board["rows"]}


def test_colours_are_far_apart_for_colour_blind_readers() -> None:
    script = (files("fcl_bench.leaderboard") / "web" / "page.js").read_text()
    grounds = {"light": "#ffffff", "dark": "#1b1f23"}
    for theme, ground in grounds.items():
        listed = re.search(rf'^  {theme}: \[("#[^\]]+)\]', script, re.MULTILINE)
        assert listed
        palette = [linear(colour) for colour in re.findall(r"#\w{6}", listed[1])]
        assert len(palette) == 8
        assert all(contrast(colour, linear(ground)) >= 3 for colour in palette)
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
    parts = np.array([int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(colour: np.ndarray) -> np.ndarray:
    """CIELAB, in which distances are those of perception."""
    ratio = XYZ @ np.clip(colour, 0, 1) / XYZ.sum(axis=1)
    x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    low, high = sorted((XYZ[1] @ one, XYZ[1] @ other))
    return (high + 0.05) / (low + 0.05)


# The browser


class Browser:
    """Chromium with the page open from disk."""

    def __init__(self, driver: Any, path: Path):
        self.driver, self.address = driver, path.as_uri()

    def load(self) -> "Browser":
        """Anew, with nothing chosen."""
        self.driver.get("about:blank")
        self.driver.get(self.address)
        return self.until("return document.documentElement.dataset.ready !== undefined")

    def follow(self, board: Board, row: Row | None = None) -> "Browser":
        """A link to a board, or to the details of a row."""
        self.driver.get(f"{self.address}#{urlencode({'board': board.heading} | ({'method': row.name} if row else {}))}")
        shown = "return [document.getElementById('heading').textContent, document.getElementById('name')?.textContent]"
        return self.until(f"{shown}.join() === arguments[0]", f"{board.heading},{row.name if row else ''}")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, *arguments: Any) -> "Browser":
        end = time.monotonic() + WAIT
        while not self.run(script, *arguments):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.02)
        return self

    def choose(self, selector: str, value: str) -> None:
        """In a ``select``, or a text field."""
        self.run("document.querySelector(arguments[0]).value = arguments[1]", selector, value)
        for kind in ("input", "change"):
            self.run("document.querySelector(arguments[0])?.dispatchEvent(new Event(arguments[1]))", selector, kind)

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def texts(self, selector: str) -> list[str]:
        return self.run("return [...document.querySelectorAll(arguments[0])].map(n => n.innerText.trim())", selector)

    def methods(self) -> list[str]:
        """The rows in their order, by name and settings."""
        return [" ".join(text.removesuffix("reference").split()) for text in self.texts("#table .name")]

    def type(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def focused(self) -> str:
        return self.run("return document.activeElement.innerText ?? ''").strip()

    def traces(self, selector: str) -> list[dict]:
        """What plotly has drawn into a figure, brought into sight first."""
        self.run("document.querySelector(arguments[0]).scrollIntoView()", selector)
        self.until("return document.querySelector(arguments[0] + ' .js-plotly-plot .main-svg') !== null", selector)
        return self.run(
            "return JSON.parse(JSON.stringify(document.querySelector(arguments[0] + ' .plot').data))", selector
        )

    def resize(self, width: int, height: int = 900) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@pytest.fixture(scope="module")
def browser(found: tuple[Board, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if not all(programs):
        pytest.skip("chromium and chromedriver are not on this machine")
    webdriver = pytest.importorskip("selenium.webdriver")
    place = tmp_path_factory.mktemp("page")
    path = place / "leader board.html"
    path.write_text(page(found), encoding="utf-8")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    quiet = ("first-run", "sandbox"), ("gpu", "background-networking", "component-update", "sync")
    switches = [*(f"--no-{name}" for name in quiet[0]), *(f"--disable-{name}" for name in quiet[1])]
    for switch in ("--headless=new", f"--user-data-dir={place / 'profile'}", "--window-size=1400,1000", *switches):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(programs[1]))
    yield Browser(driver, path)
    driver.quit()


@pytest.fixture
def opened(browser: Browser, large: Board) -> Iterator[Browser]:
    """The page at its larger board, wide; afterwards nothing may have gone wrong or have left the file."""
    browser.resize(1400, 500)  # low: plots are drawn once they are scrolled to
    yield browser.load().follow(large)
    assert [entry for entry in browser.driver.get_log("browser") if entry["level"] == "SEVERE"] == []
    loaded = browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name for name in loaded if not name.startswith(("data:", "blob:"))] == []


def names(rows: Sequence[Row]) -> list[str]:
    return [row.name for row in rows]


def by_mean(board: Board, metric: str, sign: int) -> list[str]:
    means = {row.name: row.scores[metric].mean for row in board.rows}
    return sorted(names(board.rows), key=lambda name: (means[name] is None, sign * (means[name] or 0)))


def test_the_table_has_the_cells_of_the_terminal(opened: Browser, large: Board) -> None:
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


def test_best_is_bold_and_second_underlined(opened: Browser, large: Board) -> None:
    found = marks(large)
    for metric, column in (("average_accuracy", 3), ("forgetting", 9)):
        assert sorted(found[metric].values()) == [1, 2]
        for tag, rank in (("b", 1), ("u", 2)):
            marked = opened.texts(f"#table tbody tr:has(td:nth-child({column}) > {tag}) .name")
            assert [" ".join(name.split()) for name in marked] == [
                name for name in names(large.rows) if found[metric].get(name) == rank
            ]


def test_a_heading_sorts_as_python_does(opened: Browser, large: Board) -> None:
    told = "return [...document.querySelectorAll('[aria-sort]')].map(head => [head.innerText, head.ariaSort])"
    for metric in ("plasticity", "forgetting", "uplink_bytes"):
        title, sign = COLUMNS[metric].title, 1 if COLUMNS[metric].lower_is_better else -1
        number = 1 + opened.texts("#table thead th").index(title)
        for way in (sign, -sign):
            opened.click(f"#table thead th:nth-child({number}) button")
            assert opened.methods() == by_mean(large, metric, way)
            assert opened.run(told) == [[title, "ascending" if way > 0 else "descending"]]


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
    assert labels == ["exact", "no exemplars"]
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
    listed = opened.texts("#beside select:first-of-type option")
    opened.choose("#beside select", str(listed.index("derpp") - 1))
    opened.traces("#curves figure")
    drawn = "document.querySelector('#curves .plot').data.filter(trace => trace.name === arguments[0])"
    named = f"return {drawn}.length === arguments[1]"
    opened.until(named, "derpp", 1)
    opened.choose("#beside select:last-of-type", "lines")
    opened.until(named, "fedncm", 3)
    (first, *_) = (trace for trace in opened.traces("#curves figure") if trace["name"] == "fedncm")
    curve = row_of(large, "fedncm").runs[0].result["curves"]["average_accuracy"]
    np.testing.assert_allclose(first["y"], curve, rtol=1e-5)
    opened.click("#beside button[aria-label='Remove derpp']")
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


def test_every_run_is_told_whole(opened: Browser, large: Board) -> None:
    row = next(row for row in large.rows if NASTY in row.name)
    opened.follow(large, row)
    assert opened.texts("#name") == [row.name]
    opened.run("document.querySelectorAll('.run').forEach(run => { run.open = true; })")
    assert opened.texts(".command") == [run.result["command"] for run in row.runs]
    for run, told in zip(row.runs, opened.texts(".run"), strict=True):
        result = run.result
        for text in (result["run_id"], result["stream"]["hash"], result["inputs"], result["environment"]["git_commit"]):
            assert text in told
        lines = told.splitlines()
        assert {f"method.note={NASTY}", "method.rate=0.5", f"backbone.seed={run.result['seed']}", "torch=2.9.1"} <= {
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
    sentence = "The picture is not available because stream.json is not beside the record."
    assert opened.texts("#picture") == [sentence]


def test_boards_are_chosen_and_linked(opened: Browser, found: tuple[Board, ...], large: Board) -> None:
    (small,) = (board for board in found if board is not large)
    assert opened.texts("#board option") == [board.heading for board in found]
    opened.choose("#board", str(found.index(small)))
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
    theme, ground = (
        "return document.documentElement.dataset.theme",
        "return getComputedStyle(document.body).backgroundColor",
    )

    def system(scheme: str) -> None:
        wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        opened.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)

    system("light")
    opened.until(f"{theme} === 'light'")
    system("dark")
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
