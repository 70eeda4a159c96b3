"""Write staged rows into the bronze tables: what is new or changed, and what breaks a rule into quarantine.

Reads   the staged rows of a run, and the bronze tables as they are
Writes  the event tables, topic_configs, route_observations, snapshots, quarantine
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import tables
from jobs.positions import SEQ_TAKEN, with_own_positions
from jobs.quality import REASONS, with_reasons
from jobs.staging import FRAMES, SEQ_IS_GIVEN
from namesrv_wire.errors import Reason
from namesrv_wire.limits import FIRST_BYTES
from namesrv_wire.rows import DECODER_VERSION, REVOKED
from schemas import bronze
from schemas.rules import BROKEN_RULE
from schemas.table import STRING, Column, Table

_REVOKED = Table(
    REVOKED,
    "bronze",
    "one row that later packets have proved wrong",
    (Column("table", STRING, "Its table", required=True), Column("event_id", STRING, "Its key", required=True)),
    key=("table", "event_id"),
)
_WRITTEN = {table.name: table for table in (*bronze.RECORDED_TABLES, bronze.SNAPSHOTS, bronze.TOPIC_CONFIGS_TABLE)}
STAGED = {**_WRITTEN, bronze.QUARANTINE.name: bronze.QUARANTINE, REVOKED: _REVOKED}
"""The tables whose rows a run collects before it writes them, and the pseudo table of rows to take back."""
_WHENCE = ("ingest_run", "source_file", "source_offset")


@dataclass
class Written:
    """What a run wrote, counted in what was staged.

    `new_frames`: frames and lines of rows that were not there before, by table; `repeated_frames`: of rows that were, and
    copies of one row; `refused_frames`: of rows that broke a rule or came undecoded. `days`: with rows that the run changed.
    """

    new_frames: Counter[str] = field(default_factory=Counter)
    repeated_frames: int = 0
    refused_frames: int = 0
    days: list[dt.date] = field(default_factory=list)


class _Counts(NamedTuple):
    """Rows of one table: new, changed, refused; frames for which they stand; days of the new and changed, before and after."""

    new: int
    changed: int
    refused: int
    new_frames: int
    repeated_frames: int
    refused_frames: int
    days: list[dt.date]


def write_staged(
    spark: SparkSession,
    warehouse: str,
    staged: Mapping[str, DataFrame],
    days: Collection[dt.date],
    last_day: dt.date,
    *,
    has_logs: bool,
) -> Written:
    """Write what is new in the staged frames, table by table, and then what they refused.

    `days`: those on which rows of theirs may be stored already. `last_day`: under which refused pieces are filed if nothing
    else is there. `has_logs`: some rows come from event logs; the positions of captures' rows are their own anyway.
    """
    if has_logs:
        staged = with_own_positions(spark, warehouse, staged, days)
    revoked = [row.asDict() for row in staged[REVOKED].collect()] if REVOKED in staged else []
    affected = set(_revoke(spark, warehouse, revoked))
    work = {
        name: partial(_write_new, spark, frame, warehouse, _WRITTEN[name], days)
        for name, frame in staged.items()
        if name in _WRITTEN
    }
    counted = tables.in_parallel(work)
    refused = [_quarantined(staged[name], _WRITTEN[name]) for name, counts in counted.items() if counts.refused]
    undecodable = [staged[bronze.QUARANTINE.name]] if bronze.QUARANTINE.name in staged else []
    written = Written()
    for name, counts in counted.items():
        written.new_frames[name] = counts.new_frames
        written.repeated_frames += counts.repeated_frames
        written.refused_frames += counts.refused_frames
        affected.update(counts.days)
    if refused or undecodable:
        # What was refused has no part in the history of its own day: that day need not be recomputed.
        affected = affected or {last_day}
        rows = tables.union_all([*undecodable, *refused]).withColumn("day", F.lit(max(affected)))
        counts = _write_new(spark, rows, warehouse, bronze.QUARANTINE, days)
        written.refused_frames += counts.new_frames + counts.repeated_frames
    written.days = sorted(affected)
    return written


def _revoke(spark: SparkSession, warehouse: str, revoked: list[dict[str, str]]) -> Iterable[dt.date]:
    """Take back rows that later packets have proved wrong; return the days that they were on."""
    days: list[dt.date] = []
    for name in sorted({row["table"] for row in revoked}):
        table = _WRITTEN[name]
        ids = [row["event_id"] for row in revoked if row["table"] == name]
        found = tables.read_table(spark, warehouse, table).where(F.col("event_id").isin(ids))
        days += [row["day"] for row in found.select("day").distinct().collect()]
        tables.delete_keys(spark, ids, warehouse, table)
    return days


def _write_new(
    spark: SparkSession, frame: DataFrame, warehouse: str, table: Table, stored_days: Collection[dt.date]
) -> _Counts:
    """Write the rows that keep the rules and that `table` does not hold yet or holds otherwise; count all in one pass."""
    has_day = "day" in table.column_names
    is_judged = table in bronze.RECORDED_TABLES
    rows = _with_reasons(frame, table) if is_judged else frame.withColumn(REASONS, F.array())
    if tables.exists(spark, warehouse, table):
        old_day = F.col("day") if has_day else F.lit(None).cast("date")
        old = tables.read_table(spark, warehouse, table)
        # Neither a piece of quarantine nor a topic table has one day on which it would be found again.
        old = old.where(F.col("day").isin(*stored_days)) if is_judged else old
        old = old.select(*table.key, _content_hash(table).alias("_old"), old_day.alias("_old_day"))
        rows = rows.join(old, on=list(table.key), how="left")
    else:
        rows = rows.withColumns({"_old": F.lit(None).cast("bigint"), "_old_day": F.lit(None).cast("date")})
    rows = rows.persist()
    is_kept, is_frame = F.size(REASONS) == 0, F.col(FRAMES) > 0
    is_new = is_kept & F.col("_old").isNull()
    # A position that was made is no news: in a file of other lines it would have been another.
    is_changed = is_kept & F.col("_old").isNotNull() & F.col(SEQ_IS_GIVEN) & (F.col("_old") != _content_hash(table))
    written_days = [F.collect_set(F.when(is_new | is_changed, F.col(day))) for day in ("day", "_old_day")]
    counted = rows.agg(
        F.count_if(is_new),
        F.count_if(is_changed),
        F.count_if(~is_kept),
        F.count_if(is_new & is_frame),
        F.coalesce(F.sum(F.when(is_frame & (is_new | ~is_kept), F.col(FRAMES) - 1).otherwise(F.col(FRAMES))), F.lit(0)),
        F.count_if(~is_kept & is_frame),
        F.array_union(*written_days) if has_day else F.array(),
    ).collect()[0]
    counts = _Counts(*counted)
    wanted = rows.where(is_new | is_changed).select(*table.column_names)
    if counts.changed:
        tables.upsert(spark, wanted, warehouse, table)
    elif counts.new:
        tables.append(wanted, warehouse, table)
    rows.unpersist()
    return counts


def _content_hash(table: Table) -> SparkColumn:
    """Return a hash of what a row says, wherever and whenever it was read."""
    return F.xxhash64(*[c for c in table.column_names if c not in _WHENCE])


def _quarantined(frame: DataFrame, table: Table) -> DataFrame:
    """Return a quarantine row for each row of `frame` that breaks rules; the refused piece is the row as JSON."""
    said = [c for c in table.column_names if c not in (*_WHENCE, "day")]
    refused = _with_reasons(frame, table).where(F.size(REASONS) > 0).withColumn("_piece", F.to_json(F.struct(*said)))
    reason = F.when(F.array_contains(REASONS, Reason.SEQ_TAKEN.value), Reason.SEQ_TAKEN.value).otherwise(BROKEN_RULE)
    identity = F.concat_ws("\n", reason, F.lit(table.name), "_piece")
    return refused.select(
        F.substring(F.sha2(identity, 256), 1, 32).alias("quarantine_id"),
        "namesrv_id",
        "event_time",
        "channel_id",
        reason.alias("reason"),
        F.concat(F.lit(f"{table.name}: "), F.array_join(REASONS, ", ")).alias("detail"),
        F.octet_length("_piece").cast("bigint").alias("length"),
        F.sha2("_piece", 256).alias("sha256"),
        F.lower(F.hex(F.substring(F.encode("_piece", "utf-8"), 1, FIRST_BYTES))).alias("first_bytes"),
        F.lit(DECODER_VERSION).alias("decoder_version"),
        *_WHENCE,
        F.lit(0).alias(FRAMES),  # counted where it was refused
        F.lit(True).alias(SEQ_IS_GIVEN),
    )


def _with_reasons(frame: DataFrame, table: Table) -> DataFrame:
    """Return the rows with the names of the rules that each breaks, a position that is taken among them."""
    judged = with_reasons(frame, table.name)
    if SEQ_TAKEN not in frame.columns:
        return judged
    taken = F.when(F.col(SEQ_TAKEN), F.array(F.lit(Reason.SEQ_TAKEN.value))).otherwise(F.array().cast("array<string>"))
    return judged.withColumn(REASONS, F.concat(REASONS, taken))
