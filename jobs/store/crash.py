"""Where a run can be made to die, to prove that the next one makes good what it left.

`NAMESRV_CRASH=step:before` or `step:after` kills the process at that boundary, as a power cut would: steps are those that
the run shows, the names of tables, of which each is committed in one step, and `ledger`, the writing of the run's row.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "NAMESRV_CRASH"


@contextmanager
def crash_points(step: str) -> Iterator[None]:
    """Enclose a step: die before or after it, if the environment says so."""
    _pass(f"{step}:before")
    yield
    _pass(f"{step}:after")


def _pass(point: str) -> None:
    if os.environ.get(VARIABLE) == point:
        os.kill(os.getpid(), signal.SIGKILL)
