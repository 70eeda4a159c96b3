"""Literal rows of one name server's day, as plans are made of; times are seconds from its midnight."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

from namesrv_core import V4_9_7, Namesrv
from namesrv_core.machine.schedule import ScanSchedule
from namesrv_day.arrow import connection, empty, table_of
from namesrv_day.context import NamesrvDay
from namesrv_day.events import BEATS, OTHERS, day_events
from namesrv_day.hours import HOURS, hours_from, leases_from
from schemas import bronze, gold
from schemas.times import day_start_us

NAMESRV = "10.0.0.9:9876"
DAY = dt.date(2026, 1, 2)
DAY_S = 86_400
HOUR_S = 3_600
MIDNIGHT_US = day_start_us(DAY)
FIRST_PERIOD = MIDNIGHT_US // 3_600_000_000
BROKER = {"cluster_name": "C", "broker_name": "one", "broker_addr": "1:1"}
VERSION = {"state_version": None, "timestamp": 1, "counter": 1}
Row = dict[str, Any]
_TABLES = {table.name: table for table in bronze.RECORDED_TABLES}
_DEFAULTS: dict[str, Row] = {
    "heartbeats": {"code": 322, "data_version": VERSION, "response_code": 0} | BROKER,
    "registrations": {"code": 103, "data_version": VERSION, "response_code": 0, "channel_id": "1:1#1"} | BROKER,
    "unregistrations": {"code": 104, "response_code": 0} | BROKER,
    "admin_events": {"response_code": 0},
    "channel_events": {"kind": "close", "channel_id": "1:1#1", "remote_addr": "1:4000", "closed_by": "client"},
}


def us(at_s: float) -> int:
    """Return the instant, in microseconds since the epoch."""
    return MIDNIGHT_US + round(at_s * 1_000_000)


def row(table: str, at_s: float, *, lag_us: int = 0, **values: Any) -> Row:
    """Return a row of a bronze table that took effect then, so long after it had arrived; `table` is in it, too."""
    envelope: Row = {"table": table, "namesrv_id": NAMESRV, "seq": us(at_s) * 1_000, "event_id": f"{table}-{at_s:g}"}
    times = {"event_time": us(at_s) - lag_us, "effect_time": us(at_s), "day": DAY}
    return {**envelope, **times, **_DEFAULTS.get(table, {}), **values}


def beats(first_s: float, last_s: float, apart_s: float = 30, table: str = "heartbeats", **values: Any) -> list[Row]:
    """Return equal beats, the first and the last of them then."""
    return [row(table, first_s + n * apart_s, **values) for n in range(int((last_s - first_s) / apart_s) + 1)]


def frames(*rows: Row) -> dict[str, pa.Table]:
    return {name: table_of((r for r in rows if r["table"] == name), table) for name, table in _TABLES.items()}


def others(*rows: Row) -> pa.Table:
    return day_events(frames(*rows), tables=OTHERS)


def hours(*rows: Row, live: pa.Table | None = None) -> pa.Table:
    of_tables = frames(*rows)
    leases = leases_from(empty(gold.BROKER_LIVE_HISTORY) if live is None else live, of_tables["registrations"])
    given = [(connection().from_arrow(of_tables[table.name]), table.name) for table in BEATS if of_tables[table.name]]
    return pa.concat_tables([HOURS.empty_table(), *(hours_from(beats, kind, leases) for beats, kind in given)])


def opened(table: str, *rows: Row) -> pa.Table:
    """Return rows of a history table that were open when the day began."""
    found = {t.name: t for t in (*gold.HISTORY_TABLES, gold.PAST_KNOWLEDGE)}[table]
    return table_of(({**BROKER, **given} for given in rows), found, namesrv_id=NAMESRV, day=DAY)


def live(last_s: float = -20, **values: Any) -> pa.Table:
    """Return one open row of broker_live_history, of a broker that beat last then."""
    times = {"first_update_time": us(last_s), "last_update_time": us(last_s)}
    return opened("broker_live_history", {"channel_id": "1:1#1", "heartbeat_timeout_ms": 120_000, **times, **values})


def context(namesrv: Namesrv | None = None, until_s: float = DAY_S, **values: Any) -> NamesrvDay:
    namesrv = Namesrv(V4_9_7) if namesrv is None else namesrv
    schedule = ScanSchedule([], namesrv.scan_period_ms)
    return NamesrvDay(NAMESRV, namesrv, schedule, us(0) * 1_000, us(until_s) * 1_000 - 1, **values)
