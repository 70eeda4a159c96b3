"""Read captures, event logs and snapshots into the bronze tables.

Reads   packet captures and JSON-lines event logs, files or folders; snapshot files
Writes  all bronze tables; a file that was read before, by content, changes nothing. What breaks a rule goes to quarantine

Each table has one commit, and `sources` the last: a file is known from then on, and what was read of it is in the tables.
Until then readers see none of it, so that a run that dies leaves nothing that would have to be taken back.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import ClockError, GateError
from jobs.ingest.addresses import Addresses, note_renamed
from jobs.ingest.gaps import fill_gaps
from jobs.ingest.ingested import Ingested
from jobs.ingest.progress import Progress, Tell, nobody
from jobs.ingest.reading import Reading
from jobs.ingest.remote import at_hand
from jobs.ingest.sources import Source, sources_of
from jobs.ingest.staging import staging_in
from jobs.ingest.tasks import given_back
from jobs.ingest.writing import settle_staged, write_staged
from jobs.processes import rarely_collected
from jobs.store.places import local_path
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow.rows import rows_of, table_of
from namesrv_wire.lateness import Lateness
from schemas import bronze, times
from schemas.table import Table

_IN_ORDER = (*(table for table in bronze.TABLES if table is not bronze.SOURCES), bronze.SOURCES)


def ingest(
    house: Warehouse,
    inputs: Sequence[str],
    snapshots: Sequence[str] = (),
    tell: Tell = nobody,
    width: int = 1,
) -> Ingested:
    """Read `inputs` and `snapshots`, files, folders or URLs, into the bronze tables of the warehouse; return what was read.

    `tell` is told now and then how far it is. `width`: so many processes read parts of files, and write.

    Raises ClockError, after noting them in `sources`, if all there was to read were files without order; GateError, before
    anything is committed, if a frame is unaccounted for.
    """
    with at_hand(inputs) as files, at_hand(snapshots) as states, rarely_collected(), given_back():
        return _ingest(house, (files, states), tell, width)


def _ingest(house: Warehouse, given: tuple[Sequence[str], Sequence[str]], tell: Tell, width: int) -> Ingested:
    result = Ingested()
    sources, addresses = _fresh_sources(house, *given, result), Addresses(house)
    if not sources:
        if addresses.are_new and (days := addresses.apply(())):
            note_renamed(house, addresses, days)
            house.commit(_IN_ORDER)
        return result
    watermarks = {row["namesrv_id"]: row["latest_time"] for row in rows_of(house.rows(bronze.WATERMARKS))}
    namesrv_of = addresses.namesrv_of
    of_addresses = {addr: watermarks[name] for addr, name in namesrv_of.items() if name in watermarks}
    lateness = Lateness(watermarks | of_addresses, house.conf.late_limit_days)
    folder = local_path(house.staging) or Path(tempfile.gettempdir()) / house.run_id
    with staging_in(folder, house.run_id, house.started.date(), namesrv_of) as staging:
        reading = Reading(house, staging, lateness, result, namesrv_of, Progress(sources, tell), width)
        read = reading.read(sources)
        has_logs = any(source.kind == "event_log" for source in sources)
        pa.default_memory_pool().release_unused()
        settle_staged(house, staging, has_logs=has_logs)
        addresses.state(reading.stated)
        last_day = times.day_of(max(watermarks.values())) if watermarks else house.started.date()
        write_staged(house, staging, result, last_day, width)
    if result.unaccounted:
        raise GateError(
            f"{result.unaccounted} frames are neither events, answers, duplicates, quarantined nor ignored; none of the files "
            "counts as read"
        )
    result.days = sorted({*result.days, *addresses.apply(result.days)})
    result.days = sorted({*result.days, *fill_gaps(house, result.days)})
    _upsert(house, bronze.OPEN_STREAMS, reading.open_streams)
    # Never beyond the run's own clock: else one event from the future would make everything after it too late.
    reached: dict[str, int] = {}
    for addr, us in sorted(lateness.latest_us.items(), key=itemgetter(1)):
        reached[addresses.namesrv_of.get(addr, addr)] = min(us, times.instant_us(house.started))
    moved = [
        {"namesrv_id": name, "latest_time": us} for name, us in sorted(reached.items()) if us > watermarks.get(name, -1)
    ]
    _upsert(house, bronze.WATERMARKS, moved)
    used = [row for row in read if row["content_sha256"] not in reading.unused]
    house.write(bronze.SOURCES, table_of(used, bronze.SOURCES, days=result.days, ingest_run=house.run_id))
    met = lateness.latest_us.keys() | watermarks.keys() | namesrv_of.keys()
    result.never_met = sorted(house.conf.named - met)
    house.commit(_IN_ORDER)
    if result.unordered and not result.events + result.observations + result.duplicates:
        raise ClockError(f"{'; '.join(result.errors)}. There was nothing else to read")
    return result


def join_addresses(house: Warehouse, groups: Sequence[Sequence[str]]) -> None:
    """Have the name servers of each group be one, called by the first; the days of their rows are to be replayed."""
    addresses = Addresses(house)
    addresses.join(groups)
    note_renamed(house, addresses, addresses.apply(()))
    house.commit(_IN_ORDER)


def _fresh_sources(house: Warehouse, inputs: Sequence[str], snapshots: Sequence[str], result: Ingested) -> list[Source]:
    """Return the files that no run has noted, each content once, in order of time; note the others in `result`."""
    known = {source.sha256: source.frames for source in house.recorded()} if inputs or snapshots else {}
    fresh: dict[str, Source] = {}
    for source in sources_of(inputs, snapshots):
        if source.sha256 in known:
            result.frames += known[source.sha256]
            result.duplicates += known[source.sha256]
            result.known_sources.append(source.path.name)
        else:
            fresh.setdefault(source.sha256, source)
    return list(fresh.values())


def _upsert(house: Warehouse, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Have `rows` in a small table, which is not cut by day, instead of those with their keys."""
    if rows:
        added, key = table_of(rows, table, ingest_run=house.run_id), table.key[0]
        others = house.rows(table, filter=~pc.field(key).isin(added[key]))
        house.write(table, pa.concat_tables([others, added]), instead=house.files(table))
