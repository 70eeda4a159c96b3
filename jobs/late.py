"""How far each name server is known, and files that go back behind that.

Reads   watermarks, open_streams, namesrv_events
Writes  watermarks
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import tables
from namesrv_wire.capture import read_capture
from namesrv_wire.errors import CaptureError
from namesrv_wire.rows import Row
from schemas import bronze

_PEEKED_PACKETS = 2_000
"""Packets of a capture in which its name servers show up; brokers and clients ask at least every 30 seconds."""
_OVERLAP_NS = 1_000_000_000
"""Captures that follow each other may overlap by this much."""
_BEGINNINGS = ("started", "observed_from")


def read_watermarks(spark: SparkSession, warehouse: str) -> dict[str, int]:
    """Return the latest known time of each name server, in microseconds; empty before anything was read."""
    rows = tables.read_table(spark, warehouse, bronze.WATERMARKS)
    return {
        row["namesrv_id"]: row["us"]
        for row in rows.select("namesrv_id", F.unix_micros("latest_time").alias("us")).collect()
    }


def write_watermarks(
    spark: SparkSession,
    warehouse: str,
    before_us: Mapping[str, int],
    latest_us: Mapping[str, int],
    run_id: str,
    started: dt.datetime,
) -> None:
    """Move the watermarks to `latest_us`, never back and never beyond the run's own clock.

    Else one event from the future would make everything after it too late. To be called when the rows are written: a run
    that dies before finds the same watermarks when it is repeated, and refuses the same rows.
    """
    now_us = round(started.timestamp() * 1e6)
    moved = [
        {"namesrv_id": name, "latest_time": _instant(min(us, now_us)), "ingest_run": run_id}
        for name, us in sorted(latest_us.items())
        if min(us, now_us) > before_us.get(name, -1)
    ]
    if moved:
        tables.upsert(spark, spark.createDataFrame(moved, bronze.WATERMARKS.schema), warehouse, bronze.WATERMARKS)


def _instant(us: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=us)


def goes_back(path: Path, last_ns: Mapping[str, int]) -> bool:
    """Return whether a capture begins before the end of what was read of a name server in it (`last_ns`).

    Its connections are then not those that are open at that end.
    """
    if not last_ns:
        return False
    try:
        for segment in islice(read_capture(path), _PEEKED_PACKETS):
            for end in (segment.src, segment.dst):
                if segment.time_ns < last_ns.get(end, 0) - _OVERLAP_NS:
                    return True
    except CaptureError:
        return False  # its reader says what is wrong with it
    return False


class Beginnings:
    """Tells beginnings from resumptions: a late capture also begins somewhere, but in the middle of what is known."""

    def __init__(self, spark: SparkSession, warehouse: str) -> None:
        known = tables.read_table(spark, warehouse, bronze.NAMESRV_EVENTS).where(F.col("kind").isin(*_BEGINNINGS))
        first = known.groupBy("namesrv_id").agg(F.min("seq").alias("seq")).collect()
        self._first = {row["namesrv_id"]: row["seq"] for row in first}

    def is_resumption(self, row: Row) -> bool:
        """Return whether `row` says since when a name server was observed, which was observed before."""
        values = row.values
        return (
            values.get("kind") == "observed_from"
            and self._first.get(values["namesrv_id"], values["seq"]) < values["seq"]
        )
