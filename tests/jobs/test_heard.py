"""The one pass over a day's beats: what it says beside the buckets."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from jobs.quiet import heard_of
from namesrv_core import V4_9_7, Namesrv
from namesrv_core.inference.decisions import STALL_NS
from schemas import bronze, gold
from tests.jobs.rows import Row, frame, seq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NS = "10.0.0.9:9876"
DAY = dt.date(2026, 3, 2)
NOON = dt.datetime(2026, 3, 2, 12)  # noqa: DTZ001  the zone is UTC


def beat(second: int, lag_ns: int, response_code: int | None) -> Row:
    """Return a version query that arrived at noon and so many seconds, and took effect `lag_ns` later."""
    arrived = NOON + dt.timedelta(seconds=second)
    effect = arrived + dt.timedelta(microseconds=lag_ns // 1_000)
    said = {
        "cluster_name": "C",
        "broker_name": "one",
        "broker_addr": "1:1",
        "code": 322,
        "response_code": response_code,
    }
    times = {"event_time": arrived, "effect_time": effect, "seq": seq(arrived) + lag_ns, "day": DAY}
    source = {"source_file": "beats.jsonl", "source_offset": second, "ingest_run": "run"}
    return {
        "namesrv_id": NS,
        "event_id": f"at-{second}",
        "one_way": False,
        "request_version": 407,
        **said,
        **times,
        **source,
    }


@pytest.mark.parametrize(
    ("lag_ns", "response_code", "stalled"),
    [(STALL_NS, 0, {NS}), (STALL_NS - 1_000, 0, set()), (STALL_NS, None, set())],
    ids=["as long as a stall", "a little shorter", "nobody knows when it took effect"],
)
def test_a_late_answer_shows_that_a_name_server_stood_still(
    spark: SparkSession,
    lag_ns: int,
    response_code: int | None,
    stalled: set[str],
) -> None:
    """One beat of many is enough, but only an answer tells when a beat took effect."""
    rows = [beat(0, 1_000, 0), beat(30, lag_ns, response_code), beat(60, 1_000, 0)]
    frames = {
        bronze.HEARTBEATS.name: frame(spark, bronze.HEARTBEATS, rows),
        bronze.REGISTRATIONS.name: frame(spark, bronze.REGISTRATIONS, []),
    }
    live = frame(spark, gold.BROKER_LIVE_HISTORY, [])
    heard = heard_of(frames, live, DAY, {NS: Namesrv(V4_9_7)})
    assert (set(heard.stalled), heard.beats) == (stalled, 3)
