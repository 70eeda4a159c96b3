"""How a process of ours runs and ends."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

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


def end(code: int) -> NoReturn:
    """End this process as it is: to take apart what Great Expectations has imported takes Python a second."""
    atexit._run_exitfuncs()  # noqa: SLF001  what is to be done at the end has no other door
    sys.stderr.flush()
    os._exit(code)
