"""The real RouteInfoManager 5.4.0 beside the night: the same day, every beat fed as a full registration, one after the other."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.engines import Expiries
from tests.oracle import jvm

VERSION = "5.4.0"
_TESTS_JAVA = Path(jvm.__file__).parent / "java"
_RECORD = np.dtype([("broker", ">i4"), ("ms", ">i8")])


class JavaFleet:
    """The real classes in a JVM of their own; `close` ends it. Raises JvmUnavailableError."""

    def __init__(self, events: DataFrame, topics: int, started_ms: int, period_ms: int) -> None:
        """`events`: the heartbeats and registrations of the day; `topics`: of each broker; the process starts at `started_ms`."""
        self._folder = tempfile.TemporaryDirectory(prefix="java-fleet")
        self._addrs = sorted(row[0] for row in events.select("broker_addr").distinct().collect())
        self._lines: dict[str, str] = {}
        for (name,) in sorted(events.select("namesrv_id").distinct().collect()):
            path = Path(self._folder.name) / name.replace(":", "-")
            self._write(events.where(F.col("namesrv_id") == name), path)
            self._lines[name] = f"{path} {len(self._addrs)} {topics} {started_ms} {period_ms}"
        released = jvm.jars(f"org.apache.rocketmq:rocketmq-namesrv:{VERSION}")
        classpath = [*released, jvm.pyspark_jar("xbean-asm9-shaded")]
        sources = [_TESTS_JAVA / "common", _TESTS_JAVA / "shared", _TESTS_JAVA / "v5", Path(__file__).parent / "java"]
        options = [f"-Duser.home={self._folder.name}", f"-Djava.io.tmpdir={self._folder.name}", "-Xmx2g"]
        classes = jvm.compiled(sources, classpath)
        self._jvm = jvm.Jvm("oracle.Main", [classes, *classpath], "oracle.FleetDriver", options=options)
        self.nanoseconds = 0
        """What the calls took in the last `run`, reading the beats included."""

    def _write(self, events: DataFrame, path: Path) -> None:
        beats: pa.Table = events.select("broker_addr", F.unix_millis("effect_time").alias("ms"), "seq").toArrow()
        beats = beats.sort_by("seq")
        numbers = pa.compute.index_in(beats["broker_addr"], pa.array(self._addrs))
        records = np.empty(len(beats), dtype=_RECORD)
        records["broker"], records["ms"] = numbers.to_numpy(), beats["ms"].to_numpy()
        records.tofile(path)

    def run(self) -> Expiries:
        """Feed the day of every name server, one after the other, and return whom the scans removed."""
        found = []
        self.nanoseconds = 0
        for (name, _), answer in zip(self._lines.items(), self._jvm.ask(list(self._lines.values())), strict=True):
            nanoseconds, *words = map(int, answer.split())
            self.nanoseconds += nanoseconds
            found += [(name, self._addrs[n], ms) for n, ms in zip(words[::2], words[1::2], strict=True)]
        return frozenset(found)

    def close(self) -> None:
        """End the JVM."""
        self._jvm.close()
        self._folder.cleanup()
