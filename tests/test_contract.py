"""Every method of ``configs/method/`` against the contract; a new YAML is checked without a line added here."""

from fcl_bench.checks import pytest_generate_tests, test_contract

__all__ = ["pytest_generate_tests", "test_contract"]
