"""A standalone cluster of real processes on this machine: one master, some workers, each with one core."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.places import CAPTURE, CHECKOUT

_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
_START_SECONDS = 120


@dataclass(frozen=True)
class Cluster:
    """A running cluster: where it listens, the folder in which it works, and its workers."""

    url: str
    folder: Path
    workers: tuple[subprocess.Popen[bytes], ...]


@contextmanager
def standalone(folder: Path, workers: int = 2, memory: str = "2g") -> Iterator[Cluster]:
    """Start a cluster whose processes see neither the project nor its environment; stop it at the end."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_start(folder / "master", _MASTER, "--port", "0"))
        # The port is chosen by the system, and the log says which.
        url = _logged(folder / "master", r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            of_worker = ("--cores", "1", "--memory", memory, "--work-dir", ".", url)
            started.append(_start(folder / f"worker-{number}", _WORKER, *of_worker))
        for number in range(workers):
            _logged(folder / f"worker-{number}", r"(Successfully registered with master)")
        yield Cluster(url, folder, tuple(started[1:]))
    finally:
        for process in reversed(started):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(_START_SECONDS)


def night_on(cluster: Cluster, summary: Path) -> subprocess.Popen[bytes]:
    """Start a night on the bundled capture as a user would, with a new warehouse beside `summary`; its output is in a log."""
    command = [str(CHECKOUT / "spark-submit.sh"), "nightly", "--master", cluster.url, "--input", str(CAPTURE)]
    with (summary.parent / "night.log").open("wb") as log:
        return subprocess.Popen(
            [*command, "--warehouse", str(summary.parent / "warehouse"), "--summary", str(summary)],
            env={**os.environ, "NAMESRV_VENV": os.environ["VIRTUAL_ENV"], "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def bare_environment() -> Mapping[str, str]:
    """Return what a machine of the cluster has: Spark, Java and a Python of the right version, and nothing of the project."""
    path = [f"{sys.base_prefix}/bin", "/usr/bin", "/bin"]
    if java := shutil.which("java"):
        path.append(str(Path(java).parent))
    kept = {name: os.environ[name] for name in ("SPARK_HOME", "JAVA_HOME", "HOME") if name in os.environ}
    return {**kept, "PATH": ":".join(path), "SPARK_LOCAL_IP": "127.0.0.1"}


def _start(folder: Path, main_class: str, *arguments: str) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True)
    command = [f"{os.environ['SPARK_HOME']}/bin/spark-class", main_class]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
            cwd=folder,
            env=bare_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _logged(folder: Path, pattern: str) -> str:
    """Wait for a line of a process's log and return what `pattern` finds in it."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        text = (folder / "log").read_text(encoding="utf-8", errors="replace")
        if found := re.search(pattern, text):
            return found[1]
        time.sleep(0.2)
    raise TimeoutError(f"{pattern!r} is not in the log of {folder.name}:\n{text}")
