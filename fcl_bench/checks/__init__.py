"""The contract, executable: what every method must hold, whoever wrote it.

``check_method(make)`` in a test of your own, or ``pytest --pyargs fcl_bench.checks --method=NAME`` for a method whose
YAML Hydra can find. The rules are in :mod:`fcl_bench.checks.rules`; each runs the method in a sandbox, a tiny separable
stream. A method may list checks it is known to fail in its class attribute ``known_failures``, with the reason; a
listed check must then really fail.
"""

from fcl_bench.checks.rules import CHECKS, Check, check_import_has_no_side_effects
from fcl_bench.checks.sandbox import Make, Sandbox
from fcl_bench.checks.variants import configured
from fcl_bench.method import facts

__all__ = ["CHECKS", "Make", "Sandbox", "check_method", "configured", "run_check"]


def check_method(make: Make) -> None:
    """Every check on the method that ``make(backbone)`` builds; on images too, unless it needs a frozen backbone."""
    frozen = Sandbox(make)
    for check in (*CHECKS, check_import_has_no_side_effects):
        run_check(check, frozen)
    if not facts(frozen.method())["needs_frozen_backbone"]:
        end_to_end = Sandbox(make, trainable=True)
        for check in CHECKS:
            run_check(check, end_to_end)


def run_check(check: Check, sandbox: Sandbox) -> None:
    """One check; a known failure must fail."""
    reason = getattr(type(sandbox.method()), "known_failures", {}).get(check.__name__)
    if reason is None:
        check(sandbox)
        return
    try:
        check(sandbox)
    except Exception:
        return
    raise AssertionError(f"{check.__name__} passes, but known_failures says: {reason}")
