"""Decide what of a day must be replayed, and in which pieces.

Reads   the bronze event tables of the day, and the rows that were open when it began
Gives   the events to replay, the unit of everything, packs of units of about equal weight, and the units without any news

Two roads: a unit in which nothing but heartbeats happened, none of them too late, is quiet: its rows are carried forward as
they are. Of the others the core replays what happened in eventful periods, event by event; each period in between is one
run of heartbeats for each live entry. The core refuses a run that would do more than renew a lease, and the unit is then
replayed event by event: what this module decides costs or saves time, and never changes a result.
"""

from __future__ import annotations

import datetime as dt
import heapq
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from jobs import placing, quiet, units
from jobs.frames import Batches, Frames, day_events, of_packs, pack_of
from jobs.replay_unit import EVENT_RANK, NamesrvDay, failed_trials
from jobs.session import shuffle_partitions, tuned_for
from jobs.tables import cut_short, union_all
from namesrv_core.machine.instants import NS_PER_US
from schemas import gold
from schemas.bronze import EVENT_TABLES
from schemas.times import day_start_us

Unit = tuple[str, str]
_OTHERS = tuple(table for table in EVENT_TABLES if table not in quiet.BEATS)
_TOPIC_TABLES = (gold.TOPIC_QUEUE_HISTORY.name, gold.TOPIC_QUEUE_MAPPING_HISTORY.name)
_TRIAL_PACKS = 8
_FEW_ADDRS = 1_000
_DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Quiet:
    """The quiet road of a day.

    `names`: the name servers that take it; `with_cluster`: those whose live entries are keyed with their cluster.
    `buckets` and `spans`: their beats (`quiet.buckets_from`, `spans_from`). `eventful`: (namesrv_id, unit, period) that are
    replayed event by event; `nodes`: (namesrv_id, node, unit) of the units without any news.
    """

    names: list[str]
    with_cluster: list[str]
    buckets: DataFrame
    spans: DataFrame
    eventful: DataFrame
    nodes: DataFrame


@dataclass(frozen=True)
class DayPlan:
    """What to replay. `events` as `day_events` gives them, runs among them; `packs`: (namesrv_id, unit, pack).

    `beats`: about how many of the events are single beats; None: all that there are.
    """

    day: dt.date
    unknown: list[str]
    open_rows: Frames
    events: DataFrame
    unit_of: DataFrame
    packs: DataFrame
    pack_count: int
    quiet: Quiet | None = None
    beats: int | None = None


def planned_day(
    spark: SparkSession,
    bronze: Frames,
    carried: Frames,
    day: dt.date,
    contexts: Mapping[str, NamesrvDay],
    *,
    heard: quiet.Heard | None = None,
    not_quiet: Collection[Unit] = (),
) -> DayPlan:
    """Return the plan of `day`.

    `heard`: its beats, if quiet units are to be told from others. `not_quiet`: units that are replayed event by event,
    whatever their beats look like.
    """
    names = sorted(set(quiet.eligible(contexts)) - heard.stalled) if heard is not None else []
    unknown = sorted(name for name, context in contexts.items() if context.has_unknown_past)
    open_rows = _open_rows(carried, unknown)
    others = day_events(bronze, day, unknown, tables=_OTHERS)
    beats = day_events(bronze, day, tables=quiet.BEATS)
    if names and heard is not None:
        day_input = _DayInput(spark, day, contexts, bronze, open_rows, others, beats, heard)
        return _on_two_roads(day_input, unknown, names, not_quiet)
    events = union_all([others, beats])
    nodes = _nodes_of(events, open_rows, contexts)
    packs, count = _packs(spark, nodes, contexts)
    return DayPlan(day, unknown, open_rows, events, _unit_frame(spark, nodes), packs, count)


class _DayInput(NamedTuple):
    spark: SparkSession
    day: dt.date
    contexts: Mapping[str, NamesrvDay]
    bronze: Frames
    open_rows: Frames
    others: DataFrame
    beats: DataFrame
    heard: quiet.Heard


def _on_two_roads(given: _DayInput, unknown: list[str], names: list[str], not_quiet: Collection[Unit]) -> DayPlan:
    """Return the plan of a day on which the name servers `names` take the quiet road where they can."""
    spark, day, contexts, _, open_rows, others, beats, (leases, buckets, _, recorded, *_) = given
    on_road = F.col("namesrv_id").isin(*names)
    left = [] if len(names) == len(contexts) else [beats.where(~on_road)]
    heard = buckets.where(on_road)
    nodes = _nodes_of(union_all([others, heard, *left]), open_rows, contexts)
    unit_of = _unit_frame(spark, nodes)
    of_names = {name: contexts[name] for name in names}
    spans = quiet.spans_from(heard, leases, open_rows[_LIVE].where(on_road), of_names)
    spans = cut_short(spans)
    eventful = cut_short(quiet.periods_of(_disturbances(spans, others.where(on_road), open_rows, unit_of, of_names)))
    raw = {(row["namesrv_id"], row["unit"]): row["beats"] for row in _raw_of(heard, unit_of, eventful).collect()}
    on_two = {(name, unit) for name, _, unit in nodes if name in of_names and unit != units.ELSEWHERE}
    whole_day = {*not_quiet, *_failed(given, sorted(on_two - raw.keys()), heard, unit_of)}
    if whole_day:
        eventful = cut_short(union_all([eventful, _all_periods(spark, day, whole_day)]).distinct())
    quiet_units = on_two - raw.keys() - whole_day
    active = [node for node in nodes if (node[0], node[2]) not in quiet_units]
    quiet_nodes = _unit_frame(spark, [node for node in nodes if (node[0], node[2]) in quiet_units])
    if raw or whole_day:
        with tuned_for(spark, recorded):  # all of the day's beats are read once more
            single = cut_short(_raw_beats(beats.where(on_road), unit_of, eventful))
        of_road = [single, _runs(heard, unit_of, quiet_nodes, eventful, quiet.with_cluster(contexts))]
    else:
        of_road = [beats.where("false")]
    replayed = [others, *left, *of_road]
    packs, count = _packs(spark, active, contexts, raw)
    road = Quiet(names, quiet.with_cluster(contexts), heard, spans, eventful, quiet_nodes)
    return DayPlan(day, unknown, open_rows, union_all(replayed), unit_of, packs, count, road, sum(raw.values()))


_LIVE = gold.BROKER_LIVE_HISTORY.name
_EVENTFUL = "namesrv_id STRING, unit STRING, period BIGINT"


def _open_rows(carried: Frames, unknown: list[str]) -> Frames:
    rows = {t.name: carried[t.name].where("closed_by IS NULL") for t in gold.HISTORY_TABLES if t.name in carried}
    if unknown and gold.PAST_KNOWLEDGE.name in carried:
        rows[gold.PAST_KNOWLEDGE.name] = carried[gold.PAST_KNOWLEDGE.name]
    return rows


def _nodes_of(mentions: DataFrame, open_rows: Frames, contexts: Mapping[str, NamesrvDay]) -> list[tuple[str, str, str]]:
    """Return (namesrv_id, node, unit) of everything that is mentioned."""
    crossings = placing.crossings_of(mentions, open_rows).select("namesrv_id", "what", F.lit(None).alias("other"))
    rows = placing.edges_of(mentions, open_rows).unionAll(crossings).collect()
    edges = [units.Edge(*row) for row in rows if row["other"] is not None]
    crossing = [units.Crossing(row["namesrv_id"], row["one"]) for row in rows if row["other"] is None]
    whole = units.must_stay_whole(edges, {name: context.namesrv for name, context in contexts.items()}, crossing)
    return units.components(edges, whole)


def _unit_frame(spark: SparkSession, nodes: list[tuple[str, str, str]]) -> DataFrame:
    schema = pa.schema([("namesrv_id", pa.string()), ("node", pa.string()), ("unit", pa.string())])
    columns = [[node[i] for node in nodes] for i in range(len(schema))]
    return cut_short(spark.createDataFrame(pa.table(columns, schema=schema)))


def _disturbances(
    spans: DataFrame, others: DataFrame, open_rows: Frames, unit_of: DataFrame, contexts: Mapping[str, NamesrvDay]
) -> DataFrame:
    """Return (namesrv_id, unit, from_us, to_us): when something may happen to a unit."""
    of_beats = quiet.disturbances_from(spans, contexts).join(F.broadcast(unit_of), on=["namesrv_id", "node"])
    deletions = F.col("code").eqNullSafe(placing.DELETE_TOPIC) & F.col("topic").isNotNull()
    span = (F.coalesce("received_us", "effect_us").alias("from_us"), F.col("effect_us").alias("to_us"))
    placed = placing.placed(others.where(~deletions), unit_of).select("namesrv_id", "unit", *span)
    topics = open_rows[gold.TOPIC_QUEUE_HISTORY.name].select(
        "namesrv_id", "topic", units.key_node("n", "broker_name").alias("node")
    )
    deleted = (
        topics.join(
            F.broadcast(others.where(deletions).select("namesrv_id", "topic", *span)), on=["namesrv_id", "topic"]
        )
        .join(F.broadcast(unit_of), on=["namesrv_id", "node"])
        .select("namesrv_id", "unit", "from_us", "to_us")
    )
    return union_all([of_beats.select("namesrv_id", "unit", "from_us", "to_us"), placed, deleted])


def _failed(given: _DayInput, silent: list[Unit], beats: DataFrame, unit_of: DataFrame) -> list[Unit]:
    """Return the units of which a first beat, tried on the state in which the day begins, does more than renew a lease."""
    spark, _, contexts, bronze, open_rows, *_ = given
    if not silent:
        return []
    of_silent = unit_of.join(
        F.broadcast(spark.createDataFrame(silent, "namesrv_id STRING, unit STRING")), on=["namesrv_id", "unit"]
    )
    said = [c for c in beats.columns if c not in quiet.MEASURES]
    different = beats.groupBy(*said).agg(F.min("first_us").alias("seq"), F.max("last_us").alias("effect_us"))
    names = sorted({name for name, _ in silent})
    state = [
        placing.carried_rows(rows.where(F.col("namesrv_id").isin(*names)), table, of_silent).where(
            F.col("unit") != units.ELSEWHERE
        )
        for table, rows in open_rows.items()
        if table not in (*_TOPIC_TABLES, gold.KV_CONFIG_HISTORY.name, gold.PAST_KNOWLEDGE.name)
    ]
    tried = different.join(F.broadcast(of_silent), on=["namesrv_id", "node"]).withColumns(
        {"rank": F.lit(EVENT_RANK), "event_id": F.lit("trial")}
    )
    rows = union_all([tried, *state]).withColumn("pack", pack_of(_TRIAL_PACKS, "namesrv_id", "unit"))

    def try_units(batches: Batches) -> Batches:
        """Try the beats of one pack of units."""
        yield pa.RecordBatch.from_pylist(list(failed_trials(batches, contexts)), schema=_UNITS_ARROW)

    order = ("namesrv_id", "unit", "rank", "seq")
    failed = of_packs(rows, _TRIAL_PACKS, order, try_units, "namesrv_id STRING, unit STRING")
    repairing = [name for name in names if contexts[name].namesrv.profile.repairs_missing_topics]
    if repairing:
        queues = open_rows[gold.TOPIC_QUEUE_HISTORY.name].where(F.col("namesrv_id").isin(*repairing))
        registered = different.where(F.col("namesrv_id").isin(*repairing))
        missing = quiet.missing_topics_from(registered, queues, bronze["topic_configs"])
        failed = failed.unionAll(
            missing.join(F.broadcast(of_silent), on=["namesrv_id", "node"]).select("namesrv_id", "unit")
        )
    return [(row["namesrv_id"], row["unit"]) for row in failed.distinct().collect()]


_UNITS_ARROW = pa.schema([("namesrv_id", pa.string()), ("unit", pa.string())])


def _raw_beats(beats: DataFrame, unit_of: DataFrame, eventful: DataFrame) -> DataFrame:
    """Return the beats of eventful periods, as `day_events` gives them."""
    hours = cut_short(unit_of.join(eventful, on=["namesrv_id", "unit"]).select("namesrv_id", "node", "period"))
    placed = _within(beats, hours).withColumns(
        {"node": quiet.beat_node(), "period": F.expr(f"effect_us DIV {quiet.PERIOD_US}")}
    )
    return placed.join(F.broadcast(hours), on=["namesrv_id", "node", "period"], how="left_semi").drop("node", "period")


def _within(beats: DataFrame, hours: DataFrame) -> DataFrame:
    """Return `beats`, without some that are not of `hours`: where these are few, a reader can leave out most of the rows."""
    addrs = hours.where("node LIKE 'a:%'").select(F.expr("substring(node, 3)").alias("addr")).distinct()
    few = [row["addr"] for row in addrs.limit(_FEW_ADDRS + 1).collect()]
    if len(few) > _FEW_ADDRS:
        return beats
    return beats.where(F.col("broker_addr").isin(few) | F.col("broker_addr").isNull())


def _runs(
    beats: DataFrame, unit_of: DataFrame, quiet_nodes: DataFrame, eventful: DataFrame, with_cluster: list[str]
) -> DataFrame:
    """Return the runs of uneventful periods of units that have some news, as events: one for each different beat."""
    runs = uneventful(beats, unit_of, eventful).join(
        F.broadcast(quiet_nodes.select("namesrv_id", "node")), on=["namesrv_id", "node"], how="left_anti"
    )
    # All beats of a live entry in one bucket renew its lease as of the last of them, whatever they say.
    entry = ("namesrv_id", quiet.live_cluster(with_cluster), "node", "bucket")
    last = F.max("last_us").over(Window.partitionBy(*entry))
    said = [c for c in beats.columns if c not in (*quiet.MEASURES, "node")]
    return runs.select(
        *said,
        (F.col("first_us") * NS_PER_US).alias("seq"),
        F.concat(F.lit("run-"), F.xxhash64(*said)).alias("event_id"),
        last.alias("effect_us"),
        F.lit(True).alias("is_run"),
    )


def uneventful(beats: DataFrame, unit_of: DataFrame, eventful: DataFrame) -> DataFrame:
    """Return the buckets, with their `unit`, of periods that are not replayed event by event."""
    placed = beats.join(F.broadcast(unit_of), on=["namesrv_id", "node"])
    return placed.join(F.broadcast(eventful), on=["namesrv_id", "unit", "period"], how="left_anti")


def _raw_of(beats: DataFrame, unit_of: DataFrame, eventful: DataFrame) -> DataFrame:
    """Return (namesrv_id, unit, beats) of the units with some news: how many of their beats are replayed one by one."""
    placed = beats.join(F.broadcast(unit_of), on=["namesrv_id", "node"])
    raw = placed.join(F.broadcast(eventful), on=["namesrv_id", "unit", "period"])
    counted = union_all(
        [eventful.select("namesrv_id", "unit", F.lit(0).alias("beats")), raw.select("namesrv_id", "unit", "beats")]
    )
    return counted.groupBy("namesrv_id", "unit").agg(F.sum("beats").alias("beats"))


def _all_periods(spark: SparkSession, day: dt.date, found: Collection[Unit]) -> DataFrame:
    first = day_start_us(day) // quiet.PERIOD_US
    periods = range(first, first + _DAY_US // quiet.PERIOD_US)
    return spark.createDataFrame([(*unit, period) for unit in found for period in periods], _EVENTFUL)


def _packs(
    spark: SparkSession,
    nodes: list[tuple[str, str, str]],
    contexts: Mapping[str, NamesrvDay],
    weights: Mapping[Unit, int] | None = None,
) -> tuple[DataFrame, int]:
    """Return (namesrv_id, unit, pack) and the number of packs: the heaviest first, each to the pack that is lightest so far.

    There are as many packs as a shuffle has partitions. `weights`: about how many rows of a unit are replayed, beside one
    for each node.
    """
    sizes: Counter[Unit] = Counter((name, unit) for name, _, unit in nodes)
    sizes.update((name, unit) for name in contexts for unit in (placing.KV_UNIT, units.ELSEWHERE, placing.WHOLE_UNIT))
    sizes.update(weights or {})
    count = shuffle_partitions(spark)
    loads = [(0, pack) for pack in range(count)]
    packs = []
    for (name, unit), size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        load, pack = heapq.heappop(loads)
        packs.append((name, unit, pack))
        heapq.heappush(loads, (load + size, pack))
    return cut_short(spark.createDataFrame(packs, "namesrv_id STRING, unit STRING, pack INT")), count
