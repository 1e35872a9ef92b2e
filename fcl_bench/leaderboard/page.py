"""The leaderboard as one HTML file that needs neither a server nor a network: tables, plots, and every run behind them.

The parts of the page are in ``web/``. Data and plotting library are embedded compressed; the browser unpacks them.
"""

import base64
import gzip
import json
from collections.abc import Sequence
from importlib.resources import files
from string import Template

from plotly.offline import get_plotlyjs

from fcl_bench.leaderboard.boards import Board
from fcl_bench.leaderboard.page_data import page_data

SCRIPTS = (  # in this order: each may use names of those before it at once, of all others when it is called
    "values.js",
    "elements.js",
    "data.js",
    "looks.js",
    "figures.js",
    "scatters.js",
    "streams.js",
    "table.js",
    "curves.js",
    "details.js",
    "print.js",
    "start.js",
)


def page(boards: Sequence[Board]) -> str:
    """The whole HTML text."""
    data = json.dumps(page_data(boards), separators=(",", ":"), allow_nan=False)
    return Template(_part("page.html")).substitute(
        css=_part("page.css"),
        js="\n".join(map(_part, SCRIPTS)),
        data=packed(data),
        plotly=packed(get_plotlyjs()),
    )


def packed(text: str) -> str:
    """Compressed, in letters that mean nothing in HTML, whatever the text says."""
    compressed = gzip.compress(text.encode(), mtime=0)
    return base64.b64encode(compressed).decode()


def _part(name: str) -> str:
    return (files("fcl_bench.leaderboard") / "web" / name).read_text(encoding="utf-8")
