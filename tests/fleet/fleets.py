"""Small fleets, and their events without a warehouse."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Sequence

import pyarrow as pa

from namesrv_day.arrow import conformed, rows_of, with_derived
from schemas import bronze
from schemas.table import Table
from tools.fleet.events import EventRows, tables_of
from tools.fleet.fleet import Fleet, fleet_of
from tools.fleet.plan import beats_of, plan_of, versions_on

DAY = dt.date(2026, 1, 1)
NEXT = DAY + dt.timedelta(days=1)
TROUBLED = Fleet(
    DAY, brokers=5, namesrvs=2, topics=3, beats_per_minute=1, outages=0.1, outage_s=(30, 400), partitions=4, restarts=2
)


def fleet_like(fleet: Fleet, **other: object) -> Fleet:
    return fleet_of({name: getattr(fleet, name) for name in fleet.__dataclass_fields__} | other)


def events_of(fleet: Fleet, day: dt.date, n: int, cuts: Sequence[range]) -> dict[Table, pa.Table]:
    """Return the heartbeats and registrations of a day at name server `n`, made of these numbers of beats at a time."""
    versions = versions_on(fleet, day)
    before, after = (
        pa.array([fleet.topic_table(*table).digest for table in tables_of(fleet, of.tolist())])
        for of in (versions.before, versions.after)
    )
    made: dict[Table, list[pa.Table]] = {bronze.HEARTBEATS: [], bronze.REGISTRATIONS: []}
    for numbers in cuts:
        hours = range(numbers.start // fleet.beats_per_hour, -(-numbers.stop // fleet.beats_per_hour))
        plan = plan_of(fleet, n, day, hours)
        rows = EventRows(fleet, plan, day, (before, after), "run")
        beats = beats_of(fleet, plan, numbers, is_late=False)
        made[bronze.HEARTBEATS].append(rows.heartbeats(beats.where(~beats.registers)))
        made[bronze.REGISTRATIONS].append(rows.registrations(beats.where(beats.registers)))
    tables = {table: pa.concat_tables(conformed(part, table) for part in parts) for table, parts in made.items()}
    return {table: with_derived(rows, table) for table, rows in tables.items()}


def beats_on(fleet: Fleet, day: dt.date) -> range:
    first = fleet.number_of(day) * fleet.beats_per_day
    return range(first, first + fleet.beats_per_day)


def sha256_of(rows: pa.Table) -> str:
    """Return the SHA-256 of all that rows say, in their order, but for the run that wrote them and addresses that say no more."""
    left_out = {"ingest_run", "day", "namesrv_addr", "proxied_addr"}
    lines = rows_of(rows.select([name for name in rows.column_names if name not in left_out]))
    return hashlib.sha256("\n".join(json.dumps(line, sort_keys=True) for line in lines).encode()).hexdigest()
