"""How a run ends that somebody ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from jobs.errors import EXIT_INTERRUPTED
from tests.places import CHECKOUT

BEGIN = """
import signal
signal.signal(signal.SIGINT, signal.{})
from jobs.processes import end_if_interrupted
end_if_interrupted()
"""
POOL = """
import time
from jobs.passes import Processes
print("begun", flush=True)
Processes(2).each(time.sleep, [600, 600])
"""
ANSWERS = """
import multiprocessing, time
from jobs.cli.mcp import _open
pool = multiprocessing.get_context("spawn").Pool(1, _open, ["warehouse"])
pool.apply(abs, [1])
print("begun", flush=True)
pool.apply(time.sleep, [600])
"""
STATEMENT = """
import duckdb
print("begun", flush=True)
duckdb.sql("SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b").fetchall()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "number", "code"),
    [
        (POOL, signal.SIGINT, EXIT_INTERRUPTED),
        (POOL, signal.SIGKILL, -signal.SIGKILL),
        (ANSWERS, signal.SIGINT, EXIT_INTERRUPTED),
        (ANSWERS, signal.SIGKILL, -signal.SIGKILL),
        (STATEMENT, signal.SIGINT, EXIT_INTERRUPTED),
    ],
)
def test_nothing_goes_on_behind_an_ended_process(program: str, number: signal.Signals, code: int) -> None:
    """Ctrl-C ends a process at once, in a line, with its code, whatever it is doing; a killed one's pool ends with it."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN.format("default_int_handler") + program],
        cwd=CHECKOUT,
        start_new_session=True,
        stdout=pipe,
        stderr=pipe,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    while program is POOL and len(_running(process.pid)) < 4:  # itself, the pool's two processes, and theirs
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(number)
    process.wait(20)
    until = time.monotonic() + 20
    while _running(process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert _running(process.pid) == []
    assert process.returncode == code
    # Of a killed pool, Python's own tracker tells of semaphores.
    assert number is signal.SIGKILL or process.communicate()[1] == "namesrv-history: interrupted\n"


def test_what_a_script_runs_in_the_background_goes_on() -> None:
    """Where Ctrl-C is ignored from the start, it ends nothing."""
    ignoring = BEGIN.format("SIG_IGN") + "signal.raise_signal(signal.SIGINT)\nprint('there')"
    ran = subprocess.run([sys.executable, "-c", ignoring], cwd=CHECKOUT, capture_output=True, check=True, text=True)
    assert ran.stdout == "there\n"


def _running(session: int) -> list[str]:
    listed = subprocess.run(["ps", "-o", "stat=", "-s", str(session)], capture_output=True, check=False, text=True)
    return [stat for stat in listed.stdout.split() if not stat.startswith("Z")]
