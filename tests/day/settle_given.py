"""Literal rows of one name server's day, as what `settle` is given. Times are milliseconds since the day's midnight."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day.arrow import connection, table_of
from namesrv_day.context import Background, SettleInput
from namesrv_day.events import BEATS, day_events
from namesrv_day.hours import hours_from, leases_from
from namesrv_day.replay import Replayed, ReplayInput, replay
from namesrv_day.settle import Settled
from schemas import bronze, gold
from schemas.table import Table
from schemas.times import day_start_us
from tests.day.lives import of_periods

NAMESRV = "10.0.0.1:9876"
DAY = dt.date(2026, 1, 2)
CHANNEL = "10.0.0.2:40000#1"
Row = dict[str, Any]
_TABLES = {table.name: table for table in (*bronze.RECORDED_TABLES, bronze.TOPIC_CONFIGS_TABLE)}
_BEATS = ("heartbeats", "registrations")


def seq_at(ms: float, day: dt.date = DAY) -> int:
    return day_start_us(day) * 1_000 + round(ms * 1_000_000)


def row(ms: float, event_id: str, *, day: dt.date = DAY, received_ms: float | None = None, **values: Any) -> Row:
    """Return a row of an event that took effect at `ms`, and was received then or before."""
    effect, received = (seq_at(at, day) // 1_000 for at in (ms, ms if received_ms is None else received_ms))
    envelope: Row = {"namesrv_id": NAMESRV, "seq": seq_at(ms, day), "event_id": event_id, "day": day}
    return {**envelope, "effect_time": effect, "event_time": received, "channel_id": CHANNEL, **values}


def registered(ms: float, event_id: str, topics: str = "T", **values: Any) -> Row:
    """Return an answered registration of broker-a with these topics (a letter each), which are its digest."""
    broker: Row = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": "10.0.0.2:10911", "broker_id": 0}
    version: Row = {
        "data_version": {"state_version": 0, "timestamp": 1, "counter": len(topics)},
        "topic_config_digest": topics,
    }
    said: Row = {
        "code": 103,
        "one_way": False,
        "request_version": 493,
        "response_code": 0,
        "enable_acting_master": False,
    }
    return row(ms, event_id, **{**broker, **version, **said, "filter_servers": [], **values})


def unregistered(ms: float, event_id: str, **values: Any) -> Row:
    said: Row = {"code": 104, "one_way": False, "request_version": 493, "response_code": 0}
    broker: Row = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": "10.0.0.2:10911", "broker_id": 0}
    return row(ms, event_id, **{**said, **broker, **values})


def answered(ms: float, event_id: str, code: int, subject: str | None, body: str | None, **values: Any) -> Row:
    asked: Row = {"code": code, "subject": subject, "request_seq": seq_at(ms - 1), "standard_json": True}
    told: Row = {"request_version": 493, "response_code": 0, "response_version": 493, "body": body}
    return row(ms, event_id, **{**asked, **told, **values})


def ended(ms: float, event_id: str, kind: str = "close", closed_by: str = "client", **values: Any) -> Row:
    said: Row = {
        "kind": kind,
        "closed_by": closed_by,
        "remote_addr": "10.0.0.2:40000",
        "silent_ms": 5,
        "pending_requests": 0,
    }
    return row(ms, event_id, **{**said, **values})


def life(ms: float, event_id: str, kind: str, **values: Any) -> Row:
    return row(ms, event_id, **{"kind": kind, "evidence": "a test", **values})


def asked_to(ms: float, event_id: str, code: int, **values: Any) -> Row:
    said: Row = {"code": code, "one_way": False, "request_version": 493, "response_code": 0, "operation": "a test"}
    return row(ms, event_id, **{**said, **values})


class Given:
    """A day of literal rows by table, and which single beats were read of it: (kind, whether all of them)."""

    def __init__(
        self,
        rows: Mapping[str, Sequence[Row]],
        *,
        day: dt.date = DAY,
        carried: Mapping[Table, Sequence[Row]] | None = None,
        earlier: Sequence[Row] = (),
        **background: Any,
    ) -> None:
        """`earlier`: namesrv_events of days before; `background`: fields of it; `carried` has its `scan_life`, too."""
        of_day = {name: table_of(rows.get(name, ()), table) for name, table in _TABLES.items()}
        open_rows = {table.name: table_of(rows, table, namesrv_id=NAMESRV) for table, rows in (carried or {}).items()}
        self.beats = {name: of_day.pop(name) for name in _BEATS}
        self._configs = _configs(self.beats["registrations"])
        self.reads: list[tuple[str, bool]] = []
        live = open_rows.get("broker_live_history", table_of((), gold.BROKER_LIVE_HISTORY))
        leases = leases_from(live, self.beats["registrations"])
        hours = [hours_from(connection().from_arrow(self.beats[name]), name, leases) for name in _BEATS]
        if gold.EVENT_OUTCOMES.name in open_rows:
            background["scan_life"] = open_rows.pop(gold.EVENT_OUTCOMES.name)
        life = pa.concat_tables([table_of(earlier, bronze.NAMESRV_EVENTS), of_day["namesrv_events"]])
        self.input = SettleInput(
            NAMESRV,
            day,
            {**of_day, "hours": pa.concat_tables(hours)},
            self._read,
            lambda digests: self._configs.filter(pc.is_in(self._configs["topic_config_digest"], value_set=digests)),
            open_rows,
            life,
            Background(**background),
        )

    def _read(self, kind: str, *, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        self.reads.append((kind, where is None))
        found = self.beats[kind] if where is None else self.beats[kind].filter(where)
        return found if columns is None else found.select(list(columns))


def _configs(registrations: pa.Table) -> pa.Table:
    """Return the topic tables of digests: a topic for each letter, and a mapping of the first if there is a * behind them."""
    queues = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "topic_sys_flag": 0}
    digests = pc.drop_null(pc.unique(registrations["topic_config_digest"])).to_pylist()
    rows = [
        {
            "topic_config_digest": digest,
            "topics": [{"topic": topic, **queues} for topic in digest.rstrip("*")],
            "mappings": [{"topic": digest[0], "bname": "b", "total_queues": 4, "epoch": 1, "dirty": False}]
            * ("*" in digest),
        }
        for digest in digests
    ]
    return table_of(rows, bronze.TOPIC_CONFIGS_TABLE)


def replayed(given: Given, settled: Settled) -> Replayed:
    """Return what a day leaves that is settled so."""
    context = settled.context
    beats = day_events(given.beats, tables=BEATS, with_answers=True)
    return replay(
        ReplayInput(
            context,
            given.input.day,
            given.input.today["hours"],
            settled.others,
            given.input.carried,
            given.input.topic_configs,
            lambda periods: of_periods(beats, periods),
            answers=given.input.today["route_observations"],
        )
    )
