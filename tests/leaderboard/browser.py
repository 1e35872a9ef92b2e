"""A real browser that opens a page, uses it, and tells what is on it."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from fcl_bench.leaderboard.boards import Board, Row

WAIT = 20.0  # seconds, for a busy machine
SWITCHES = (
    "--headless=new",
    "--no-first-run",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,1000",
)


class Browser:
    """Chromium with the page open from disk."""

    def __init__(self, driver: Any, path: Path):
        self.driver = driver
        self.address = path.as_uri()

    def load(self) -> "Browser":
        """Open the page with nothing chosen."""
        self.driver.get("about:blank")
        self.driver.get(self.address)
        return self.until("return document.documentElement.dataset.ready !== undefined")

    def follow(self, board: Board, row: Row | None = None) -> "Browser":
        """Follow a link to a board, or to the details of a row."""
        wanted = {"board": board.heading}
        if row is not None:
            wanted["method"] = row.name
        self.driver.get(f"{self.address}#{urlencode(wanted)}")
        shown = "return [document.getElementById('heading').textContent, document.getElementById('name')?.textContent]"
        return self.until(f"{shown}.join() === arguments[0]", f"{board.heading},{row.name if row else ''}")

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that a script returns."""
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, *arguments: Any) -> "Browser":
        """Wait for a script to return something true."""
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

    def media(self, kind: str = "", **features: str) -> None:
        """Show the page as on paper (``kind="print"``), or as a system with other wishes would."""
        wanted = [{"name": f"prefers-{name.replace('_', '-')}", "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": wanted})

    def check_quiet(self) -> None:
        """Nothing has gone wrong, and nothing was loaded from outside the file."""
        assert [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"] == []
        loaded = self.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
        assert [name for name in loaded if not name.startswith(("data:", "blob:"))] == []


@contextmanager
def open_chromium(profile: Path) -> Iterator[Any]:
    """A driver of Chromium; the test is skipped where there is none."""
    chromium = shutil.which("chromium")
    driver_program = shutil.which("chromedriver")
    if chromium is None or driver_program is None:
        pytest.skip("chromium and chromedriver are not on this machine")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for switch in (f"--user-data-dir={profile}", *SWITCHES):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_program))
    yield driver
    driver.quit()
