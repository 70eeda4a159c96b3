"""What flags are made of: the tables of a day from literal rows (tests/rows.py), and what reads single beats of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day.arrow import connection, empty, table_of
from namesrv_day.context import BeatsDuring
from namesrv_day.findings import SUSPECTED
from namesrv_day.hours import HOURS, hours_from, leases_from
from namesrv_day.registered import ASKED, Recorded
from schemas import bronze, gold
from schemas.table import Table
from tests.rows import Event, Row, topic_config

_ARRIVED = pa.schema([("event_id", pa.string()), ("event_time", pa.timestamp("us", tz="UTC"))])


def news(found: pa.Table, day: dt.date) -> pa.Table:
    return found.filter((pc.field("told_on") == day) | (pc.field("ended_on") == day))


def still_so(told: pa.Table) -> pa.Table:
    """Return the findings that are not over by what was told of days, one after the other."""
    last = {
        (row["code"], row["subject"], row["from_time"], row["told_on"], *row["evidence"][: row["begun_with"]]): number
        for number, row in enumerate(told.to_pylist())
    }
    return told.take(sorted(last.values())).filter(pc.field("ended_on").is_null())


def tables(rows: dict[Table, list[Row]]) -> dict[str, pa.Table]:
    """Return all tables that flags read, by name; what a row does not say is NULL."""
    read = (*gold.TABLES, bronze.NAMESRV_EVENTS)
    found = {table.name: table_of(rows[table], table) if table in rows else empty(table) for table in read}
    return {**found, "hours": HOURS.empty_table(), "suspected": SUSPECTED.empty_table()}


def hours_of(registrations: Iterable[Row]) -> pa.Table:
    rows = table_of(registrations, bronze.REGISTRATIONS)
    leases = leases_from(empty(gold.BROKER_LIVE_HISTORY), rows)
    return hours_from(connection().from_arrow(rows), bronze.REGISTRATIONS.name, leases)


def reading(registrations: Iterable[Row], asked: list[set[str]] | None = None) -> Callable[..., pa.Table]:
    """Return what reads single registrations; the broker names that it found are noted in `asked`."""
    rows = table_of(registrations, bronze.REGISTRATIONS)

    def raw_beats(kind: str, *, columns: Iterable[str], where: pc.Expression) -> pa.Table:
        if kind == bronze.HEARTBEATS.name:
            return empty(bronze.HEARTBEATS).select(list(columns))
        found = rows.filter(where)
        if asked is not None:
            asked.append(set(found["broker_name"].to_pylist()))
        return found.select(list(columns))

    return raw_beats


def reading_during(registrations: Iterable[Row]) -> BeatsDuring:
    """Return what reads single registrations that came within some time."""
    rows = table_of(registrations, bronze.REGISTRATIONS)

    def beats_during(kind: str, columns: Sequence[str], during: pa.Table) -> pa.Table:
        if kind == bronze.HEARTBEATS.name:
            return empty(bronze.HEARTBEATS).select(list(columns))
        wanted = during.to_pylist()
        came = [
            any(
                row["broker_addr"] == of["broker_addr"] and of["after"] < row["event_time"] <= of["last"]
                for of in wanted
            )
            for row in rows.select(["broker_addr", "event_time"]).to_pylist()
        ]
        return rows.filter(pa.array(came, pa.bool_())).select(list(columns))

    return beats_during


def recorded(
    registrations: Iterable[Row],
    configs: Callable[[Any], pa.Table] | None = None,
    arrivals: Iterable[Event] = (),
    questions: Iterable[Row] = (),
    refused: Iterable[Row] = (),
) -> Recorded:
    """Return what is recorded of a day. `arrivals`: events that end brokers' lives, as they came in; `refused`: in quarantine."""
    came = pa.table({"event_id": [of for of, _ in arrivals], "event_time": [at for _, at in arrivals]}, schema=_ARRIVED)
    asked = pa.Table.from_pylist(list(questions), schema=ASKED)
    pieces = table_of(refused, bronze.QUARANTINE)
    registrations = list(registrations)
    during, single = reading_during(registrations), reading(registrations)
    return Recorded(single, during, configs or topic_configs(), lambda _: came, lambda: asked, lambda _: pieces)


def topic_configs(**topics: list[str]) -> Callable[[Any], pa.Table]:
    """Return what gives topic tables; the digest of each is its name here."""
    configs = table_of(
        [topic_config(*of) for of in ((digest, *names) for digest, names in topics.items())], bronze.TOPIC_CONFIGS_TABLE
    )

    def of_digests(digests: Any) -> pa.Table:
        return configs.filter(pc.field("topic_config_digest").isin(digests))

    return of_digests
