"""The option of ``pytest --pyargs fcl_bench.checks --method=NAME``. Every pytest run loads it: it imports nothing."""

from typing import Any


def pytest_addoption(parser: Any) -> None:
    """Name the methods to check; all of them by default."""
    parser.getgroup("fcl_bench").addoption(
        "--method",
        action="append",
        metavar="NAME",
        help="method whose contract fcl_bench.checks verifies; may be repeated",
    )
