"""What a run changes in days that were published before: the rows of `restatements`.

Reads   the slices as they are now and as the last published run pinned them; the events of those days
Writes  restatements

A day is restated where the digest of a slice - one table, one name server - is another than the published one. A day that
merely went on, because it was the last one and every new event lies behind all that was known of it, is none.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs import __version__, tables
from jobs.frames import Frames
from jobs.warehouse import Warehouse
from schemas import bronze, gold
from schemas.table import Table

MAX_CHANGES = 100
"""Changed rows that are shown of one table's day, all name servers together; the counts are of all."""
MAX_EVENTS = 20
"""New events that are named."""
COMPARED = (*gold.HISTORY_TABLES, *gold.REPORT_TABLES)
SHOWN = (
    gold.TOPIC_QUEUE_HISTORY,
    gold.BROKER_ADDR_HISTORY,
    gold.EXPIRED_BROKERS,
    gold.ORPHANED_TOPICS,
    gold.ROUTE_CHANGES,
    gold.FINDINGS,
)
"""Tables of which the changed rows are shown: those that readers look at most."""
_SLICE = ("day", "table_name", "namesrv_id")


def restate_days(house: Warehouse, days: Sequence[dt.date]) -> int:
    """Write what this run changed in those of `days` that were published before; return the number of slices changed.

    To be called when all slices of `days` are written and before the run is published: until then no reader sees its rows.
    """
    ledger, before = house.ledger(), house.ledger().last
    known_days = sorted(ledger.days.intersection(days))
    if before is None or not known_days:
        return 0
    causes = {
        "configuration": before.config_sha256 != house.conf.sha256,
        "code": before.code_version != __version__,
    }
    recorded = house.slices(bronze.RECORDED_TABLES, known_days)
    events = tables.cut_short(new_events_from(list(recorded.values()), ledger.covered, max(ledger.days)))
    fresh = events.collect()
    if known_days == [min(days)] and not any(causes.values()) and all(row["goes_on"] for row in fresh):
        if fresh or not _settings_differ(house, known_days[0]):
            return 0  # nothing before that day was replayed, and what was known of it stays
        causes["configuration"] = True
    compared = [table for table in COMPARED if table.name in before.versions]
    new, old = house.slices(compared, known_days), house.published_slices(compared, known_days)
    changed = tables.cut_short(changed_slices(new, old))
    if changed.isEmpty():
        return 0
    rows = restatements_from(changed, changes_from(new, old, changed), events, causes)
    rows = rows.withColumns({"run_id": F.lit(house.run_id), "previous_run": F.lit(before.run_id)})
    rows = tables.cut_short(rows)
    tables.append(rows, house.path, gold.RESTATEMENTS)
    return rows.count()


def _settings_differ(house: Warehouse, day: dt.date) -> bool:
    """Return whether a name server was configured otherwise on `day`, as far as is known now, than the published run knew."""

    def values(frames: Frames) -> set[tuple[object, ...]]:
        rows = frames[gold.NAMESRV_SETTINGS.name].select("namesrv_id", "setting", "from_seq", "value").collect()
        return {tuple(row) for row in rows}

    table = [gold.NAMESRV_SETTINGS]
    return values(house.slices(table, [day])) != values(house.published_slices(table, [day]))


def changed_slices(new: Frames, old: Frames) -> DataFrame:
    """Return (day, table_name, namesrv_id, rows_before, rows_after, rows_added, rows_removed) of slices that differ.

    Rows are compared whole; equal rows count as often as they are there.
    """
    hashed = tables.union_all(
        frame.select(
            "day",
            F.lit(name).alias("table_name"),
            "namesrv_id",
            F.xxhash64(*frame.columns).alias("hash"),
            F.lit(sign).alias("sign"),
        )
        for sign, frames in ((1, new), (-1, old))
        for name, frame in frames.items()
    )
    surplus = hashed.groupBy(*_SLICE, "hash").agg(
        F.sum("sign").alias("surplus"),
        F.count_if(F.col("sign") < 0).alias("before"),
        F.count_if(F.col("sign") > 0).alias("after"),
    )
    counted = surplus.groupBy(*_SLICE).agg(
        F.sum("before").alias("rows_before"),
        F.sum("after").alias("rows_after"),
        F.sum(F.greatest("surplus", F.lit(0))).alias("rows_added"),
        F.sum(F.greatest(-F.col("surplus"), F.lit(0))).alias("rows_removed"),
    )
    return counted.where("rows_added > 0 OR rows_removed > 0")


def changes_from(new: Frames, old: Frames, changed: DataFrame) -> DataFrame:
    """Return (day, table_name, namesrv_id, changes): of the tables in `SHOWN` the first changed rows, by their keys."""
    compared = tables.union_all(_compared(new[t.name], old[t.name], t) for t in SHOWN if t.name in new)
    within = compared.join(F.broadcast(changed.select(*_SLICE)), on=list(_SLICE), how="left_semi")
    first = Window.partitionBy("day", "table_name").orderBy("namesrv_id", "key", "change")
    shown = within.withColumn("number", F.row_number().over(first)).where(F.col("number") <= MAX_CHANGES)
    change = F.struct("number", "key", "change", "before", "after")
    listed = F.transform(F.sort_array(F.collect_list(change)), lambda one: one.dropFields("number"))
    return shown.groupBy(*_SLICE).agg(listed.alias("changes"))


def _compared(new: DataFrame, old: DataFrame, table: Table) -> DataFrame:
    """Return the rows of one table that were added, removed or changed, told apart by the table's key."""
    key = [name for name in table.key if name not in ("day", "namesrv_id")]
    rest = [name for name in table.column_names if name not in table.key]

    def keyed(frame: DataFrame, side: str) -> DataFrame:
        said = F.to_json(F.struct(*rest), {"ignoreNullFields": "false"}).alias(side)
        return frame.select("day", "namesrv_id", F.to_json(F.struct(*key)).alias("key"), said)

    both = keyed(old, "before").join(keyed(new, "after"), on=["day", "namesrv_id", "key"], how="full")
    change = F.when(F.col("before").isNull(), "added").when(F.col("after").isNull(), "removed").otherwise("changed")
    differing = both.where(~F.col("before").eqNullSafe(F.col("after")))
    return differing.withColumns({"change": change, "table_name": F.lit(table.name)})


def new_events_from(recorded: Sequence[DataFrame], known_runs: frozenset[str], last_day: dt.date) -> DataFrame:
    """Return (day, namesrv_id, new_events, event_ids, ingest_runs, goes_on) of events and answers that no published run covers.

    `goes_on`: all of them lie behind all others of the day, and nothing that was published depends on how it ended: it is
    `last_day`, the last that was published.
    """
    is_known = F.col("ingest_run").isin(*known_runs) if known_runs else F.lit(False)
    events = tables.union_all(
        frame.select("day", "namesrv_id", "seq", "event_id", "ingest_run", is_known.alias("is_known"))
        for frame in recorded
    )
    last_known = events.where("is_known").groupBy("day", "namesrv_id").agg(F.max("seq").alias("last_known"))
    in_order = Window.partitionBy("day", "namesrv_id").orderBy("seq", "event_id")
    fresh = events.where("NOT is_known").withColumn("number", F.row_number().over(in_order))
    named = F.when(F.col("number") <= MAX_EVENTS, F.struct("number", "event_id"))
    counted = fresh.groupBy("day", "namesrv_id").agg(
        F.count("*").alias("new_events"),
        F.sort_array(F.collect_list(named))["event_id"].alias("event_ids"),
        F.sort_array(F.collect_set("ingest_run")).alias("ingest_runs"),
        F.min("seq").alias("first"),
    )
    joined = counted.join(last_known, on=["day", "namesrv_id"], how="left")
    return joined.withColumn("goes_on", F.expr("first > last_known") & (F.col("day") == F.lit(last_day))).drop(
        "first", "last_known"
    )


def restatements_from(
    changed: DataFrame, changes: DataFrame, new_events: DataFrame, causes: Mapping[str, bool]
) -> DataFrame:
    """Return the rows of `restatements` without the runs. `causes`: whether configuration and code are others than before."""
    joined = changed.join(changes, on=list(_SLICE), how="left").join(
        F.broadcast(new_events), on=["day", "namesrv_id"], how="left"
    )
    others = [F.lit(name) for name, is_other in causes.items() if is_other]
    cause: Column = F.when(F.col("new_events") > 0, "events").otherwise(others[0] if others else "earlier_day")
    return (
        joined.where(~F.coalesce("goes_on", F.lit(False)))
        .withColumns(
            {
                "cause": cause,
                "new_events": F.coalesce("new_events", F.lit(0)),
                **{name: F.coalesce(name, F.array().cast("array<string>")) for name in ("event_ids", "ingest_runs")},
                "changes": F.coalesce(
                    "changes",
                    F.expr(
                        "CAST(array() AS ARRAY<STRUCT<key: STRING, change: STRING, before: STRING, after: STRING>>)"
                    ),
                ),
            }
        )
        .drop("goes_on")
    )
