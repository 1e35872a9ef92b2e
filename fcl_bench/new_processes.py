"""New processes that start quickly: they are forked from one that has imported the large libraries and done nothing."""

import os
import sys
from multiprocessing import get_all_start_methods, get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext, SpawnContext
from threading import Thread

LIBRARIES = ("torch", "lightning")


def quick_context() -> ForkServerContext | SpawnContext:
    """A context for ``Process``, as safe as ``spawn``: this process, its threads and their locks are not copied.

    Libraries that are in use here will be needed there; without fork servers, as on Windows, each process imports them.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    from multiprocessing import resource_tracker

    context = get_context("forkserver")
    resource_tracker.ensure_running()  # here, as its start would unblock Ctrl-C in a thread that has blocked it
    context.set_forkserver_preload([name for name in LIBRARIES if name in sys.modules])
    return context


def end_with_the_parent() -> None:
    """From now on this process ends when the one that started it does, even if that is killed."""
    Thread(target=_end_after_the_parent, daemon=True).start()


def _end_after_the_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
