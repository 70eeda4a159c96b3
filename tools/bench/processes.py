"""A night in a process of its own: how long it takes with all that starts, and how much memory it needs."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from jobs.session import CHECKOUT

_SAMPLE_S = 0.2
HEAP = "1g"
"""A JVM collects when its heap is full, however large that is: with a small one the peak says what a night needs."""


def seconds_of(arguments: Sequence[str], folder: Path) -> float:
    """Run a job of the wrapper as a user does and return the seconds. Raises CalledProcessError."""
    began = time.perf_counter()
    with _started(arguments, folder) as child:
        _require(child, child.wait())
    return time.perf_counter() - began


def peak_mib(arguments: Sequence[str], folder: Path) -> dict[str, float]:
    """Run a job and return the most memory in MiB that its processes held at once, by their name, and `all`."""
    with _started(["--driver-memory", HEAP, *arguments], folder) as child:
        done, peak = threading.Event(), {"all": 0.0}

        def watch() -> None:
            nonlocal peak
            while not done.wait(_SAMPLE_S):
                peak = max(peak, _resident_mib(child.pid), key=lambda parts: parts["all"])

        watcher = threading.Thread(target=watch)
        watcher.start()
        code = child.wait()
        done.set()
        watcher.join()
    _require(child, code)
    return peak


def _started(arguments: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    # Spark is started by the wrapper anew: what stands in this session's environment is not its business.
    others = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_", "_PYSPARK"))
    }
    with (folder / "output.txt").open("wb") as output:
        command = [str(CHECKOUT / "spark-submit.sh"), *arguments]
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder, env=others)


def _require(child: subprocess.Popen[bytes], code: int) -> None:
    if code:
        raise subprocess.CalledProcessError(code, child.args)


def _resident_mib(root: int) -> dict[str, float]:
    """Return the proportional set sizes of a process and all below it: pages that several share count once."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    held, waiting = {"all": 0.0}, [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue
        mib = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / 1024
        for part in ("all", name):
            held[part] = held.get(part, 0.0) + mib
    return held
