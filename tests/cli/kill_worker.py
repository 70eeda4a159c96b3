"""Kill an executor, and later a whole worker, in the middle of a night on a standalone cluster; the tables must not change.

Run it by hand, `python -m tests.cli.kill_worker FOLDER`: it takes two nights. The first is undisturbed. In the second the executor
of the last worker is killed after a third of the first one's time, and that worker with the executor that took its place
after two thirds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.cli.standalone import Cluster, night_on, standalone


def main(folder: Path) -> int:
    """Run both nights below `folder`, which must not exist; return 0 if all digests are equal."""
    with standalone(folder / "calm-cluster") as cluster:
        began = time.monotonic()
        calm = finished(night_on(cluster, summary_in(folder / "calm")), folder / "calm")
        seconds = time.monotonic() - began
    with standalone(folder / "cluster") as cluster:
        night = night_on(cluster, summary_in(folder / "disturbed"))
        time.sleep(seconds / 3)
        kill_executors(cluster)
        time.sleep(seconds / 3)
        kill_executors(cluster)
        cluster.workers[-1].kill()
        print(f"killed: worker {cluster.workers[-1].pid}")
        disturbed = finished(night, folder / "disturbed")
    differing = sorted(name for name in calm if calm[name] != disturbed[name])
    print(f"{len(calm)} tables, differing: {', '.join(differing) or 'none'}")
    return 1 if differing else 0


def kill_executors(cluster: Cluster) -> None:
    """Kill what the last worker runs, without giving it time to say anything."""
    children = ["ps", "-o", "pid=", "--ppid", str(cluster.workers[-1].pid)]
    found = subprocess.run(children, capture_output=True, text=True, check=False).stdout.split()
    for pid in found:
        os.kill(int(pid), signal.SIGKILL)
    print(f"killed: executors {', '.join(found) or 'none'}")


def summary_in(folder: Path) -> Path:
    """Return where the summary of a night in a new folder is written."""
    folder.mkdir(parents=True)
    return folder / "summary.json"


def finished(night: subprocess.Popen[bytes], folder: Path) -> dict[str, str]:
    """Wait for a night and return the digests of its tables."""
    if night.wait() != 0:
        raise RuntimeError((folder / "night.log").read_text(encoding="utf-8"))
    digests: dict[str, str] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["digests"]
    return digests


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
