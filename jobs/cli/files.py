"""Files that can be read back: recorded events as a log, and the state of a name server at an instant as a snapshot."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from jobs.cli.output import opened
from jobs.errors import MissingDayError, NothingPublishedError
from jobs.night.work import require_configs
from jobs.printable import nobody
from jobs.store.coverage import require_known
from jobs.store.ledger import days_of
from jobs.store.warehouse import Warehouse
from namesrv_core.history.intervals import restored
from namesrv_core.history.snapshot import snapshot_text
from namesrv_core.inference.settings import namesrv_of
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.past import Past
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import LiveKey
from namesrv_day.arrow.rows import empty, rows_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.start import facts_in, intervals_from
from namesrv_day.settle.settings import settings_of
from namesrv_wire.logs.event_log import line_of
from namesrv_wire.rows import Row
from schemas import bronze, gold, times
from schemas.sql_files import query
from schemas.table import Table


def export(warehouse: Warehouse, output: Path, share: Callable[[int, int], None] = nobody) -> int:
    """Write every recorded event and answer to `output`, ordered by name server and position; return the lines.

    `share` is told how many name servers' days are done, of how many.
    Raises TamperedError; MissingDayError where nothing is recorded.
    """
    stored = warehouse.rows(bronze.TOPIC_CONFIGS_TABLE)
    require_configs(warehouse.path, stored)
    configs = {row["topic_config_digest"]: row for row in rows_of(stored)}
    days = days_of(warehouse.recorded())
    if not days:
        raise MissingDayError(f"{warehouse.path}: nothing is recorded at all")
    lines = 0
    with opened(output) as file:
        namesrvs = sorted({name for day in days for name in warehouse.namesrvs_on(day)})
        for place, namesrv_id in enumerate(namesrvs):
            own = pc.field("namesrv_id") == namesrv_id
            for number, day in enumerate(days):
                share(place * len(days) + number, len(namesrvs) * len(days))
                found = [
                    Row(table.name, row)
                    for table in bronze.RECORDED_TABLES
                    for row in rows_of(warehouse.rows(table, [day], None, own))
                ]
                for row in sorted(found, key=lambda row: (row.values["seq"], row.values["event_id"])):
                    file.write(line_of(row, configs.get(row.values.get("topic_config_digest"))) + "\n")
                lines += len(found)
    return lines


def snapshot_at(warehouse: Warehouse, namesrv_id: str, at: dt.datetime) -> str:
    """Return the snapshot of `namesrv_id` at `at` (with a time zone), as the published tables have it.

    Raises NotRecordedError for an instant that nothing is recorded of, SnapshotUnknownError for an unknown name server and where
    something of the routes was not known then; NothingPublishedError.
    """
    if warehouse.ledger().last is None:
        raise NothingPublishedError(f"{warehouse.path}: no run with status 'published'; run the nightly job first")
    require_known(warehouse.coverage(), namesrv_id, at)
    own, at_us = pc.field("namesrv_id") == namesrv_id, times.instant_us(at)

    def of_day(table: Table, day: dt.date) -> pa.Table:
        return warehouse.published_rows(table, [day], filter=own)

    # A name server has settings on each day that is published of it.
    cuts = (cut for cut in warehouse.slices_in_force() if cut.table == gold.NAMESRV_SETTINGS.name)
    days = {cut.day for cut in cuts if cut.namesrv_id == namesrv_id and cut.day is not None}
    day = max(one for one in days if one <= times.day_of(at_us))
    day_before = max((one for one in days if one < day), default=None)
    facts = facts_in({gold.PAST_KNOWLEDGE.name: of_day(gold.PAST_KNOWLEDGE, day)})
    past = Past.load(facts) if facts else None
    instant = pa.scalar(at_us, pa.timestamp("us", tz="UTC"))
    alive = (pc.field("valid_from") <= instant) & (pc.field("valid_to").is_null() | (pc.field("valid_to") > instant))
    rows = {
        table: warehouse.published_rows(table, filter=alive & own)
        for table in gold.HISTORY_TABLES
        if table is not gold.DATA_VERSION_HISTORY
    }

    # The lastUpdateTimestamp of each live entry.
    given = {of.name: of_day(of, day) for of in (bronze.HEARTBEATS, bronze.REGISTRATIONS, gold.EVENT_OUTCOMES)}
    carried = gold.LAST_HEARTBEATS
    given[carried.name] = empty(carried) if day_before is None else of_day(carried, day_before)
    given["live"] = rows[gold.BROKER_LIVE_HISTORY]
    beats = {
        LiveKey(row["cluster_name"], row["broker_addr"]): row["beat_ms"]
        for row in ask(query("day/lease_starts"), given, instant=instant.as_py()).to_pylist()
        if row["beat_ms"] is not None
    }
    intervals = []
    for interval in (of for table, some in rows.items() for of in intervals_from(table.name, some)):
        if interval.table == "broker_live":
            last = beats.get(LiveKey(*interval.key), interval.last_update_ms)  # type: ignore[arg-type]  # its keys are
            intervals.append(interval._replace(last_update_ms=last))
        else:
            intervals.append(interval)

    namesrv = namesrv_of(settings_of(of_day(gold.NAMESRV_SETTINGS, day)), times.day_start_seq(day))
    registry = Registry(namesrv.at(at_us * NS_PER_US).profile)
    restored(registry, intervals)
    return snapshot_text(registry, namesrv_id, at_us, with_kv=past is None or past.knows_kv())
