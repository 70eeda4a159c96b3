"""The findings about the recording itself: gaps in it, clocks that go back or disagree."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pyspark.sql import SparkSession

from jobs.flag_clocks import clock_facts_from
from schemas import bronze, gold
from schemas.table import Table
from schemas.views import finding_queries
from tests.jobs.rows import Event, Row, event, frame, interval, seq

DAY = dt.date(2026, 3, 1)
NS, OTHER_NS = "10.0.0.1:9876", "10.0.0.2:9876"
SQL = {query.name: query.sql for query in finding_queries()}


def expired(name: str, last_beat: str, removed: str, returned: str | None = None, day: dt.date = DAY) -> Row:
    """Return a row of `expired_brokers`."""
    came_back: Row = {}
    if returned is not None:
        at = event(f"back of {name}", day, returned)
        came_back = {"returned_by": at[0], "returned_time": at[1]}
    scan = event(f"scan {removed}", day, removed)
    beat = event("", day, last_beat)[1]
    broker = {"namesrv_id": NS, "cluster_name": "C", "broker_name": name, "broker_addr": f"{name}:1", "cause": "scan"}
    when = {"last_beat_time": beat, "removed_time": scan[1], "removed_by": scan[0], "detection_lag_ms": 0}
    return {**broker, **when, **came_back, "heartbeat_timeout_ms": 120_000, "topics_lost": [], "day": day}


def live(name: str, opened: str, closed: str | None = None) -> Row:
    """Return a row of `broker_live_history`."""
    end = None if closed is None else event(f"scan {closed}", DAY, closed)
    span = interval(event(f"up {name}", DAY, opened), end)
    beats = {"first_update_time": span["valid_from"], "last_update_time": span["valid_from"]}
    return {
        "namesrv_id": NS,
        "cluster_name": "C",
        "broker_addr": f"{name}:1",
        "heartbeat_timeout_ms": 1,
        "day": DAY,
    } | (beats | span)


def found(spark: SparkSession, code: str, **tables: tuple[Table, list[Row]]) -> list[tuple[object, ...]]:
    """Return subject, times of day, detail and evidence of the findings of one code."""
    frames: dict[str, Any] = {name: frame(spark, table, rows) for name, (table, rows) in tables.items()}
    rows = spark.sql(SQL[code], **frames).orderBy("from_time").collect()
    return [
        (
            row["subject"],
            row["from_time"].time().isoformat(),
            None if row["to_time"] is None else row["to_time"].time().isoformat(),
            row["detail"],
            row["evidence"],
        )
        for row in rows
    ]


def test_gaps_are_those_that_are_known_and_those_that_look_like_an_outage(spark: SparkSession) -> None:
    """One that was recorded, and two waves in which every broker expired; one broker alone, or one that stays, is no gap."""
    at = event("gap", DAY, "03:00:00")
    until_ms = seq(event("", DAY, "03:10:00")[1]) // 1_000_000
    gap = {
        "namesrv_id": NS,
        "seq": seq(at[1]),
        "event_id": "gap",
        "effect_time": at[1],
        "operation": "recording_gap",
        "outcome": "unrecorded",
        "detail": str(until_ms),
        "changes": 0,
        "day": DAY,
    }
    waves = [
        expired("a", "10:00:00", "10:02:05", "10:20:00"),
        expired("b", "10:00:20", "10:02:25", "10:20:10"),
        expired("a", "10:30:00", "10:32:05"),
        expired("b", "10:30:05", "10:32:15"),
        expired("a", "20:00:00", "20:02:05"),  # b stays
    ]
    lives = [
        live("a", "00:00:00", "10:02:05"),
        live("b", "00:00:00", "10:02:25"),
        live("a", "10:20:00", "10:32:05"),
        live("b", "10:20:10", "10:32:15"),
        live("a", "19:00:00", "20:02:05"),
        live("b", "19:00:00"),
    ]
    rows = found(
        spark,
        "LOG_GAP",
        event_outcomes=(gold.EVENT_OUTCOMES, [gap]),
        expired_brokers=(gold.EXPIRED_BROKERS, waves),
        broker_live_history=(gold.BROKER_LIVE_HISTORY, lives),
    )
    assert [(subject, begin, end, evidence) for subject, begin, end, _, evidence in rows] == [
        (NS, "03:00:00", "03:10:00", ["gap"]),
        (NS, "10:00:20", "10:20:00", ["scan 10:02:05", "scan 10:02:25"]),
        (NS, "10:30:05", None, ["scan 10:32:05", "scan 10:32:15"]),
    ]
    assert str(rows[0][3]).startswith("nothing was recorded for 600 s")
    assert str(rows[1][3]).startswith("all 2 brokers fell silent and expired: an outage, or a gap in the log")


def test_a_clock_that_goes_back_is_a_finding_of_its_file(spark: SparkSession) -> None:
    """One for each file, with the first step in words; other facts and other days are none."""
    rows: list[Row] = []
    back, next_day = "clock_went_back", DAY + dt.timedelta(days=1)
    facts_of = [("a", back, DAY), ("a", back, DAY), ("a", "started", DAY), ("b", back, next_day)]
    for number, (file, kind, day) in enumerate(facts_of):
        at = event(f"fact-{number}", day, f"01:00:0{number}")
        where = {"source_file": file, "source_offset": 9 - number, "ingest_run": "r", "day": day}
        what = {"namesrv_id": NS, "event_id": at[0], "kind": kind, "evidence": f"step {number}", "seq": seq(at[1])}
        rows.append({**what, **where, "event_time": at[1], "effect_time": at[1]})
    facts = clock_facts_from(spark, {"namesrv_events": frame(spark, bronze.NAMESRV_EVENTS, rows)}, [DAY])
    (row,) = spark.sql(SQL["CLOCK_JUMP"], clock_facts=facts).collect()
    assert (row["subject"], row["detail"], row["evidence"]) == (
        "a",
        "2 steps back, the first: step 1",
        ["fact-0", "fact-1"],
    )
    assert clock_facts_from(spark, {}, [DAY]).isEmpty()


def test_clocks_disagree_with_brokers_and_with_each_other(spark: SparkSession) -> None:
    """A version from more than a minute ahead; three versions that two name servers were told at times far apart."""

    def reported(namesrv_id: str, at: Event, counter: int, stamp: str, *, seen: bool = True) -> Row:
        version = (0, seq(event("", DAY, stamp)[1]) // 1_000_000, counter)
        broker = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": "a:1"}
        rest = {"data_version": version, "is_regression": False, "day": DAY}
        return {"namesrv_id": namesrv_id, **broker, **rest, **interval(at), "beginning_seen": seen}

    rows = [reported(NS, event("ahead", DAY, "01:00:00"), 1, "01:01:01")]
    rows += [reported(NS, event("unseen", DAY, "01:30:00"), 2, "02:00:00", seen=False)]
    for number, late_s in enumerate((6, 7, 40), start=3):
        rows.append(reported(NS, event(f"one-{number}", DAY, f"0{number}:00:00"), number, f"0{number}:00:00"))
        other = event(f"other-{number}", DAY, f"0{number}:00:{late_s:02}")
        rows.append(reported(OTHER_NS, other, number, f"0{number}:00:00"))
    table = {"data_version_history": (gold.DATA_VERSION_HISTORY, rows)}
    ahead, apart = found(spark, "CLOCK_SKEW", **table)
    assert ahead == (
        "broker-a a:1",
        "01:00:00",
        "01:00:00",
        "its data version is up to 61 s ahead of the clock with which it was recorded",
        ["ahead"],
    )
    assert apart == (
        f"{NS} {OTHER_NS}",
        "03:00:00",
        "05:00:00",
        "the second recorded the same 3 data versions by 7.0 s later (the median)",
        ["one-3", "one-4", "one-5"],
    )
    assert [
        row[0] for row in found(spark, "CLOCK_SKEW", data_version_history=(gold.DATA_VERSION_HISTORY, rows[:6]))
    ] == ["broker-a a:1"]
