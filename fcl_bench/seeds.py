"""One seed, many independent sources of randomness, each derived by name: none depends on how another is used.

A client call is seeded by :func:`client_call_seed` when its site (:mod:`fcl_bench.transport.site`) runs it, a step of
the server by :func:`server_step_seed`.
"""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from operator import index

import numpy as np
from numpy.random.mtrand import get_bit_generator, set_bit_generator


def derive(seed: int, *names: str | int) -> int:
    """A seed of 63 bits for the source called ``names``.

    >>> derive(0, "stream") == derive(0, "stream")
    True
    >>> len({derive(0), derive(1), derive(0, 1), derive(0, "1"), derive(0, 1, 2), derive(0, 12), derive(0, "1", "2")})
    7
    """
    path = [index(seed), *(name if isinstance(name, str) else index(name) for name in names)]
    return int.from_bytes(blake2b(json.dumps(path).encode(), digest_size=8).digest(), "big") >> 1


def client_call_seed(seed: int, task: int, exchange: int, client: int) -> int:
    """Randomness belongs to the call, so neither the order nor the place of calls matters."""
    return derive(seed, task, exchange, client)


def server_step_seed(seed: int, task: int, yielded: int) -> int:
    """Randomness of the server belongs to the step that follows ``yielded`` states of a task.

    So a task that is resumed draws as an uninterrupted one.
    """
    if yielded == 0:
        return derive(seed, "server", task)
    return derive(seed, "server", task, yielded)


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """A numpy generator for the source called ``names``.

    >>> bool(generator(0, "stream").random() == generator(0, "stream").random())
    True
    """
    return np.random.default_rng(derive(seed, *names))


_SPARE: list[np.random.MT19937] = []  # bit generators to lend to numpy's global generator; building one takes 80 us


@cache
def _has_gpu() -> bool:
    """Asked once: with Lightning loaded, torch opens the driver's library for every answer."""
    import torch

    return torch.cuda.is_available()


@contextmanager
def seeded(value: int) -> Iterator[None]:
    """Seed the global generators of Python, numpy and torch with ``value``; give them back their states on exit.

    Made for every client call, so the slow ways are left out: ``torch.manual_seed`` formats a stack trace while no GPU
    is initialised, and numpy's state takes 70 us to save and restore (its bit generator is exchanged instead, which
    forgets one thing: a normal number numpy may have in store, as it draws them in pairs).

    >>> import torch
    >>> before = torch.get_rng_state()
    >>> with seeded(7):
    ...     first = random.random(), torch.rand(1).item()
    >>> with seeded(7):
    ...     first == (random.random(), torch.rand(1).item())
    True
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    import torch

    cuda = _has_gpu()
    python, numpy, cpu = random.getstate(), get_bit_generator(), torch.default_generator.get_state()
    gpus = torch.cuda.get_rng_state_all() if cuda and torch.cuda.is_initialized() else []
    lent = _SPARE.pop() if _SPARE else np.random.MT19937()
    set_bit_generator(lent)
    try:
        random.seed(value)
        np.random.seed(value & 0xFFFFFFFF)  # noqa: NPY002 (the global generator is the point)
        torch.default_generator.manual_seed(value)
        if cuda:
            torch.cuda.manual_seed_all(value)
        yield
    finally:
        set_bit_generator(numpy)
        _SPARE.append(lent)
        random.setstate(python)
        torch.default_generator.set_state(cpu)
        if gpus:
            torch.cuda.set_rng_state_all(gpus)
