"""Commands of a checkout's wrapper in processes of their own, as a user starts them: time, processor, memory, what they print."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Ran(NamedTuple):
    """What a command took: seconds on the clock, seconds of CPU with all its children, MiB of its largest process."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    printed: str


def ran(checkout: Path, arguments: Sequence[str], folder: Path, *, on_one_core: bool = False) -> Ran:
    """Run a job by the wrapper of `checkout` in `folder`. Raises CalledProcessError with what it printed.

    `on_one_core`: it makes no pool of processes then, of which nobody could say what they took.
    """
    # Spark is started by the wrapper anew: what stands in this session's environment is not its business.
    others = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_", "_PYSPARK"))
    }
    output, command = folder / "output.txt", [str(checkout / "spark-submit.sh"), *arguments]
    with output.open("wb") as out:
        began = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=folder, env=others)
        if on_one_core:  # before the wrapper has started anything that asks
            os.sched_setaffinity(child.pid, {max(os.sched_getaffinity(0))})
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    printed = output.read_text(encoding="utf-8", errors="replace")
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command, printed)
    return Ran(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, printed)
