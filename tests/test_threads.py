import ctypes
import subprocess
import sys

import pytest
import torch
from conftest import Command
from torch import nn

from fcl_bench.threads import SMALL, numbers_per_sample, one_thread, threads_fixed, threads_for


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_small_work_has_one_thread_and_large_work_all_that_were_set_outside(three_threads):
    with threads_for(SMALL - 1):
        assert torch.get_num_threads() == 1
        with threads_for(SMALL):
            assert torch.get_num_threads() == 3
            with one_thread():
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 3
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_threads_are_given_back_after_a_failure(three_threads):
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert torch.get_num_threads() == 3
    with threads_for(SMALL):
        assert torch.get_num_threads() == 3


def test_a_convolution_meets_its_numbers_at_every_pixel():
    assert numbers_per_sample(nn.Linear(10, 5)) == 55
    assert numbers_per_sample(nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.Linear(1, 1))) > 1000 * (108 + 2)


ALLOCATION = """
import ctypes, sys
import torch
from fcl_bench.run.allocator import keep_freed_memory

class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Info
def mapped():
    before = mallinfo2().hblkhd
    tensor = torch.empty(40 << 20, dtype=torch.uint8)
    return mallinfo2().hblkhd - before

first = mapped()
keep_freed_memory()
print(first >= 40 << 20, mapped())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="only glibc 2.33 and later tells")
def test_large_tensors_no_longer_come_from_fresh_memory_each():
    """By glibc's own account of memory it maps: a tensor of 40 MB is mapped before, and lies in the heap after."""
    told = subprocess.run([sys.executable, "-c", ALLOCATION], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["True", "0"]


def test_a_fixed_number_holds_inside_and_none_leaves_what_there_is(three_threads):
    with threads_fixed(2), threads_for(SMALL):
        assert torch.get_num_threads() == 2
    with threads_fixed(None):
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == 3


def test_a_run_names_its_threads_and_a_fixed_number_is_another_run(three_threads, tiny: Command):
    free = tiny("method=afcl").result
    fixed = tiny("method=afcl", "threads=2").result
    assert (free["environment"]["threads"], fixed["environment"]["threads"]) == ("3", "2")
    assert free["run_id"] != fixed["run_id"]
    assert free["evidence"] == fixed["evidence"]  # whole numbers
    assert torch.get_num_threads() == 3
