"""Two answers side by side: equal to the bit, within what rounding may do to float64, or different."""

import torch
from torch import Tensor

from fcl_bench.evidence import digest
from fcl_bench.exact.answers import Answer
from fcl_bench.exact.certificate import Part, Verdict, worst
from fcl_bench.message import StateDict

TOLERANCE = 1e-8  # relative, in the Frobenius norm; for floating-point numbers only


def hashes_of(answer: Answer) -> dict[str, str]:
    """By part."""
    return {name: digest(tensors) for name, tensors in answer.items()}


def compared(recorded: dict[str, str], found: Answer, expected: Answer) -> dict[str, Part]:
    """What the hashes of a record say of it; ``found``, where it is known and has these hashes, says how far it is."""
    hashes = hashes_of(expected)
    return {name: _part(recorded[name], found.get(name), expected[name], hashes[name]) for name in recorded}


def sentence(parts: dict[str, Part], other: str, tests: int) -> str:
    """The comparison with the ``other`` answer in words; ``tests`` are the predictions that were compared.

    >>> equal = Part(verdict="equal", recorded="a", expected="a", difference=0.0)
    >>> near = Part(verdict="within", recorded="a", expected="b", difference=2e-15)
    >>> sentence({"statistics": equal, "weights": equal, "predictions": equal}, "one place", tests=100)
    'statistics, weights and predictions are equal to the bit to those of one place'
    >>> sentence({"statistics": near, "weights": near, "predictions": equal}, "one place", tests=100)
    'equal within 1e-08 to those of one place: statistics by 2.0e-15, weights by 2.0e-15, predictions are equal'
    """
    verdict = worst(parts)
    if verdict == "equal":
        *names, last = parts
        return f"{', '.join(names)} and {last} are equal to the bit to those of {other}"
    clauses = [_clause(name, part, tests) for name, part in parts.items()]
    told = "different from" if verdict == "differs" else f"equal within {TOLERANCE} to"
    return f"{told} those of {other}: {', '.join(clauses)}"


def _part(recorded: str, found: StateDict | None, expected: StateDict, expected_hash: str) -> Part:
    if recorded == expected_hash:
        return Part(verdict="equal", recorded=recorded, expected=expected_hash, difference=0.0)
    difference = None
    if found is not None and digest(found) == recorded:
        difference = _difference(found, expected)
    verdict = _verdict(difference, expected)
    return Part(verdict=verdict, recorded=recorded, expected=expected_hash, difference=difference)


def _verdict(difference: float | None, expected: StateDict) -> Verdict:
    """Of what is not equal; whole numbers are never nearly equal."""
    rounded = all(tensor.is_floating_point() or tensor.numel() == 0 for tensor in expected.values())
    near = difference is not None and difference <= TOLERANCE
    return "within" if rounded and near else "differs"


def _difference(found: StateDict, expected: StateDict) -> float | None:
    """The largest over the tensors; None where they are not of one kind."""
    if {name: tensor.shape for name, tensor in found.items()} != {name: t.shape for name, t in expected.items()}:
        return None
    if "predictions" in expected:
        return float((found["predictions"] != expected["predictions"]).sum())
    return max(_relative(found[name], tensor) for name, tensor in expected.items())


def _relative(found: Tensor, expected: Tensor) -> float:
    error = torch.linalg.vector_norm(found.double() - expected.double())
    norm = torch.linalg.vector_norm(expected.double())
    return float(error / norm) if norm > 0 else float(error)


def _clause(name: str, part: Part, tests: int) -> str:
    if part.verdict == "equal":
        return f"{name} are equal"
    if part.difference is None:
        return f"{name} by hashes that do not tell how far"
    if name == "predictions":
        return f"{part.difference:,.0f} of {tests:,} predictions"
    return f"{name} by {part.difference:.1e}"
