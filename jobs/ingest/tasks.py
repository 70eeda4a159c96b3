"""Who reads parts of files beside each other: processes of this machine, since the files are here."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from multiprocessing import get_context
from typing import TypeVar

import pyarrow as pa

P = TypeVar("P")
R = TypeVar("R")
_TASKS = ("jobs.ingest.logs", "jobs.ingest.writing")
_AHEAD = 2
"""So many pieces a process are read, or wait to be taken."""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def done(task: Callable[[P], R], work: Iterable[P], width: int) -> Generator[R, None, None]:
    """Yield what `task` returns for each piece of work, in their order; with a `width` of more than 1 by so many processes."""
    pieces = iter(work)
    first = list(islice(pieces, 2))
    if width < 2 or len(first) < 2:
        yield from map(task, chain(first, pieces))
        return
    # Not forked from here, where threads of a JVM's gateway may run; what all need is imported once.
    context = get_context("forkserver")
    context.set_forkserver_preload([*_TASKS])
    with ProcessPoolExecutor(width, context, _give_back) as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for piece in chain(first, pieces):
                waiting.append(pool.submit(task, piece))
                if len(waiting) >= _AHEAD * width:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _give_back() -> None:
    pa.set_memory_pool(pa.system_memory_pool())


@contextmanager
def given_back() -> Iterator[None]:
    """Have the system get what Arrow needs no more: a pool of its own keeps it, and others write and read beside this process.

    What its allocator keeps all the same, `release_unused` of the pool gives back.
    """
    before = pa.default_memory_pool()
    _give_back()
    try:
        yield
    finally:
        pa.set_memory_pool(before)
