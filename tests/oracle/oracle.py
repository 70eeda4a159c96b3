"""The real name server as an oracle: RocketMQ's released classes under a virtual clock, driven by trace events.

Two controllers of one release live in a JVM of their own. `take` calls the managers of the first directly; `wire` makes
requests of the same events and gives them to the processors of the second.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.oracle import jvm

Json = dict[str, Any]
VERSIONS = ("4.9.7", "5.4.0")
_JAVA = Path(__file__).resolve().parent / "java"


class Oracle:
    """One release of the name server. `close` ends its JVM.

    Raises JvmUnavailableError without Java, or without a network the first time.
    """

    def __init__(self, version: str, *, is_brief: bool = False) -> None:
        released = jvm.jars(f"org.apache.rocketmq:rocketmq-namesrv:{version}")
        classpath = [*released, jvm.pyspark_jar("xbean-asm9-shaded")]
        classes = jvm.compiled([_JAVA / "common", _JAVA / "shared", _JAVA / f"v{version[0]}"], classpath)
        self._home = tempfile.TemporaryDirectory(prefix="oracle")  # of log files and of the KV table
        folders = ("user.home", "java.io.tmpdir", "rocketmq.home.dir")
        options = [f"-D{name}={self._home.name}" for name in folders]
        self._jvm = jvm.Jvm("oracle.Main", [classes, *classpath], options=options, is_brief=is_brief)
        self.version = version

    def take(self, events: Iterable[Mapping[str, Any]], *, states: bool = False) -> list[Json]:
        """Apply events to the managers and return for each `res`, `h` and, with `states`, `st`."""
        return self._asked("D" if states else "d", events)

    def wire(self, events: Iterable[Mapping[str, Any]], *, states: bool = False) -> list[Json]:
        """Apply events as requests and return for each `h`, `wire` (code, remark, ext, body) if it is one, and `res`.

        Events that are no requests (scan, channel_destroy, ...) are applied directly; `res` holds what an event did
        beside its answer (closed, swallowed, notify, batch). A processor that throws gives `exception` and `message`.
        """
        return self._asked("W" if states else "w", events)

    def send(self, events: Iterable[Mapping[str, Any]]) -> None:
        """As `take`, but do not wait for the answers: `texts` returns them."""
        self._jvm.send([f"d {json.dumps(event)}" for event in events])

    def texts(self, count: int) -> list[str]:
        """Return the answers to the `count` events that were sent before, as canonical JSON texts."""
        return self._jvm.receive(count)

    def timed(self, events: Iterable[Mapping[str, Any]]) -> int:
        """Apply events to the managers and return the nanoseconds that it took, decoding and answering apart."""
        return int(self._jvm.ask([f"t {json.dumps({'events': list(events)})}"])[0])

    def close(self) -> None:
        """End the JVM."""
        self._jvm.close()
        self._home.cleanup()

    def _asked(self, letter: str, events: Iterable[Mapping[str, Any]]) -> list[Json]:
        answers = self._jvm.ask([f"{letter} {json.dumps(event)}" for event in events])
        return [json.loads(answer) for answer in answers]


def request(
    t_ms: int, code: int, ext: Mapping[str, str], body: bytes | None = None, *, ch: str | None = None, **more: Any
) -> Json:
    """Return an event for `wire` that is a request given field by field; `version` may be among `more`."""
    encoded = None if body is None else base64.b64encode(body).decode()
    return {"op": "request", "t_ms": t_ms, "code": code, "ext": dict(ext), "body": encoded, "ch": ch, **more}
