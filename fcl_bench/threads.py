"""How many threads a piece of arithmetic is worth."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import nn

SMALL = 1_000_000  # numbers; below it one thread beats many, on shared cores by up to 40 times
PIXELS = 1024  # a guess of the places at which a convolution is applied
_before: list[int] = []  # for each open block, from the outermost in: the number of threads before it


@contextmanager
def threads_for(numbers: int) -> Iterator[None]:
    """One thread while tensors of fewer than a million ``numbers`` are worked on, all of them for larger ones.

    All are those that were set outside of every such block: a client call has one thread, except where its function
    says that its tensors are large.
    """
    _before.append(torch.get_num_threads())
    torch.set_num_threads(1 if numbers < SMALL else _before[0])
    try:
        yield
    finally:
        torch.set_num_threads(_before.pop())


@contextmanager
def threads_fixed(number: int | None) -> Iterator[None]:
    """As many threads for large tensors, whatever the machine or its launcher has set; None leaves it to them.

    Some sums of floating-point numbers depend on how many threads share them.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> AbstractContextManager[None]:
    """One thread for everything in this block that does not ask for more."""
    return threads_for(0)


def numbers_per_sample(module: nn.Module) -> int:
    """The numbers that a sample meets on its way: every parameter once, those of a convolution at every pixel."""
    parameters = sum(parameter.numel() for parameter in module.parameters())
    convolves = any(isinstance(layer, nn.Conv2d) for layer in module.modules())
    return parameters * PIXELS if convolves else parameters
