"""How far a record can be believed: its form, its digests, and whether its numbers follow from its own evidence."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from fcl_bench.errors import UserError
from fcl_bench.run.consistency import contradictions_in
from fcl_bench.run.content import check_form
from fcl_bench.run.digests import REMEDY, check_record
from fcl_bench.run.recomputed import contradictions_beside, has_predictions
from fcl_bench.run.result import Result

Trust = Literal[
    "no digest",
    "no digest; accuracies computed again from predictions",
    "digest",
    "digest; accuracies computed again from predictions",
]


def verified(result: Result, path: Path) -> Trust:
    """What a complete record could be held against; a :class:`UserError` names the first thing that does not fit."""
    has_digest = check_alone(result, path)
    _refuse(contradictions_beside(result, path), path)
    if has_predictions(path):
        again: Trust = "no digest; accuracies computed again from predictions"
        return "digest; accuracies computed again from predictions" if has_digest else again
    return "digest" if has_digest else "no digest"


def check_alone(result: Result, path: Path) -> bool:
    """As :func:`verified`, without a look at the files beside it; whether it has digests."""
    check_form(result, path)
    has_digest = check_record(result, path)
    _refuse(contradictions_in(result), path)
    return has_digest


def _refuse(contradictions: Iterable[str], path: Path) -> None:
    for clause in contradictions:
        raise UserError(
            f"The numbers of the record {path} do not follow from each other ({clause}), so it was changed or is "
            f"damaged: {REMEDY}"
        )
