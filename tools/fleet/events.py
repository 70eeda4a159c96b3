"""The rows of the bronze tables that a simulated day gives."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.events import NS_PER_US, US_PER_MS
from namesrv_day.arrow import ask, table_of
from namesrv_wire.protocol.bodies import TopicTable
from namesrv_wire.protocol.requests import topic_configs_row
from schemas import bronze
from schemas.table import DATA_VERSION, TIMESTAMP
from schemas.times import day_start_us
from tools.fleet.draws import Longs
from tools.fleet.fleet import HOURS_PER_DAY, LIGHT, QUERY, Fleet
from tools.fleet.plan import NEVER, Beats, Plan, Versions, restarts_of

CLUSTER = "fleet"
_PORT, _HA_PORT, _CLIENT_PORT = 10911, 10912, 30000
_BODY_BYTES, _BODY_BYTES_PER_TOPIC = 200, 110
# Lines of a name server's own life, before those of beats in its source.
_FIRST_LINES = 2
_HEARTBEAT_CODE = {QUERY: RequestCode.QUERY_DATA_VERSION, LIGHT: RequestCode.BROKER_HEARTBEAT}
Columns = dict[str, Any]


def namesrv_id(n: int) -> str:
    """Return the address of name server `n`."""
    return f"10.255.0.{n + 1}:9876"


def broker_name(b: int) -> str:
    """Return the name of broker `b`."""
    return f"broker-{b:05}"


def _host(b: int) -> str:
    return f"10.{b // 65536}.{b // 256 % 256}.{b % 256}"


def broker_addr(b: int) -> str:
    """Return the address of broker `b`."""
    return f"{_host(b)}:{_PORT}"


def ha_addr(b: int) -> str:
    """Return the address at which slaves would ask broker `b`."""
    return f"{_host(b)}:{_HA_PORT}"


def told_versions(fleet: Fleet, versions: Versions) -> tuple[Longs, Longs]:
    """Return the data versions that brokers tell on a day: when made (epoch milliseconds), and the counters.

    First those of all brokers before the day's change, then after it.
    """
    changed_us = np.where(versions.k_change == NEVER, 0, versions.k_change) * fleet.interval_us
    made_ms = np.concatenate([versions.made_us, changed_us]) // US_PER_MS + day_start_us(fleet.start) // US_PER_MS
    return made_ms, np.concatenate([versions.before, versions.after])


def source_prefix(day: dt.date) -> str:
    """Return how the file names of `day`'s events begin; they end with the number of the name server."""
    return f"fleet-{day:%Y%m%d}-"


def instants(at_us: Longs) -> pa.Array:
    """Return microseconds since the epoch as timestamps."""
    return pa.array(at_us).view(TIMESTAMP)


class EventRows:
    """Makes rows of the beats of one plan. `digests`: of the brokers' topic tables, before a change on that day and after."""

    def __init__(self, fleet: Fleet, plan: Plan, day: dt.date, digests: tuple[pa.Array, pa.Array], run_id: str) -> None:
        self._fleet, self._plan, self._run_id = fleet, plan, run_id
        self._source = f"{source_prefix(day)}{plan.n}"
        self._first = fleet.number_of(day) * fleet.beats_per_day
        self._digests = pa.concat_arrays(digests)
        everyone = range(fleet.brokers)
        self._names, self._addrs = (pa.array(map(of, everyone)) for of in (broker_name, broker_addr))
        self._ha_addrs = pa.array(map(ha_addr, everyone))
        self._origins = pa.array([f"{fleet.seed}/{plan.n}/{b}/" for b in everyone])
        begin_us = day_start_us(fleet.start)
        endpoints = [f"{_host(b)}:{_CLIENT_PORT + plan.n}" for b in everyone]
        # A connection outlives outages, but not the process to which it goes.
        opened_us = (begin_us + started_us for started_us in plan.started_us.tolist())
        self._channels = pa.array([f"{endpoints[b]}#{(us + b) * NS_PER_US}" for us in opened_us for b in everyone])
        self._version_ms, self._versions = told_versions(fleet, plan.versions)

    def heartbeats(self, beats: Beats) -> pa.Table:
        """Return rows of `heartbeats`."""
        code = _HEARTBEAT_CODE.get(self._fleet.form, RequestCode.QUERY_DATA_VERSION)
        is_light = code is RequestCode.BROKER_HEARTBEAT
        same = {"one_way": is_light, "nth": pa.scalar(0, pa.int32())}
        columns = self._requests(beats, code) | {name: pa.repeat(value, len(beats.k)) for name, value in same.items()}
        return pa.table(columns if is_light else columns | {"data_version": self._data_version(beats)})

    def registrations(self, beats: Beats) -> pa.Table:
        """Return rows of `registrations`."""
        fleet, rows = self._fleet, len(beats.k)
        five = fleet.profile.own_heartbeat_timeout
        of = pa.table({"origin": _taken(self._origins, beats.b), "k": beats.k})
        columns = self._requests(beats, RequestCode.REGISTER_BROKER) | {
            "event_id": ask("SELECT md5(origin || k::VARCHAR) AS event_id FROM beats", {"beats": of})["event_id"],
            "ha_server_addr": _taken(self._ha_addrs, beats.b),
            "data_version": self._data_version(beats),
            "topic_config_digest": _taken(self._digests, self._version_of(beats)),
            "filter_servers": pa.ListArray.from_arrays(np.zeros(rows + 1, np.int32), pa.array([], pa.string())),
        }
        same = {
            "one_way": False,
            "enable_acting_master": pa.scalar(False if five else None, pa.bool_()),
            "heartbeat_timeout_ms": pa.scalar(fleet.timeout_in_header_ms, pa.int64()),
            "topic_count": fleet.topics,
            "compressed": False,
            "body_bytes": min(1 << 24, _BODY_BYTES + _BODY_BYTES_PER_TOPIC * fleet.topics),
        }
        return pa.table(columns | {name: pa.repeat(value, rows) for name, value in same.items()})

    def _requests(self, beats: Beats, code: RequestCode) -> Columns:
        """Return the columns that heartbeats and registrations share. Nobody has seen what was answered."""
        same = {
            "namesrv_id": namesrv_id(self._plan.n),
            "namesrv_addr": namesrv_id(self._plan.n),
            "code": int(code),
            "request_version": self._fleet.protocol,
            "cluster_name": CLUSTER,
            "broker_id": 0,
            "source_file": self._source,
            "ingest_run": self._run_id,
        }
        at = instants(beats.at_us)
        return {
            # In the middle of its microsecond: no name server starts or stops there.
            "seq": beats.at_us * NS_PER_US + NS_PER_US // 2,
            "event_time": at,
            "effect_time": at,
            "channel_id": _taken(self._channels, beats.life * self._fleet.brokers + beats.b),
            "broker_name": _taken(self._names, beats.b),
            "broker_addr": _taken(self._addrs, beats.b),
            "source_offset": (beats.k - self._first) * self._fleet.brokers + beats.b + 1 + _FIRST_LINES,
            **{name: pa.repeat(value, len(beats.k)) for name, value in same.items()},
        }

    def _data_version(self, beats: Beats) -> pa.Array:
        which = self._version_of(beats)
        said = (np.zeros(len(which), np.int64), self._version_ms[which], self._versions[which])
        return pa.StructArray.from_arrays(map(pa.array, said), fields=list(DATA_VERSION))

    def _version_of(self, beats: Beats) -> Any:
        return beats.is_changed * np.int32(self._fleet.brokers) + beats.b


def _taken(values: pa.Array, indices: Any) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(indices), values)


def namesrv_events_from(fleet: Fleet, day: dt.date, run_id: str) -> pa.Table:
    """Return the rows of `namesrv_events`, in order: the first start of each process, and its restarts."""
    begin_us, first_hour = day_start_us(fleet.start), fleet.number_of(day) * HOURS_PER_DAY
    rows: list[Columns] = []
    for n in range(fleet.namesrvs):
        restarts = restarts_of(fleet, n, first_hour + HOURS_PER_DAY)
        today = restarts.h >= first_hour
        lives: list[tuple[int | None, int]] = [(None, 0)] if day == fleet.start else []
        lives += zip(restarts.from_us[today].tolist(), restarts.to_us[today].tolist(), strict=True)
        facts = (
            fact
            for stopped_us, started_us in lives
            for fact in (("stopped", stopped_us, 0), ("started", started_us, 0), ("identified", started_us, 1))
        )
        for kind, us, ns in facts:
            if us is not None:
                rows.append(_namesrv_event(fleet, n, kind, begin_us + us, ns))
    offset = {"source_offset": 1, "evidence": "planned by the fleet simulator", "day": day, "ingest_run": run_id}
    table = table_of(
        ({**row, "source_file": f"{source_prefix(day)}{row.pop('n')}"} for row in rows), bronze.NAMESRV_EVENTS, **offset
    )
    return table.sort_by([("namesrv_id", "ascending"), ("seq", "ascending")])


def _namesrv_event(fleet: Fleet, n: int, kind: str, at_us: int, ns: int) -> Columns:
    identity = f"{fleet.seed}/{kind}/{n}/{at_us}"
    return {
        "n": n,
        "namesrv_id": namesrv_id(n),
        "namesrv_addr": namesrv_id(n),
        "seq": at_us * NS_PER_US + ns,
        "event_id": hashlib.md5(identity.encode(), usedforsecurity=False).hexdigest(),
        "event_time": at_us,
        "effect_time": at_us,
        "kind": kind,
        "version": fleet.protocol if kind == "identified" else None,
    }


def tables_of(fleet: Fleet, versions: Iterable[int]) -> list[tuple[int, int]]:
    """Return which topic table each broker has, of these versions of them: whose it is (-1: everybody's), and its version."""
    of_brokers = [(-1 if fleet.shared_topics else b, version) for b, version in enumerate(versions)]
    return of_brokers if fleet.topics else [(-1, 0) for _ in of_brokers]


def topic_configs_from(tables: Iterable[TopicTable], run_id: str) -> pa.Table:
    """Return the rows of `topic_configs`."""
    rows = (topic_configs_row(table).values for table in tables)
    return table_of(rows, bronze.TOPIC_CONFIGS_TABLE, ingest_run=run_id)
