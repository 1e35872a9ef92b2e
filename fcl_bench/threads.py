"""How many threads a piece of arithmetic is worth."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

SMALL = 1_000_000  # numbers; below it one thread beats many, on shared cores by up to 40 times


@contextmanager
def threads_for(numbers: int) -> Iterator[None]:
    """One thread while tensors of ``numbers`` numbers or fewer are worked on, all of them for larger ones."""
    before = torch.get_num_threads()
    if numbers < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
