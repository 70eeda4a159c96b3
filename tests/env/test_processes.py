"""How processes of ours end: at once, with what they were to do at the end done, and sessions stopped."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from jobs import session
from jobs.errors import EXIT_DISK_FULL, EXIT_USAGE, UsageError, known_failure
from jobs.session import SessionLater

ENDS = """
import atexit, sys
from jobs.processes import end
atexit.register(lambda: sys.stderr.write("put away"))
print("said")
sys.stdout.flush()
end(3)
"""


class Stopped:
    """Stands for a session: knows how often, and where, it was stopped."""

    def __init__(self) -> None:
        self.by: list[str] = []

    def stop(self) -> None:
        """Note who stops it."""
        self.by.append(threading.current_thread().name)


def test_a_process_ends_with_its_code_and_has_put_away_its_things() -> None:
    """What was registered for the end runs, nothing that was said is lost, and the code is the caller's."""
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "said\n", "put away")


@pytest.mark.parametrize("soon", [0, 1, 2])
def test_a_session_is_stopped_once_and_waited_for(monkeypatch: pytest.MonkeyPatch, soon: int) -> None:
    """However often somebody says that it is needed no more, beside other work; when `stop` returns it is stopped."""
    stopped = Stopped()
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: stopped)
    later = SessionLater("test")
    for _ in range(soon):
        later.stop_soon()
    later.stop()
    assert len(stopped.by) == 1
    assert stopped.by != [threading.current_thread().name]


def test_a_session_that_did_not_start_has_nothing_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its failure is told to who asks for it, not to who only puts it away."""

    def fails(*_: object, **__: object) -> None:
        raise UsageError("Spark does not start")

    monkeypatch.setattr(session, "spark_session", fails)
    later = SessionLater("test")
    with pytest.raises(UsageError, match="does not start"):
        later.get()
    later.wait()
    later.stop_soon()
    later.stop()


@pytest.mark.parametrize(("why", "code"), [("No space left on device", EXIT_DISK_FULL), ("bad option", EXIT_USAGE)])
def test_a_session_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch, why: str, code: int) -> None:
    """A full disk is no wrong option."""

    def fails(*_: object) -> None:
        raise Py4JError(f"java.io.IOException: {why}")

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", fails)
    with pytest.raises((Py4JError, UsageError)) as raised:
        session.spark_session("test")
    said = known_failure(raised.value, None)
    assert (said and said[1]) == code
