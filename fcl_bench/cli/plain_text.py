"""Output for terminals and files that do not have all of our characters."""

import codecs
import io
import sys

ASCII = {"±": "+/-", "…": "..."}


def replace_missing_characters() -> None:
    """From now on, what stdout and stderr cannot encode is written in ASCII instead of raising an error."""
    codecs.register_error("fcl_bench.ascii", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="fcl_bench.ascii")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(ASCII.get(character, "?") for character in missing), error.end
