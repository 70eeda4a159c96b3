"""Replay a day of recorded events through the name server's logic.

Reads   the bronze event tables, and the history slices of the day before (their open rows are the starting state)
Gives   the slices of the history tables, event_outcomes and refreshes_hourly of that day
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from jobs import units
from jobs.frames import Frames, codec_ready, day_events, topic_tables_of
from jobs.replay_unit import CARRIED_RANK, EVENT_RANK, TOPIC_CONFIG_RANK, NamesrvDay, UnitReplay
from jobs.tables import union_all
from namesrv_core.instants import NS_PER_MS, NS_PER_US
from namesrv_core.profile import Namesrv
from namesrv_core.schedule import START_BEFORE_FIRST_ACCEPT_NS, ScanEpoch, ScanSchedule
from schemas import gold
from schemas.bronze import EVENT_TABLES, RECORDED_TABLES
from schemas.codec import day_start_seq
from schemas.table import Table

REPLAYED_TABLES = (*gold.HISTORY_TABLES, gold.EVENT_OUTCOMES, gold.REFRESHES_HOURLY, gold.PAST_KNOWLEDGE)
_ROWS_PER_BATCH = 10_000
_PUT_KV, _DELETE_KV, _DELETE_TOPIC = 100, 102, 216
_KV_UNIT = "kv"
_WHOLE_UNIT = "whole"
# How far back a scan's packet tells when the timer ticks.
_PHASE_MEMORY = dt.timedelta(days=7)


def replayed_day(
    spark: SparkSession,
    bronze: Frames,
    carried: Frames,
    day: dt.date,
    contexts: Mapping[str, NamesrvDay],
    order: DataFrame | None = None,
) -> DataFrame:
    """Return the wide rows of all replayed tables for `day`, told apart by the column `table`.

    `carried` are the history slices from which the day starts; of them the rows that were open count. `order`:
    (event_id, seq, looked_up) for events that take effect elsewhere than recorded. Grain, keys and order of
    the result are those of the tables in it.
    """
    unknown = sorted(name for name, context in contexts.items() if context.has_unknown_past)
    events = _with_order(day_events(bronze, day, unknown), order).persist()
    open_rows = {t.name: carried[t.name].where("closed_by IS NULL") for t in gold.HISTORY_TABLES if t.name in carried}
    if unknown and gold.PAST_KNOWLEDGE.name in carried:
        open_rows[gold.PAST_KNOWLEDGE.name] = carried[gold.PAST_KNOWLEDGE.name]
    edges = [units.Edge(*row) for row in _edges_of(events, open_rows).collect()]
    unit_of = spark.createDataFrame(
        units.components(edges, units.must_stay_whole(edges, {name: c.namesrv for name, c in contexts.items()})),
        "namesrv_id STRING, node STRING, unit STRING",
    )
    rows = _replay_input(events, open_rows, bronze["topic_configs"], unit_of, unknown)

    def replay_unit(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Replay one unit; `key` is (namesrv_id, unit)."""
        unit = UnitReplay(contexts[key[0].as_py()])
        incoming = (row for batch in batches for row in batch.to_pylist())
        yield from _batches(unit.rows(incoming))

    return (
        rows.repartition("namesrv_id", "unit")
        .sortWithinPartitions("namesrv_id", "unit", "rank", "seq", "event_id")
        .groupBy("namesrv_id", "unit")
        .applyInArrow(replay_unit, WIDE_SCHEMA)
    )


def table_from(wide: DataFrame, table: Table, day: dt.date) -> DataFrame:
    """Return the rows of one replayed table for `day`; outcomes of an event that went to several units become one row."""
    rows = wide.where(F.col("table") == table.name).select(*[c for c in table.column_names if c != "day"])
    if table is gold.EVENT_OUTCOMES:
        rows = _one_outcome_each(rows)
    return rows.withColumn("day", F.lit(day))


def namesrv_days(
    bronze: Frames, carried: Frames, day: dt.date, namesrvs: Mapping[str, Namesrv]
) -> dict[str, NamesrvDay]:
    """Return, for each name server, its scan schedule and the end of what is known of it on `day`."""
    starts = (
        bronze["namesrv_events"]
        .where(F.col("kind").isin("started", "observed_from", "recording_gap") & (F.col("day") <= F.lit(day)))
        .select("namesrv_id", "seq", "kind", "day")
        .collect()
    )
    with_gap = {row["namesrv_id"] for row in starts if row["kind"] == "recording_gap" and row["day"] == day}
    starts = [row for row in starts if row["kind"] != "recording_gap"]
    with_start = {row["namesrv_id"] for row in starts}
    first_seen = {}
    if not with_start.issuperset(namesrvs):
        first_seen = {row["namesrv_id"]: row["seq"] for row in _first_seen(bronze).collect()}
    closes = _scan_closes(bronze["channel_events"].where(F.col("day").between(day - _PHASE_MEMORY, day))).collect()
    known_until = {row["namesrv_id"]: row["until_seq"] for row in _known_until(bronze, day).collect()}
    halted, past_carried = _scan_halted(carried), _with_carried_past(carried)
    snapshots = bronze["snapshots"].where(F.col("day") <= F.lit(day)).select("namesrv_id", "seq", "day")
    first_known = _first_of_each([*starts, *snapshots.withColumn("kind", F.lit("snapshot")).collect()])
    contexts = {}
    for namesrv_id, namesrv in namesrvs.items():
        epochs = [
            ScanEpoch(
                row["seq"],
                row["seq"] - START_BEFORE_FIRST_ACCEPT_NS,
                phase_known=row["kind"] == "started",
                period_ms=namesrv.at(row["seq"]).scan_period_ms,
            )
            for row in starts
            if row["namesrv_id"] == namesrv_id
        ]
        if not epochs and namesrv_id in first_seen:
            # An event log need not say when the server started; then any phase is as good as another.
            epochs = [ScanEpoch(first_seen[namesrv_id], first_seen[namesrv_id], phase_known=False)]
        schedule = ScanSchedule(
            epochs, namesrv.scan_period_ms, [row["seq"] for row in closes if row["namesrv_id"] == namesrv_id]
        )
        start = day_start_seq(day)
        until = known_until.get(namesrv_id, start)
        contexts[namesrv_id] = NamesrvDay(
            namesrv_id,
            namesrv,
            schedule,
            start,
            until,
            namesrv_id in halted,
            _unknown_from_ms(first_known.get(namesrv_id), day, namesrv),
            namesrv_id in past_carried,
            namesrv_id in with_gap,
        )
    return contexts


def _first_of_each(rows: Iterable[Row]) -> dict[str, Row]:
    """Return the first row of each name server."""
    first: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row["seq"]):
        first.setdefault(row["namesrv_id"], row)
    return first


def _unknown_from_ms(first: Row | None, day: dt.date, namesrv: Namesrv) -> int | None:
    """Return since when something is unknown of a name server of which `first` was known first; None: not since `day`.

    A process that starts has its KV table from a file; only with orderMessageEnable do its answers depend on that.
    """
    if first is None or first["day"] != day:
        return None
    unknown = first["kind"] != "started" or namesrv.config.order_message_enable
    return int(first["seq"] // NS_PER_MS) if unknown else None


def _with_carried_past(carried: Frames) -> set[str]:
    """Return the name servers of whose past something was unknown at the end of the day before."""
    if gold.PAST_KNOWLEDGE.name not in carried:
        return set()
    return {row["namesrv_id"] for row in carried[gold.PAST_KNOWLEDGE.name].select("namesrv_id").distinct().collect()}


def _scan_closes(channel_events: DataFrame) -> DataFrame:
    """Return closes that only a scan explains: by the server, of a channel that was not idle."""
    idle = channel_events.where("kind = 'idle'").select("namesrv_id", "channel_id")
    closes = channel_events.where("kind = 'close' AND closed_by = 'namesrv'")
    return closes.join(idle, on=["namesrv_id", "channel_id"], how="left_anti").select("namesrv_id", "seq")


def _first_seen(bronze: Frames) -> DataFrame:
    """Return per name server the position of its first recorded event."""
    seen = union_all(bronze[table.name].groupBy("namesrv_id").agg(F.min("seq").alias("seq")) for table in EVENT_TABLES)
    return seen.groupBy("namesrv_id").agg(F.min("seq").alias("seq"))


def _known_until(bronze: Frames, day: dt.date) -> DataFrame:
    """Return per name server the last position seen on `day`, or the day's end if more was seen afterwards."""
    seen = union_all(
        bronze[table.name].where(F.col("day") >= F.lit(day)).select("namesrv_id", "seq", "day")
        for table in RECORDED_TABLES
    )
    day_end = day_start_seq(day + dt.timedelta(days=1))
    return seen.groupBy("namesrv_id").agg(
        F.when(F.max("day") > F.lit(day), F.lit(day_end)).otherwise(F.max("seq")).alias("until_seq")
    )


def _scan_halted(carried: Frames) -> set[str]:
    """Return the name servers whose periodic scan an exception had ended by the end of the day before."""
    if "event_outcomes" not in carried:
        return set()
    last = (
        carried["event_outcomes"]
        .where("outcome IN ('scan_failed', 'started', 'stopped')")
        .groupBy("namesrv_id")
        .agg(F.max_by("outcome", "seq").alias("outcome"))
    )
    return {row["namesrv_id"] for row in last.where("outcome = 'scan_failed'").collect()}


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


def _edges_of(events: DataFrame, open_rows: Frames) -> DataFrame:
    """Return what ties broker names, addresses and channels together, in the day's events and in the starting state."""
    name, addr, channel = (
        units.node(k, c) for k, c in (("n", "broker_name"), ("a", "broker_addr"), ("c", "channel_id"))
    )
    brokers = events.where("kind IN ('heartbeats', 'registrations', 'unregistrations')")
    edges = units.edges_of(brokers, (addr, name))
    edges = edges.unionAll(units.edges_of(events.where("kind = 'registrations'"), (addr, channel)))
    edges = edges.unionAll(
        units.edges_of(events.where("broker_name IS NOT NULL AND kind = 'admin_events'"), (name, name))
    )
    topics = events.where("size(queue_datas) > 0").select(
        "namesrv_id",
        F.col("queue_datas")[0]["broker_name"].alias("broker_name"),
        F.explode("queue_datas.broker_name").alias("other_name"),
    )
    edges = edges.unionAll(units.edges_of(topics, (name, units.node("n", "other_name"))))
    pairs = {
        "broker_addr_history": (addr, name),
        "broker_live_history": (addr, channel),
        "data_version_history": (addr, name),
        "cluster_addr_history": (name, name),
        "topic_queue_history": (name, name),
        "filter_server_history": (addr, addr),
        "topic_queue_mapping_history": (units.node("n", "bname"),) * 2,
    }
    for table, pair in pairs.items():
        if table in open_rows:
            edges = edges.unionAll(units.edges_of(open_rows[table], pair))
    # A 4.x server takes a lost channel's remote address for a broker address.
    known = edges.select("namesrv_id", F.explode(F.array("one", "other")).alias("one")).distinct()
    remote = events.where("kind = 'channel_events'").select(
        "namesrv_id", units.node("a", "remote_addr").alias("one"), channel.alias("other")
    )
    return edges.unionAll(remote.join(known, on=["namesrv_id", "one"], how="left_semi")).distinct()


def _replay_input(
    events: DataFrame, open_rows: Frames, topic_configs: DataFrame, unit_of: DataFrame, unknown: Sequence[str]
) -> DataFrame:
    """Return all rows that the units need, with `unit` and `rank`, one wide schema.

    `unknown`: name servers of whose past something is unknown. They are one unit each: what is not known may tie
    anything to anything, and an answer shows rows of many brokers.
    """
    is_unknown = F.col("namesrv_id").isin(*unknown) if unknown else F.lit(False)
    placed = union_all(
        [
            _placed(events.where(~is_unknown), unit_of),
            events.where(is_unknown).withColumn("unit", F.lit(_WHOLE_UNIT)),
        ]
    )
    configs = topic_tables_of(placed, topic_configs, "namesrv_id", "unit")
    configs = configs.withColumn("rank", F.lit(TOPIC_CONFIG_RANK))
    carried = (_carried_rows(frame, table, unit_of) for table, frame in open_rows.items())
    rows = union_all([placed.withColumn("rank", F.lit(EVENT_RANK)), configs, *carried])
    return rows.withColumn("unit", F.when(is_unknown, F.lit(_WHOLE_UNIT)).otherwise(F.col("unit")))


def _placed(events: DataFrame, unit_of: DataFrame) -> DataFrame:
    """Return the events with their unit; one that concerns all units comes once for each."""
    # The start and stop of the server, and a topic's deletion, concern whoever is registered.
    for_all = (F.col("kind") == "namesrv_events") | F.col("code").eqNullSafe(_DELETE_TOPIC)
    first_queue = F.when(F.size("queue_datas") > 0, F.col("queue_datas")[0]["broker_name"])
    own = events.where(~for_all).withColumn(
        "node",
        F.coalesce(
            units.node("a", "broker_addr"),
            units.node("n", "broker_name"),
            F.concat(F.lit("n:"), first_queue),
            F.when(F.col("kind") == "channel_events", units.node("c", "channel_id")),
            units.node("a", "remote_addr"),
        ),
    )
    kv = F.col("code").eqNullSafe(_PUT_KV) | F.col("code").eqNullSafe(_DELETE_KV)
    own = _with_unit(own, unit_of, F.when(kv, F.lit(_KV_UNIT)).otherwise(F.lit(units.ELSEWHERE)))
    everywhere = unit_of.select("namesrv_id", "unit").unionAll(
        events.select("namesrv_id", F.explode(F.array(F.lit(_KV_UNIT), F.lit(units.ELSEWHERE))).alias("unit"))
    )
    spread = events.where(for_all).join(F.broadcast(everywhere.distinct()), on="namesrv_id", how="inner")
    return own.unionByName(spread)


def _with_unit(rows: DataFrame, unit_of: DataFrame, otherwise: Column) -> DataFrame:
    found = F.broadcast(unit_of)
    joined = rows.join(found, on=["namesrv_id", "node"], how="left")
    return joined.withColumn("unit", F.coalesce("unit", otherwise)).drop("node")


def _carried_rows(frame: DataFrame, table: str, unit_of: DataFrame) -> DataFrame:
    has = set(frame.columns)
    keys = [("a", "broker_addr"), ("n", "broker_name"), ("n", "bname")]
    found = [units.node(kind, column) for kind, column in keys if column in has]
    rows = frame.withColumn("node", F.coalesce(*found) if found else F.lit(None).cast("string"))
    rows = _with_unit(codec_ready(rows), unit_of, F.lit(_KV_UNIT if table == "kv_config_history" else units.ELSEWHERE))
    return rows.withColumn("kind", F.lit(table)).withColumn("rank", F.lit(CARRIED_RANK))


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
    """Return the union of the replayed tables' columns, all nullable, after the name of the table."""
    fields: dict[str, T.StructField] = {"table": T.StructField("table", T.StringType(), nullable=False)}
    for table in REPLAYED_TABLES:
        for column in table.columns:
            field = fields.setdefault(column.name, T.StructField(column.name, column.type, nullable=True))
            if field.dataType != column.type:
                raise TypeError(f"{table.name}.{column.name}: {column.type} here, {field.dataType} in another table")
    fields.pop("day")
    return T.StructType(list(fields.values()))


def _batches(rows: Iterator[dict[str, object]]) -> Iterator[pa.RecordBatch]:
    pending: list[dict[str, object]] = []
    for row in rows:
        pending.append(row)
        if len(pending) == _ROWS_PER_BATCH:
            yield pa.RecordBatch.from_pylist(pending, schema=_WIDE_ARROW)
            pending = []
    if pending:
        yield pa.RecordBatch.from_pylist(pending, schema=_WIDE_ARROW)


WIDE_SCHEMA = _wide_schema()
_WIDE_ARROW = to_arrow_schema(WIDE_SCHEMA, timezone="UTC")
