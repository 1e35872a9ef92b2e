"""How the C library keeps memory."""

import ctypes
import gc
import platform
from functools import cache

M_TRIM_THRESHOLD = -1  # names and numbers of glibc's mallopt()
M_MMAP_THRESHOLD = -3
LARGEST_KEPT = 1 << 26  # bytes of one block
MOST_KEPT = 1 << 29  # bytes of all free blocks at the end of the heap


@cache
def keep_freed_memory() -> None:
    """Let glibc use the memory of freed tensors again instead of handing it back to the system.

    By default every large tensor is new memory, which the system clears page by page: a third of the time of a
    convolutional network on a CPU. Other C libraries are left as they are.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
        mallopt(M_TRIM_THRESHOLD, MOST_KEPT)


def return_freed_memory() -> None:
    """Hand back now what is kept."""
    gc.collect()
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
