"""``certificate.json``, beside a record: whether the record's answer is that of one place with all samples.

Nothing heavy is imported: a leaderboard reads certificates too. One that was made for another record, or that does not
agree with itself, is worth nothing.
"""

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from fcl_bench.errors import UserError
from fcl_bench.run.result import Result
from fcl_bench.strict_json import read_json

FILE = "certificate.json"
Verdict = Literal["equal", "within", "differs"]
VERDICTS: tuple[Verdict, ...] = ("equal", "within", "differs")  # the best first


class Part(BaseModel, strict=True, frozen=True):
    """One thing that was compared: a hash on either side, and how far apart the two are."""

    verdict: Verdict
    recorded: str
    expected: str
    difference: float | None  # of predictions their number, of others relative; None where only hashes are known

    @model_validator(mode="after")
    def agrees_with_itself(self) -> "Part":
        """Equal hashes, and only they, are called equal."""
        if (self.verdict == "equal") != (self.recorded == self.expected):
            raise PydanticCustomError("verdict", "the verdict is not that of the hashes")
        return self


class Certificate(BaseModel, strict=True, frozen=True):
    """What was found, and for which record."""

    schema_number: Literal[1] = Field(default=1, alias="schema")
    record: str  # the SHA-256 of result.json
    run_id: str
    verdict: Verdict
    sentence: str
    parts: dict[str, Part]
    samples: int
    classes: int
    environment: dict[str, str | None]
    date: str  # UTC

    @model_validator(mode="after")
    def agrees_with_itself(self) -> "Certificate":
        """The verdict is that of the worst part."""
        if self.verdict != worst(self.parts):
            raise PydanticCustomError("verdict", "the verdict is not that of its parts")
        return self


def worst(parts: dict[str, Part]) -> Verdict:
    """The verdict on all parts together."""
    found = [VERDICTS.index(part.verdict) for part in parts.values()]
    return VERDICTS[max(found, default=len(VERDICTS) - 1)]


def fingerprint(record: Path) -> str:
    """The SHA-256 of a ``result.json``, by which a certificate names it."""
    return hashlib.sha256(record.read_bytes()).hexdigest()


def encoded(certificate: Certificate) -> bytes:
    """The text of the file."""
    return (certificate.model_dump_json(indent=1, by_alias=True) + "\n").encode()


def read_certificate(record: Path, result: Result) -> Certificate | None:
    """What lies beside a record; None if nothing does, and a :class:`UserError` if it is not worth anything."""
    path = record.with_name(FILE)
    if not path.exists():
        return None
    try:
        certificate = Certificate.model_validate(read_json(path))
    except (OSError, ValueError) as error:
        raise UserError(f"The certificate {path} is damaged ({_reason(error)}): certify the run again.") from error
    if certificate.record != fingerprint(record) or not _has_the_hashes_of(result, certificate):
        raise UserError(f"The certificate {path} is not one for the record beside it: certify the run again.")
    return certificate


def _has_the_hashes_of(result: Result, certificate: Certificate) -> bool:
    evidence = result.get("evidence", {})
    return all(evidence.get(name, part.recorded) == part.recorded for name, part in certificate.parts.items())


def _reason(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]
