"""The seal of a checkpoint: a hash of the whole file, which stands in the file itself, in the first entry of its dict.

So a checkpoint remains an ordinary safetensors file. The hash is of the file with zeros in its own place.
"""

from hashlib import blake2b

from fcl_bench.decoding import MessageError

DIGITS = 64
ZEROS = "0" * DIGITS
NO_SEAL = {"seal": ZEROS}  # what a message to be sealed begins with
_START = b'{"__metadata__":{"message":"{\\"dict\\": [[\\"seal\\", \\"'
_FIRST = 8 + len(_START)  # byte of the seal
_END = _FIRST + DIGITS


def sealed(data: bytes) -> bytes:
    """An encoded dict with its seal."""
    return data[:_FIRST] + _seal(data) + data[_END:]


def refuse_broken(data: bytes) -> None:
    """Raise a :class:`MessageError` for bytes that are not those that were sealed."""
    if data[8:_FIRST] != _START:
        raise MessageError("it has no seal: an earlier version wrote it, or it is damaged")
    if data[_FIRST:_END] != _seal(data):
        raise MessageError("it is damaged: its seal is broken")


def _seal(data: bytes) -> bytes:
    view = memoryview(data)
    found = blake2b(view[:_FIRST], digest_size=DIGITS // 2)
    found.update(ZEROS.encode())
    found.update(view[_END:])
    return found.hexdigest().encode()
