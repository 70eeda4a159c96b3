"""Peak memory of a night, in a process of its own: the JVM and the Python workers together.

    python -m benchmarks.memory FOLDER SCALE FLEET

Replays day 2 of a fleet whose warehouse has been made, and prints the peak in MiB. A JVM collects when its heap is full,
however large that is: with a small one the peak says what a night needs, and not what it was given.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from benchmarks.fleets import Fleets
from jobs.session import spark_session, tune_for

_SAMPLE_S = 0.2
HEAP = "1g"
_DRIVER, _JVM, _WORKERS = "Python of the driver", "JVM", "Python workers"


def peak_mib(folder: Path, scale: str, fleet: str) -> tuple[float, dict[str, int]]:
    """Run the night in a child and return the most memory that it and its children held at once, and by whom, in MiB."""
    command = [sys.executable, "-m", "benchmarks.memory", str(folder), scale, fleet]
    spark = f"--driver-memory {HEAP} {os.environ.get('PYSPARK_SUBMIT_ARGS', 'pyspark-shell')}"
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": spark}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as child:  # noqa: S603  our own module
        done, peak = threading.Event(), {_DRIVER: 0.0}

        def watch() -> None:
            nonlocal peak
            while not done.wait(_SAMPLE_S):
                peak = max(peak, _resident_mib(child.pid), key=lambda parts: sum(parts.values()))

        watcher = threading.Thread(target=watch)
        watcher.start()
        code = child.wait()
        done.set()
        watcher.join()
    if code:
        raise RuntimeError(f"{' '.join(command)} ended with {code}")
    return sum(peak.values()), {part: round(held) for part, held in peak.items()}


def _resident_mib(root: int) -> dict[str, float]:
    """Return the proportional set size of a process and all below it, by part: pages that workers share count once."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    total, waiting = {_DRIVER: 0.0, _JVM: 0.0, _WORKERS: 0.0}, [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue
        part = _DRIVER if pid == root else _JVM if name == "java" else _WORKERS
        total[part] += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / 1024
    return total


def main(folder: str, scale: str, fleet: str) -> None:
    """Replay day 2 of a fleet."""
    spark = spark_session("benchmarks.memory")
    tune_for(spark, small=False)
    Fleets(spark, Path(folder), scale).recorded_day(fleet).replayed()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
