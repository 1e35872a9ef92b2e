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


def page(boards: Sequence[Board]) -> str:
    """The whole HTML text."""
    web = files("fcl_bench.leaderboard") / "web"
    html, css, js = ((web / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js"))
    data = json.dumps(page_data(boards), separators=(",", ":"), allow_nan=False)
    return Template(html).substitute(css=css, js=js, data=packed(data), plotly=packed(get_plotlyjs()))


def packed(text: str) -> str:
    """Compressed, in letters that mean nothing in HTML, whatever the text says."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
