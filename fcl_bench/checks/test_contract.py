"""``pytest --pyargs fcl_bench.checks --method=NAME``: every check, for every method asked for."""

from typing import Any

from fcl_bench.checks import run_check
from fcl_bench.checks.rules import Check
from fcl_bench.checks.variants import Words, checks_of, sandbox, variants
from fcl_bench.config.catalogue import catalogue


def pytest_generate_tests(metafunc: Any) -> None:
    """Called by pytest; all methods are checked if none is asked for."""
    names = metafunc.config.getoption("--method") or sorted(catalogue()["method"])
    cases = [(words, track, check) for name in names for words in variants(name) for track, check in checks_of(words)]
    ids = [f"{' '.join(words)}-{track}-{check.__name__.removeprefix('check_')}" for words, track, check in cases]
    metafunc.parametrize(("words", "track", "check"), cases, ids=ids)


def test_contract(words: Words, track: str, check: Check) -> None:
    """One check of one configured method on one track."""
    run_check(check, sandbox(words, track, check))
