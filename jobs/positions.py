"""Gives each event of an event log a position of its own.

The lines of a log may leave it out; then it is made from the time, file by file. Events of one instant in different files
would share one, so the one that was made gives way. Two events that both say the same position contradict each other: the
later one is refused.

Reads   the staged events of a run, and the stored events of the same days
Gives   the staged events, with `seq` unique, and `SEQ_TAKEN` where it cannot be
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from jobs import tables
from jobs.staging import ROW_NUMBER, SEQ_IS_GIVEN
from namesrv_core.machine.instants import NS_PER_US
from schemas.bronze import EVENT_TABLES

SEQ_TAKEN = "_seq_taken"
"""Column of a staged event: another one has its position."""
_OWN = ("namesrv_id", "event_id")
_POSITION = ("namesrv_id", "seq")


def with_own_positions(
    spark: SparkSession, warehouse: str, staged: Mapping[str, DataFrame], days: Collection[dt.date]
) -> dict[str, DataFrame]:
    """Return `staged` with the positions of events made unique among themselves and those that are stored on `days`.

    A stored event keeps its position, a given one goes before a made one, an earlier line before a later one. What has to
    move goes behind the last event of its microsecond.
    """
    events = {table.name: staged[table.name] for table in EVENT_TABLES if table.name in staged}
    if not events:
        return dict(staged)
    settled = _settled(spark, warehouse, events, days).localCheckpoint()
    if settled.isEmpty():
        return dict(staged)
    placed = {}
    for name, frame in events.items():
        joined = frame.join(settled, on="event_id", how="left")
        placed[name] = joined.withColumns(
            {"seq": F.coalesce("_new_seq", "seq"), SEQ_TAKEN: F.col("_is_refused").eqNullSafe(F.lit(True))}
        ).drop("_new_seq", "_is_refused")
    return {**staged, **placed}


def _settled(
    spark: SparkSession, warehouse: str, events: Mapping[str, DataFrame], days: Collection[dt.date]
) -> DataFrame:
    """Return (event_id, _new_seq, _is_refused) of the staged events that cannot keep their positions."""
    stored = tables.union_all(
        tables.read_table(spark, warehouse, table)
        .where(F.col("day").isin(*days))
        .select(*_POSITION, "event_id", F.lit(0).alias("rank"), F.lit(0).alias("number"))
        for table in EVENT_TABLES
    )
    fresh = tables.union_all(
        frame.select(
            *_POSITION,
            "event_id",
            F.when(F.col(SEQ_IS_GIVEN), 1).otherwise(2).alias("rank"),
            F.col(ROW_NUMBER).alias("number"),
        )
        for frame in events.values()
    ).join(stored, on=list(_OWN), how="left_anti")
    everything = stored.unionByName(fresh).withColumn("micros", F.expr(f"seq DIV {NS_PER_US}"))
    same_position = Window.partitionBy(*_POSITION).orderBy("rank", "number")
    same_instant = Window.partitionBy("namesrv_id", "micros")
    ranked = everything.withColumns(
        {"place": F.row_number().over(same_position), "last": F.max("seq").over(same_instant)}
    ).where("place > 1 AND rank > 0")
    new_seq = F.col("last") + F.row_number().over(same_instant.orderBy("seq", "number"))
    moved = ranked.where("rank = 2").withColumn("_new_seq", new_seq)
    moved = moved.withColumn("_is_refused", F.expr(f"_new_seq DIV {NS_PER_US} <> micros"))
    refused = ranked.where("rank = 1").withColumns({"_new_seq": F.col("seq"), "_is_refused": F.lit(True)})
    return moved.unionByName(refused).select("event_id", "_new_seq", "_is_refused")
