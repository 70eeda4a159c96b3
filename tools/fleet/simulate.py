"""Write the events of a simulated fleet into the bronze tables.

Writes  heartbeats, registrations, topic_configs, namesrv_events and sources

Beats follow from their numbers: those of some hours or minutes at one name server are made, in order of time, without anything
that was made before.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

import pyarrow as pa
import pyarrow.compute as pc

from jobs.ingest.sources import Ingested
from jobs.ingest.staging import settle_staged, staging_in, write_staged
from jobs.store.files import DataFile, write_file
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow import conformed, rows_of, table_of, with_derived
from namesrv_wire.protocol.bodies import TopicTable
from namesrv_wire.rows import Row
from schemas import bronze
from schemas.table import Table
from tools.fleet.events import EventRows, namesrv_events_from, source_prefix, tables_of, topic_configs_from
from tools.fleet.fleet import Fleet, FleetError
from tools.fleet.plan import Beats, beats_of, plan_of, versions_on

_ROWS_PER_FILE = 3_000_000
# Beats that are made at once, and topics.
_ROWS_AT_A_TIME, _TOPICS_AT_A_TIME = 1 << 17, 10_000
ON_TIME, LATE = "on time", "late"
_BEATS = (bronze.HEARTBEATS, bronze.REGISTRATIONS)
_Digests = tuple[pa.Array, pa.Array]
"""As `EventRows` has them."""


@dataclass
class Simulated:
    """What `simulate` has written: events by day and delivery, and days that had been written before."""

    events: dict[str, int] = field(default_factory=dict)
    known: list[str] = field(default_factory=list)


def simulate(warehouse: Warehouse, fleet: Fleet, days: Sequence[dt.date]) -> Simulated:
    """Deliver each of `days` in order: its events that come on time, then what is late of the day before.

    A day that this fleet has delivered is not written again. The slices of the days belong to the fleet: what else is
    in them is replaced. Raises FleetError if another fleet was simulated into the warehouse. The caller has locked it.
    """
    done = Simulated()
    for day in sorted(days):
        for delivered, name in ((day, ON_TIME), (day - dt.timedelta(days=1), LATE)):
            if delivered < fleet.start or (name == LATE and not (fleet.late or fleet.duplicates)):
                continue
            if _is_known(warehouse, fleet, delivered, name):
                done.known.append(f"{delivered} {name}")
            else:
                done.events[f"{delivered} {name}"] = deliver(warehouse, fleet, delivered, name)
    return done


def deliver(warehouse: Warehouse, fleet: Fleet, day: dt.date, name: str) -> int:
    """Write one delivery of one day, and note its sources; return the number of events in it.

    `name`: ON_TIME, or LATE: what comes late, or once more, goes the way of real input through `write_staged`.
    """
    digests = _stored_topics(warehouse, fleet, day)
    counts = (_write_late if name == LATE else _replace_day)(warehouse, fleet, day, digests)
    _note_sources(warehouse, fleet, day, name, counts)
    warehouse.commit([*(table for table in bronze.TABLES if table is not bronze.SOURCES), bronze.SOURCES])
    warehouse.clear_staging()
    return counts.total()


def _stored_topics(warehouse: Warehouse, fleet: Fleet, day: dt.date) -> _Digests:
    """Have all topic tables of the day stored, each once; return their digests by broker, before a change and after."""
    versions = versions_on(fleet, day)
    of_brokers = [tables_of(fleet, of.tolist()) for of in (versions.before, versions.after)]
    stored = warehouse.rows(bronze.TOPIC_CONFIGS_TABLE, columns=["topic_config_digest"])
    known = frozenset(stored.column(0).to_pylist())
    digests: dict[tuple[int, int], str] = {}
    fresh: list[TopicTable] = []
    parts: list[pa.Table] = []
    for owned in sorted({owned for of in of_brokers for owned in of}):
        table = fleet.topic_table(*owned)
        digests[owned] = table.digest
        fresh += [] if table.digest in known else [table]
        if len(fresh) * len(table.topics) >= _TOPICS_AT_A_TIME:
            parts.append(topic_configs_from(fresh, warehouse.run_id))
            fresh = []
    parts += [topic_configs_from(fresh, warehouse.run_id)] if fresh else []
    if parts:
        warehouse.change(bronze.TOPIC_CONFIGS_TABLE, [_written(warehouse, bronze.TOPIC_CONFIGS_TABLE, None, parts)])
    before, after = (pa.array([digests[owned] for owned in of]) for of in of_brokers)
    return before, after


def _pieces(fleet: Fleet, day: dt.date) -> Iterator[tuple[int, range]]:
    """Yield name servers and numbers of beats: of equal size, and so few that no file is too large."""
    beats, first = fleet.beats_per_day, fleet.number_of(day) * fleet.beats_per_day
    parts = min(beats, -(-beats * fleet.brokers // _ROWS_PER_FILE))
    ends = [first + beats * part // parts for part in range(parts + 1)]
    for n in range(fleet.namesrvs):
        yield from ((n, range(*pair)) for pair in pairwise(ends))


def _beats(
    warehouse: Warehouse, fleet: Fleet, day: dt.date, digests: _Digests, *, is_late: bool
) -> Iterator[tuple[int, Table, Iterator[pa.Table]]]:
    """Yield name servers and tables that have rows, with these in order, some at a time."""
    step = max(1, _ROWS_AT_A_TIME // fleet.brokers)
    for n, numbers in _pieces(fleet, day):
        hours = range(numbers.start // fleet.beats_per_hour, -(-numbers.stop // fleet.beats_per_hour))
        plan = plan_of(fleet, n, day, hours)
        makes = EventRows(fleet, plan, day, digests, warehouse.run_id)
        # A heartbeat takes some ten times as much memory as a row than as a number.
        heartbeats: list[Beats] = []
        registrations: list[Beats] = []
        for start in range(numbers.start, numbers.stop, step):
            beats = beats_of(fleet, plan, range(start, min(start + step, numbers.stop)), is_late=is_late)
            heartbeats.append(beats.where(~beats.registers))
            registrations.append(beats.where(beats.registers))
        makers = (makes.heartbeats, makes.registrations)
        for table, parts, make in zip(_BEATS, (heartbeats, registrations), makers, strict=True):
            if some := [part for part in parts if len(part.k)]:
                yield n, table, map(make, some)


def _written(
    warehouse: Warehouse, table: Table, day: dt.date | None, parts: Iterator[pa.Table] | Sequence[pa.Table]
) -> DataFile:
    return write_file(parts, warehouse.path, table, day, warehouse.run_id)


def _replace_day(warehouse: Warehouse, fleet: Fleet, day: dt.date, digests: _Digests) -> Counter[int]:
    """Have the events that come on time in place of what the day holds; return how many there are, by name server."""
    counts: Counter[int] = Counter()
    files: defaultdict[str, list[DataFile]] = defaultdict(list)
    for n, table, parts in _beats(warehouse, fleet, day, digests, is_late=False):
        files[table.name].append(_written(warehouse, table, day, parts))
        counts[n] += files[table.name][-1].rows
    lives = namesrv_events_from(fleet, day, warehouse.run_id)
    if lives.num_rows:
        files[bronze.NAMESRV_EVENTS.name].append(_written(warehouse, bronze.NAMESRV_EVENTS, day, [lives]))
    for table in (*_BEATS, bronze.NAMESRV_EVENTS):
        warehouse.replace(table, [day], files[table.name])
    numbers = {file: n for n, file in enumerate(_source_files(fleet, day))}
    for source in pc.value_counts(lives["source_file"]).to_pylist():
        counts[numbers[source["values"]]] += source["counts"]
    return counts


def _write_late(warehouse: Warehouse, fleet: Fleet, day: dt.date, digests: _Digests) -> Counter[int]:
    """Have what comes late, or once more, beside what the day holds; return how many there are, by name server."""
    counts: Counter[int] = Counter()
    frames = count()
    with staging_in(f"{warehouse.staging}/late", warehouse.run_id, day) as staging:
        for n, table, parts in _beats(warehouse, fleet, day, digests, is_late=True):
            rows = with_derived(pa.concat_tables(conformed(part, table) for part in parts), table)
            counts[n] += len(rows)
            staging.add([Row(table.name, values) for values in rows_of(rows)], frames)
        settle_staged(warehouse, staging, has_logs=False)
        write_staged(warehouse, staging, Ingested(), day)
    return counts


# -- where it comes from -----------------------------------------------------------------------------------------------


def _source_sha256(fleet: Fleet, file: str, name: str) -> str:
    return hashlib.sha256(f"{fleet.sha256} {file} {name}".encode()).hexdigest()


def _source_files(fleet: Fleet, day: dt.date) -> list[str]:
    return [f"{source_prefix(day)}{n}" for n in range(fleet.namesrvs)]


def _is_known(warehouse: Warehouse, fleet: Fleet, day: dt.date, name: str) -> bool:
    """Return whether this fleet's delivery was written. Raises FleetError if another fleet's was."""
    of_day = pc.starts_with(pc.field("source_file"), source_prefix(day))
    found = set(warehouse.rows(bronze.SOURCES, columns=["content_sha256"], filter=of_day).column(0).to_pylist())
    files = _source_files(fleet, day)
    if found - {_source_sha256(fleet, file, d) for file in files for d in (ON_TIME, LATE)}:
        raise FleetError(f"{warehouse.path}: {day} was simulated with other options")
    return _source_sha256(fleet, files[0], name) in found


def _note_sources(warehouse: Warehouse, fleet: Fleet, day: dt.date, name: str, counts: Counter[int]) -> None:
    """Have the rows of `sources` by which a night finds the delivery."""
    rows = [
        {"content_sha256": _source_sha256(fleet, file, name), "source_file": file, "frames": counts[n]}
        for n, file in enumerate(_source_files(fleet, day))
    ]
    same = {"kind": "event_log", "verdict": bronze.ACCEPTED, "bytes": 0, "days": [day], "ingest_run": warehouse.run_id}
    warehouse.append(bronze.SOURCES, table_of(rows, bronze.SOURCES, **same))
