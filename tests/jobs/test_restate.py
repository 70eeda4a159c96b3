"""How two versions of published days are compared."""

from __future__ import annotations

import datetime as dt
import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.restate import MAX_CHANGES, MAX_EVENTS, changed_slices, changes_from, new_events_from, restatements_from
from schemas import gold
from tests.jobs.rows import Row, event, frame

DAY, NEXT = dt.date(2026, 3, 1), dt.date(2026, 3, 2)
NS, OTHER = "10.0.0.1:9876", "10.0.0.2:9876"


def finding(subject: str, detail: str = "d", namesrv_id: str = NS, day: dt.date = DAY) -> Row:
    """Return a row of `findings`."""
    at = event(f"of {subject}", day, "01:00:00")
    what = {"code": "NO_MASTER", "severity": "info", "subject": subject, "detail": detail, "evidence": [at[0]]}
    return {"namesrv_id": namesrv_id, **what, "from_time": at[1], "day": day}


def findings(spark: SparkSession, *rows: Row) -> dict[str, DataFrame]:
    """Return the table as the only one that is compared."""
    return {gold.FINDINGS.name: frame(spark, gold.FINDINGS, list(rows))}


def test_slices_that_differ_are_counted_and_shown_by_key(spark: SparkSession) -> None:
    """Added, removed and changed rows; an equal slice of another day or name server is none."""
    same = [finding("same", namesrv_id=OTHER), finding("same", day=NEXT)]
    old = findings(spark, *same, finding("stays"), finding("goes"), finding("changes", "before"))
    new = findings(spark, *same, finding("stays"), finding("comes"), finding("changes", "after"))
    changed = changed_slices(new, old)
    assert [tuple(row) for row in changed.collect()] == [(DAY, "findings", NS, 3, 3, 2, 2)]
    (row,) = changes_from(new, old, changed).collect()
    shown = {json.loads(change["key"])["subject"]: change for change in row["changes"]}
    assert {subject: change["change"] for subject, change in shown.items()} == {
        "comes": "added",
        "goes": "removed",
        "changes": "changed",
    }
    assert (shown["comes"]["before"], shown["goes"]["after"]) == (None, None)
    assert [json.loads(shown["changes"][side])["detail"] for side in ("before", "after")] == ["before", "after"]


def test_what_is_shown_is_bounded_and_what_is_counted_is_not(spark: SparkSession) -> None:
    """One table's day shows so many rows, all name servers together, whatever a recomputation changes."""
    rows = [finding(f"{number:03}", namesrv_id=NS if number < MAX_CHANGES - 1 else OTHER) for number in range(150)]
    new, old = findings(spark, *rows), findings(spark)
    changed = changed_slices(new, old)
    assert {row["namesrv_id"]: row["rows_added"] for row in changed.collect()} == {
        NS: MAX_CHANGES - 1,
        OTHER: 150 - MAX_CHANGES + 1,
    }
    shown = {row["namesrv_id"]: len(row["changes"]) for row in changes_from(new, old, changed).collect()}
    assert shown == {NS: MAX_CHANGES - 1, OTHER: 1}


def test_causes_are_late_events_an_earlier_day_or_other_rules(spark: SparkSession) -> None:
    """The last day merely went on if all new events lie behind the others; an earlier one did not. The first are named."""
    recorded = [
        *((DAY, NS, seq, f"old-{seq}", "known") for seq in (10, 20)),
        *((DAY, NS, 11 + number, f"new-{number:02}", "late") for number in range(MAX_EVENTS + 5)),
        *((DAY, OTHER, 10, "first", "known"), (DAY, OTHER, 11, "later", "late")),
        (NEXT, NS, 30, "next", "known"),
    ]
    schema = "day DATE, namesrv_id STRING, seq LONG, event_id STRING, ingest_run STRING"
    known = [spark.createDataFrame(recorded, schema)]
    followed = new_events_from(known, frozenset({"known"}), NEXT)
    assert not any(row["goes_on"] for row in followed.collect())
    events = new_events_from(known, frozenset({"known"}), DAY)
    found = {(row["day"], row["namesrv_id"]): row for row in events.collect()}
    assert set(found) == {(DAY, NS), (DAY, OTHER)}
    late = found[DAY, NS]
    assert (late["new_events"], late["ingest_runs"], late["goes_on"]) == (MAX_EVENTS + 5, ["late"], False)
    assert late["event_ids"] == [f"new-{number:02}" for number in range(MAX_EVENTS)]
    assert found[DAY, OTHER]["goes_on"]

    changed = spark.createDataFrame(
        [(day, "findings", namesrv_id, 1, 2, 1, 0) for day, namesrv_id in ((DAY, NS), (DAY, OTHER), (NEXT, NS))],
        "day DATE, table_name STRING, namesrv_id STRING, rows_before LONG, rows_after LONG, rows_added LONG, "
        "rows_removed LONG",
    )
    shown = changes_from(findings(spark), findings(spark), changed)
    for others, cause in (({}, "earlier_day"), ({"configuration": True, "code": True}, "configuration")):
        rows = restatements_from(changed, shown, events, {"configuration": False, "code": False} | others)
        assert {(row["day"], row["namesrv_id"]): row["cause"] for row in rows.collect()} == {
            (DAY, NS): "events",
            (NEXT, NS): cause,
        }
        assert rows.where(F.col("day") == F.lit(NEXT)).select("new_events", "event_ids", "changes").collect()[0] == (
            0,
            [],
            [],
        )
