"""The real RouteInfoManager 5.4.0 beside the night: the same day, every beat fed as a full registration, one after the other."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.oracle import jvm
from tools.bench.engines import Expiries

VERSION = "5.4.0"
_TESTS_JAVA = Path(jvm.__file__).parent / "java"
_RECORD = np.dtype([("broker", ">i4"), ("ms", ">i8")])


class JavaFleet:
    """The real classes in a JVM of their own; `close` ends it. Raises JvmUnavailableError."""

    def __init__(self, beats: Mapping[str, pa.Table], topics: int, started_ms: int, period_ms: int) -> None:
        """`beats`: (broker_addr, ms) in order, by name server; `topics`: of each broker; the process starts at `started_ms`."""
        released = jvm.jars(f"org.apache.rocketmq:rocketmq-namesrv:{VERSION}")
        self._folder = tempfile.TemporaryDirectory(prefix="java-fleet")
        self._addrs = sorted({addr for rows in beats.values() for addr in pc.unique(rows["broker_addr"]).to_pylist()})
        self._lines: dict[str, str] = {}
        for name, rows in sorted(beats.items()):
            path = Path(self._folder.name) / name.replace(":", "-")
            records = np.empty(len(rows), dtype=_RECORD)
            records["broker"] = pc.index_in(rows["broker_addr"], pa.array(self._addrs)).to_numpy()
            records["ms"] = rows["ms"].to_numpy()
            records.tofile(path)
            self._lines[name] = f"{path} {len(self._addrs)} {topics} {started_ms} {period_ms}"
        classpath = [*released, jvm.pyspark_jar("xbean-asm9-shaded")]
        sources = [_TESTS_JAVA / "common", _TESTS_JAVA / "shared", _TESTS_JAVA / "v5", Path(__file__).parent / "java"]
        options = [f"-Duser.home={self._folder.name}", f"-Djava.io.tmpdir={self._folder.name}", "-Xmx2g"]
        classes = jvm.compiled(sources, classpath)
        self._jvm = jvm.Jvm("oracle.Main", [classes, *classpath], "oracle.FleetDriver", options=options)

    def run(self) -> Expiries:
        """Feed the day of every name server, one after the other, and return whom the scans removed."""
        found = []
        for name, answer in zip(self._lines, self._jvm.ask(list(self._lines.values())), strict=True):
            _, *words = map(int, answer.split())
            found += [(name, self._addrs[n], ms) for n, ms in zip(words[::2], words[1::2], strict=True)]
        return frozenset(found)

    def close(self) -> None:
        """End the JVM."""
        self._jvm.close()
        self._folder.cleanup()
