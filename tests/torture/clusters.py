"""A process of a standalone cluster is killed in the middle of a night: the tables are those of a night that nobody disturbed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.cli.standalone import Cluster, night_on, standalone
from tests.night.nights import night
from tests.places import CAPTURE

TARGETS = ("an executor", "a worker", "the driver")


@cache
def calm() -> tuple[dict[str, str], float]:
    """Return the digests of an undisturbed night, and the seconds that one takes on the cluster."""
    folder = Path(mkdtemp(prefix="namesrv-calm-"))
    with standalone(folder / "cluster") as cluster:
        began = time.monotonic()
        digests = _finished(night_on(cluster, folder / "summary.json"), folder)
    assert digests == dict(night(folder / "here", CAPTURE).digests)
    return digests, time.monotonic() - began


def cluster(seed: int, folder: Path) -> tuple[str, str]:
    """Kill one process at an instant; whoever starts a night again whose driver was killed gets the same tables."""
    dice, target, (digests, seconds) = random.Random(seed), TARGETS[seed % len(TARGETS)], calm()
    with standalone(folder / "cluster") as started:
        night = night_on(started, folder / "summary.json")
        at = dice.uniform(0.3, 0.9) * seconds
        time.sleep(at)
        killed = _killed(started, night, target, dice)
        if target == "the driver":
            night.wait()
            night = night_on(started, folder / "summary.json")
        found = _finished(night, folder)
    differing = sorted(name for name in digests if digests[name] != found.get(name))
    outcome = "silent" if differing else "survived"
    return (
        outcome,
        f"{target} ({killed} processes) killed after {at:.1f} s: differing: {', '.join(differing) or 'none'}",
    )


def _killed(cluster: Cluster, night: subprocess.Popen[bytes], target: str, dice: random.Random) -> int:
    """Kill without giving time to say anything; return how many processes."""
    worker = dice.choice(cluster.workers)
    if target == "a worker":
        pids = [worker.pid, *_children(worker.pid)]
    else:
        pids = _children(worker.pid) if target == "an executor" else [night.pid, *_children(night.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return len(pids)


def _children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_text("ascii").split()]


def _finished(night: subprocess.Popen[bytes], folder: Path) -> dict[str, str]:
    """Wait for a night and return the digests of its tables."""
    if night.wait() != 0:
        raise RuntimeError((folder / "night.log").read_text(encoding="utf-8"))
    digests: dict[str, str] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["digests"]
    return digests
