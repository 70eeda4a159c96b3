"""Write the state of one name server at an instant as a snapshot file, from the published history tables."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import NothingPublishedError
from jobs.store.coverage import require_known
from jobs.store.warehouse import Warehouse
from namesrv_core.history.intervals import Interval, restored
from namesrv_core.history.snapshot import snapshot_text
from namesrv_core.inference.settings import namesrv_of
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.past import Past
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import LiveKey
from namesrv_day.arrow.rows import empty
from namesrv_day.arrow.sql import ask
from namesrv_day.day.start import facts_in, intervals_from
from namesrv_day.settle.settings import settings_of
from schemas import bronze, gold, times
from schemas.sql_files import query
from schemas.table import Table


def snapshot_at(warehouse: Warehouse, namesrv_id: str, at: dt.datetime) -> str:
    """Return the snapshot of `namesrv_id` at `at` (with a time zone), as the published tables have it.

    Raises NotRecordedError for an instant that nothing is recorded of, SnapshotUnknownError for an unknown name server and where
    something of the routes was not known then; NothingPublishedError.
    """
    if warehouse.ledger().last is None:
        raise NothingPublishedError(f"{warehouse.path}: no run with status 'published'; run the nightly job first")
    require_known(warehouse.coverage(), namesrv_id, at)
    day = _day_of(warehouse, namesrv_id, at)
    at_us = times.instant_us(at)
    facts = facts_in({gold.PAST_KNOWLEDGE.name: _published(warehouse, gold.PAST_KNOWLEDGE, namesrv_id, day)})
    past = Past.load(facts) if facts else None
    instant = pa.scalar(at_us, pa.timestamp("us", tz="UTC"))
    alive = (pc.field("valid_from") <= instant) & (pc.field("valid_to").is_null() | (pc.field("valid_to") > instant))
    rows = {
        table: warehouse.published_rows(table, filter=alive & (pc.field("namesrv_id") == namesrv_id))
        for table in gold.HISTORY_TABLES
        if table is not gold.DATA_VERSION_HISTORY
    }
    beats = _beats(warehouse, rows[gold.BROKER_LIVE_HISTORY], namesrv_id, day, instant)
    intervals = [_with_beat(of, beats) for table, some in rows.items() for of in intervals_from(table.name, some)]
    settings = settings_of(_published(warehouse, gold.NAMESRV_SETTINGS, namesrv_id, day))
    namesrv = namesrv_of(settings, times.day_start_seq(day))
    registry = Registry(namesrv.at(at_us * NS_PER_US).profile)
    restored(registry, intervals)
    return snapshot_text(registry, namesrv_id, at_us, with_kv=past is None or past.knows_kv())


def _day_of(warehouse: Warehouse, namesrv_id: str, at: dt.datetime) -> dt.date:
    """Return the last published day of a name server until the instant, of which something is recorded."""
    until = times.day_of(times.instant_us(at))
    return max(day for day in _days_of(warehouse, namesrv_id) if day <= until)


def _days_of(warehouse: Warehouse, namesrv_id: str) -> set[dt.date]:
    """Return the days that are published of a name server: it has settings on each."""
    cuts = (cut for cut in warehouse.slices_in_force() if cut.table == gold.NAMESRV_SETTINGS.name)
    return {cut.day for cut in cuts if cut.namesrv_id == namesrv_id and cut.day is not None}


def _published(warehouse: Warehouse, table: Table, namesrv_id: str, day: dt.date) -> pa.Table:
    return warehouse.published_rows(table, [day], filter=pc.field("namesrv_id") == namesrv_id)


def _beats(
    warehouse: Warehouse, live: pa.Table, namesrv_id: str, day: dt.date, instant: pa.Scalar
) -> dict[LiveKey, int]:
    """Return the lastUpdateTimestamp of each live entry at an instant, in milliseconds."""
    tables = (bronze.HEARTBEATS, bronze.REGISTRATIONS, gold.EVENT_OUTCOMES)
    read = {table.name: _published(warehouse, table, namesrv_id, day) for table in tables}
    before = max((one for one in _days_of(warehouse, namesrv_id) if one < day), default=None)
    carried = (
        empty(gold.LAST_HEARTBEATS)
        if before is None
        else _published(warehouse, gold.LAST_HEARTBEATS, namesrv_id, before)
    )
    given = {**read, gold.LAST_HEARTBEATS.name: carried, "live": live}
    found = ask(query("day/lease_starts"), given, instant=instant.as_py())
    return {
        LiveKey(row["cluster_name"], row["broker_addr"]): row["beat_ms"]
        for row in found.to_pylist()
        if row["beat_ms"] is not None
    }


def _with_beat(interval: Interval, beats: dict[LiveKey, int]) -> Interval:
    if interval.table != "broker_live":
        return interval
    return interval._replace(last_update_ms=beats.get(LiveKey(*interval.key), interval.last_update_ms))  # type: ignore[arg-type]  # its keys are
