"""What the documentation says is run as it stands there."""

import re
from pathlib import Path

import pytest

from fcl_bench import check_method

ROOT = Path(__file__).parents[1]


def test_the_method_of_the_tutorial_holds_the_contract(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "adding-a-method.md").read_text(), re.DOTALL)
    (tmp_path / "nearest_mean.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    from nearest_mean import NearestMean

    check_method(NearestMean)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), f"{page.name} links to {target}"
