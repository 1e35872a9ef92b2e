"""Small changes of bytes, as a broken disk or a patient person makes them."""

import numpy as np


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """A copy with a flipped bit, a cut, a hole, a repeated or a random stretch; one of several at a time."""
    for _ in range(int(rng.integers(1, 4))):
        data = CHANGES[int(rng.integers(len(CHANGES)))](data, rng)
    return data


def _flip(data: bytes, rng: np.random.Generator) -> bytes:
    if not data:
        return data
    position = int(rng.integers(len(data)))
    return data[:position] + bytes([data[position] ^ (1 << int(rng.integers(8)))]) + data[position + 1 :]


def _cut(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: int(rng.integers(len(data) + 1))]


def _drop(data: bytes, rng: np.random.Generator) -> bytes:
    start, stop = sorted(rng.integers(len(data) + 1, size=2).tolist())
    return data[:start] + data[stop:]


def _repeat(data: bytes, rng: np.random.Generator) -> bytes:
    start, stop = sorted(rng.integers(len(data) + 1, size=2).tolist())
    return data[:stop] + data[start:]


def _scramble(data: bytes, rng: np.random.Generator) -> bytes:
    start = int(rng.integers(len(data) + 1))
    noise = rng.bytes(int(rng.integers(1, 17)))
    return data[:start] + noise + data[start + len(noise) :]


def _extreme(data: bytes, rng: np.random.Generator) -> bytes:
    """Four bytes that are often a length become the largest there is."""
    start = int(rng.integers(len(data) + 1))
    return data[:start] + b"\xff\xff\xff\x7f" + data[start + 4 :]


CHANGES = (_flip, _flip, _cut, _drop, _repeat, _scramble, _extreme)
