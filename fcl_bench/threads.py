"""How many threads a piece of arithmetic is worth."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

SMALL = 1_000_000  # numbers; below it one thread beats many, on shared cores by up to 40 times
_found: list[int] = []  # the number of threads that each block under way, from the outermost in, has found


@contextmanager
def threads_for(numbers: int) -> Iterator[None]:
    """One thread while tensors of fewer than a million ``numbers`` are worked on, all of them for larger ones.

    All are those that were set outside of every such block: what a client does has one thread, except where it says
    that it is large.
    """
    _found.append(torch.get_num_threads())
    torch.set_num_threads(1 if numbers < SMALL else _found[0])
    try:
        yield
    finally:
        torch.set_num_threads(_found.pop())


def work(module: nn.Module) -> int:
    """The numbers that a sample meets on its way: every parameter once, those of a convolution at every pixel."""
    convolves = any(isinstance(layer, nn.Conv2d) for layer in module.modules())
    return sum(parameter.numel() for parameter in module.parameters()) * (1024 if convolves else 1)
