"""How a process of ours runs and ends."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from jobs.errors import EXIT_INTERRUPTED

_OBJECTS_BETWEEN_COLLECTIONS = 50_000


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Have Python look for cycles less often: rows, and modules, by the thousand make hardly one."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def give_back() -> None:
    """Have the system get from now on what Arrow needs no more."""
    import pyarrow as pa  # noqa: PLC0415  questions go without it

    pa.set_memory_pool(pa.system_memory_pool())


@contextmanager
def given_back() -> Iterator[None]:
    """Have the system get what Arrow needs no more: a pool of its own keeps it, and others write and read beside this process.

    What its allocator keeps all the same, `release_unused` of the pool gives back.
    """
    import pyarrow as pa  # noqa: PLC0415  as above

    before = pa.default_memory_pool()
    give_back()
    try:
        yield
    finally:
        pa.set_memory_pool(before)


@contextmanager
def meanwhile(every_s: float, do: Callable[[], object]) -> Iterator[None]:
    """Call `do` again and again in another thread, each time after so many seconds."""
    from threading import Event, Thread  # noqa: PLC0415  most questions have none

    over = Event()

    def run() -> None:
        while not over.wait(every_s):
            do()

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def end_with_parent() -> None:
    """Set up a process of a pool: Ctrl-C is its parent's affair, and it ends with its parent, even a killed one."""
    from multiprocessing import parent_process  # noqa: PLC0415  questions go without it
    from multiprocessing.connection import wait  # noqa: PLC0415
    from threading import Thread  # noqa: PLC0415

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()


def end_if_interrupted() -> None:
    """Have Ctrl-C end this process at once, inside a statement of DuckDB or a job of Spark, too.

    Where it is ignored from the start, as in what a script runs in the background, it stays so.
    """

    def interrupted(*_: object) -> None:
        from multiprocessing import active_children  # noqa: PLC0415  as above

        os.write(2, b"namesrv-history: interrupted\n")
        for child in active_children():  # `end` would wait for them
            child.kill()
        end(EXIT_INTERRUPTED)

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupted)


def end(code: int) -> NoReturn:
    """End this process as it is: to free what Great Expectations has imported takes Python a second."""
    atexit._run_exitfuncs()  # noqa: SLF001  what is to be done at the end has no other door
    sys.stderr.flush()
    os._exit(code)
