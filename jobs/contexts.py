"""What the replay of a day needs to know of each name server beside its rows: scan schedule, configuration, end of the log.

Reads   the bronze event tables, and the history slices of the day before
Gives   a NamesrvDay for each name server
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from jobs.frames import Frames
from jobs.quiet import BEATS, Heard
from jobs.replay_unit import NamesrvDay
from jobs.tables import union_all
from namesrv_core.machine.instants import NS_PER_MS, NS_PER_US
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.schedule import START_BEFORE_FIRST_ACCEPT_NS, ScanEpoch, ScanSchedule
from schemas import gold
from schemas.bronze import EVENT_TABLES, RECORDED_TABLES
from schemas.times import day_start_seq

# How far back a scan's packet tells when the timer ticks.
_PHASE_MEMORY = dt.timedelta(days=7)
_LAST_NS = NS_PER_US - 1


def namesrv_days(
    bronze: Frames, carried: Frames, day: dt.date, namesrvs: Mapping[str, Namesrv], known_until: Mapping[str, int]
) -> dict[str, NamesrvDay]:
    """Return, for each name server, its scan schedule and the end of what is known of it on `day` (`known_until`)."""
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


def known_until(today: Frames, day: dt.date, heard: Heard | None, going_on: Collection[str]) -> dict[str, int]:
    """Return per name server the last position seen on `day`; of those that are `going_on` after it, the day's end.

    `today`: the tables' slices of `day`; `heard`: its beats, if they have been read already. Positions count whole
    microseconds here.
    """
    others = [table for table in RECORDED_TABLES if heard is None or table not in BEATS]
    seen = [today[t.name].where(F.col("day") == F.lit(day)).select("namesrv_id", "effect_time") for t in others]
    found = union_all(seen).groupBy("namesrv_id").agg(F.unix_micros(F.max("effect_time")).alias("last_us"))
    last_us = dict(heard.until_us) if heard is not None else {}
    for row in found.collect():
        last_us[row["namesrv_id"]] = max(last_us.get(row["namesrv_id"], 0), row["last_us"])
    until = {name: us * NS_PER_US + _LAST_NS for name, us in last_us.items()}
    return {**until, **dict.fromkeys(going_on, day_start_seq(day + dt.timedelta(days=1)))}


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
