"""Replay a day of recorded events through the name server's logic.

Reads   the plan of a day: its events, and the rows that were open at the end of the day before (the starting state)
Gives   the slices of the history tables, event_outcomes, refreshes_hourly and past_knowledge of that day
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from jobs import placing
from jobs.arrow_rows import batches_of
from jobs.day_plan import DayPlan, Unit
from jobs.forward import forwarded
from jobs.frames import Batches, of_packs, topic_tables_of
from jobs.replay_unit import EVENT_RANK, TOPIC_CONFIG_RANK, NamesrvDay, replayed_units
from jobs.tables import union_all
from namesrv_core.machine.instants import NS_PER_US
from schemas import gold
from schemas.table import Table

REPLAYED_TABLES = (*gold.HISTORY_TABLES, gold.EVENT_OUTCOMES, gold.REFRESHES_HOURLY, gold.PAST_KNOWLEDGE)
NOT_QUIET = "not_quiet"


def replayed_day(
    plan: DayPlan, topic_configs: DataFrame, contexts: Mapping[str, NamesrvDay], order: DataFrame | None = None
) -> DataFrame:
    """Return the wide rows that the replay gives of all replayed tables, told apart by the column `table`.

    `order`: (event_id, seq, looked_up) for events that take effect elsewhere than recorded. Grain, keys and order of the
    result are those of the tables in it. A row of table NOT_QUIET names a unit that is not as quiet as the plan takes
    it to be: what else is said of it does not count.
    """
    rows = _replay_input(plan, _with_order(plan.events, order), topic_configs)

    def replay_pack(batches: Batches) -> Batches:
        """Replay the units of one pack, one after the other."""
        yield from batches_of(replayed_units(batches, contexts), _WIDE_ARROW)

    by_seq = ("namesrv_id", "unit", "rank", "seq", "event_id")
    return of_packs(rows, plan.pack_count, by_seq, replay_pack, WIDE_SCHEMA)


def rows_by_table(wide: DataFrame) -> dict[str, int]:
    """Return how many rows there are of each table."""
    return {row["table"]: row["count"] for row in wide.groupBy("table").count().collect()}


def not_quiet_of(wide: DataFrame) -> set[Unit]:
    """Return the units that must be replayed event by event."""
    rows = wide.where(F.col("table") == NOT_QUIET).select("namesrv_id", "unit").collect()
    return {(row["namesrv_id"], row["unit"]) for row in rows}


def table_from(wide: DataFrame, plan: DayPlan, table: Table, day: dt.date) -> DataFrame:
    """Return the rows of one replayed table for `day`: those of the replay, and those that are carried forward."""
    rows = wide.where(F.col("table") == table.name).select(*[c for c in table.column_names if c != "day"])
    if table is gold.EVENT_OUTCOMES:
        rows = _one_outcome_each(rows)
    kept = forwarded(plan, table)
    if kept is not None:
        rows = rows.unionByName(kept)
    if table is gold.REFRESHES_HOURLY and kept is not None:
        rows = _one_hour_each(rows)
    return rows.withColumn("day", F.lit(day))


def _one_hour_each(rows: DataFrame) -> DataFrame:
    """Return one row for each live entry and hour of which a part was replayed event by event and a part was not."""
    return rows.groupBy("namesrv_id", "cluster_name", "broker_addr", "hour").agg(
        F.sum("refreshes").alias("refreshes"),
        F.min("first_time").alias("first_time"),
        F.max("last_time").alias("last_time"),
    )


def _replay_input(plan: DayPlan, events: DataFrame, topic_configs: DataFrame) -> DataFrame:
    """Return all rows that the packs need, with `pack`, `unit` and `rank`, one wide schema.

    Name servers of whose past something is unknown are one unit each: what is not known may tie anything to anything,
    and an answer shows rows of many brokers.
    """
    is_unknown = F.col("namesrv_id").isin(*plan.unknown) if plan.unknown else F.lit(False)
    placed = union_all(
        [
            placing.placed(events.where(~is_unknown), plan.unit_of),
            events.where(is_unknown).withColumn("unit", F.lit(placing.WHOLE_UNIT)),
        ]
    )
    configs = topic_tables_of(placed, topic_configs, "namesrv_id", "unit")
    configs = configs.withColumn("rank", F.lit(TOPIC_CONFIG_RANK))
    carried = (placing.carried_rows(frame, table, plan.unit_of) for table, frame in plan.open_rows.items())
    rows = union_all([placed.withColumn("rank", F.lit(EVENT_RANK)), configs, *carried])
    rows = rows.withColumn("unit", F.when(is_unknown, F.lit(placing.WHOLE_UNIT)).otherwise(F.col("unit")))
    return rows.join(F.broadcast(plan.packs), on=["namesrv_id", "unit"], how="inner")


def _with_order(events: DataFrame, order: DataFrame | None) -> DataFrame:
    if order is None:
        return events
    moved = order.select("event_id", F.col("seq").alias("moved_seq"), "looked_up")
    return (
        events.join(F.broadcast(moved), on="event_id", how="left")
        .withColumn("effect_us", F.coalesce(F.expr(f"moved_seq DIV {NS_PER_US}"), "effect_us"))
        .withColumn("seq", F.coalesce("moved_seq", "seq"))
        .drop("moved_seq")
    )


def _one_outcome_each(rows: DataFrame) -> DataFrame:
    """Return one row per event: one that did something in any unit counts as that, changes and counts are added up."""
    plain = [c for c in rows.columns if c not in ("outcome", "changes", "detail", "notifications")]
    sent = F.array_sort(F.flatten(F.collect_list("notifications")))
    counted = (
        F.sum(F.try_cast("detail", "bigint")) if hasattr(F, "try_cast") else F.sum(F.expr("try_cast(detail AS BIGINT)"))
    )
    return (
        rows.groupBy(*plain)
        .agg(
            F.max_by("outcome", F.struct("changes", "outcome")).alias("outcome"),
            F.sum("changes").cast("int").alias("changes"),
            F.when(F.count("detail") > 1, F.coalesce(counted.cast("string"), F.max("detail")))
            .otherwise(F.max("detail"))
            .alias("detail"),
            F.when(F.size(sent) > 0, sent).alias("notifications"),
        )
        .select(*rows.columns)
    )


def _wide_schema() -> T.StructType:
    """Return the union of the replayed tables' columns, all nullable, after the name of the table and a unit."""
    fields: dict[str, T.StructField] = {
        "table": T.StructField("table", T.StringType(), nullable=False),
        "unit": T.StructField("unit", T.StringType(), nullable=True),
    }
    for table in REPLAYED_TABLES:
        for column in table.columns:
            field = fields.setdefault(column.name, T.StructField(column.name, column.type, nullable=True))
            if field.dataType != column.type:
                raise TypeError(f"{table.name}.{column.name}: {column.type} here, {field.dataType} in another table")
    fields.pop("day")
    return T.StructType(list(fields.values()))


WIDE_SCHEMA = _wide_schema()
_WIDE_ARROW = to_arrow_schema(WIDE_SCHEMA, timezone="UTC")
