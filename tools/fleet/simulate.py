"""Write the events of a simulated fleet into the bronze tables.

Writes  heartbeats, registrations, topic_configs, namesrv_events and sources

A piece of work is some hours or minutes at one name server: its beats follow from their numbers, so that a task makes them and
writes them, in order of time, without having read anything.
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
from jobs.night.work import put_aside, taken_from
from jobs.passes import Passes
from jobs.store.files import DataFile, write_file
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow.rows import conformed, empty, rows_of, table_of, with_derived
from namesrv_wire.protocol.bodies import TopicTable
from namesrv_wire.rows import Row
from schemas import bronze
from schemas.table import Table
from tools.fleet.events import EventRows, namesrv_events_from, source_prefix, tables_of, topic_configs_from
from tools.fleet.fleet import Fleet, FleetError
from tools.fleet.plan import Beats, Plan, beats_of, plan_of, versions_on

_ROWS_PER_FILE = 3_000_000
# Beats that are made at once, and topics.
_ROWS_AT_A_TIME, _TOPICS_AT_A_TIME = 1 << 17, 10_000
ON_TIME, LATE = "on time", "late"
_BEATS = (bronze.HEARTBEATS, bronze.REGISTRATIONS)


@dataclass
class Simulated:
    """What `simulate` has written: events by day and delivery, and days that had been written before."""

    events: dict[str, int] = field(default_factory=dict)
    known: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Delivery:
    """One delivery of one day: the events that come on time, or those that come late or once more, which are put in `staging`."""

    fleet: Fleet
    day: dt.date
    name: str
    root: str
    run_id: str
    staging: str

    @property
    def is_late(self) -> bool:
        """Return whether it comes after the next day's events."""
        return self.name == LATE


@dataclass(frozen=True)
class TopicsWork:
    """Work item: (broker, version) pairs whose topic tables one task writes. `known`: digests of those that are stored."""

    delivery: Delivery
    tables: Sequence[tuple[int, int]]
    known: frozenset[str]


@dataclass(frozen=True)
class BeatsWork:
    """Heartbeats with these numbers at one name server, for one task. `digests`: as `EventRows` has them."""

    delivery: Delivery
    n: int
    numbers: range
    digests: tuple[pa.Array, pa.Array]


@dataclass(frozen=True)
class Written:
    """What a task has made of beats at name server `n`: files by table, or rows in staging; and how many `events`."""

    n: int
    events: int
    files: dict[str, DataFile]
    stashed: list[str]


def simulate(warehouse: Warehouse, passes: Passes, fleet: Fleet, days: Sequence[dt.date]) -> Simulated:
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
                done.events[f"{delivered} {name}"] = deliver(warehouse, passes, fleet, delivered, name)
    return done


def deliver(warehouse: Warehouse, passes: Passes, fleet: Fleet, day: dt.date, name: str) -> int:
    """Write one delivery of one day and note its sources; return the number of events in it.

    What comes late, and what comes a second time, goes the way of real input through `write_staged`.
    """
    delivery = Delivery(fleet, day, name, warehouse.path, warehouse.run_id, warehouse.staging)
    digests = _stored_topics(warehouse, passes, delivery)
    work = [BeatsWork(delivery, *piece, digests) for piece in _pieces(fleet, day, passes.width)]
    written = passes.each(write_beats, work)
    counts: Counter[int] = Counter()
    for part in written:
        counts[part.n] += part.events
    if delivery.is_late:
        _write_late(warehouse, delivery, written)
    else:
        counts.update(_replace_day(warehouse, delivery, written))
    _note_sources(warehouse, delivery, counts)
    warehouse.commit([*(table for table in bronze.TABLES if table is not bronze.SOURCES), bronze.SOURCES])
    warehouse.clear_staging()
    return counts.total()


def _pieces(fleet: Fleet, day: dt.date, width: int) -> Iterator[tuple[int, range]]:
    """Yield name servers and numbers of beats: of equal size, so many that all cores are busy, and no file is too large."""
    beats, first = fleet.beats_per_day, fleet.number_of(day) * fleet.beats_per_day
    parts = min(beats, max(-(-width // fleet.namesrvs), -(-beats * fleet.brokers // _ROWS_PER_FILE)))
    ends = [first + beats * part // parts for part in range(parts + 1)]
    for n in range(fleet.namesrvs):
        yield from ((n, range(*pair)) for pair in pairwise(ends))


# -- topic tables ----------------------------------------------------------------------------------------------------


def _stored_topics(warehouse: Warehouse, passes: Passes, delivery: Delivery) -> tuple[pa.Array, pa.Array]:
    """Have all topic tables of the day stored, each once; return their digests by broker, before a change and after."""
    versions = versions_on(delivery.fleet, delivery.day)
    of_brokers = [tables_of(delivery.fleet, of.tolist()) for of in (versions.before, versions.after)]
    tables = sorted({table for of in of_brokers for table in of})
    stored = warehouse.rows(bronze.TOPIC_CONFIGS_TABLE, columns=["topic_config_digest"])
    known = frozenset(stored.column(0).to_pylist())
    share = -(-len(tables) // passes.width)
    starts = range(0, len(tables), share)
    done = passes.each(write_topics, [TopicsWork(delivery, tables[at : at + share], known) for at in starts])
    warehouse.change(bronze.TOPIC_CONFIGS_TABLE, [file for _, files in done for file in files])
    digests = dict(zip(tables, (digest for found, _ in done for digest in found), strict=True))
    before, after = (pa.array([digests[table] for table in of]) for of in of_brokers)
    return before, after


def write_topics(work: TopicsWork) -> tuple[list[str], list[DataFile]]:
    """Write those of the topic tables that are not stored yet; return the digests of all, and the file."""
    digests: list[str] = []
    fresh: list[TopicTable] = []
    parts: list[pa.Table] = []
    for owner, version in work.tables:
        table = work.delivery.fleet.topic_table(owner, version)
        digests.append(table.digest)
        fresh += [] if table.digest in work.known else [table]
        if len(fresh) * len(table.topics) >= _TOPICS_AT_A_TIME:
            parts.append(topic_configs_from(fresh, work.delivery.run_id))
            fresh = []
    parts += [topic_configs_from(fresh, work.delivery.run_id)] if fresh else []
    files = [_write(work.delivery, bronze.TOPIC_CONFIGS_TABLE, parts)] if parts else []
    return digests, files


# -- beats -----------------------------------------------------------------------------------------------------------


def write_beats(work: BeatsWork) -> Written:
    """Make the events of some beats, and write them."""
    delivery, numbers, a_hour = work.delivery, work.numbers, work.delivery.fleet.beats_per_hour
    hours = range(numbers.start // a_hour, -(-numbers.stop // a_hour))
    plan = plan_of(delivery.fleet, work.n, delivery.day, hours)
    rows = _rows(work, plan)
    if delivery.is_late:
        tables = {table.name: empty(table) for table in _BEATS}
        tables |= {
            table.name: with_derived(pa.concat_tables(conformed(part, table) for part in parts), table)
            for table, parts in rows
        }
        events = sum(len(table) for table in tables.values())
        stashed = [put_aside(delivery.staging, name, of) for name, of in tables.items()] if events else []
        return Written(work.n, events, {}, stashed)
    files = {table.name: _write(delivery, table, parts) for table, parts in rows}
    events = sum(file.rows for file in files.values())
    return Written(work.n, events, files, [])


def _rows(work: BeatsWork, plan: Plan) -> Iterator[tuple[Table, Iterator[pa.Table]]]:
    """Yield the tables that have rows, with these in order, some at a time."""
    delivery = work.delivery
    makes = EventRows(delivery.fleet, plan, delivery.day, work.digests, delivery.run_id)
    step = max(1, _ROWS_AT_A_TIME // delivery.fleet.brokers)
    # Numbers take little: a heartbeat is as a row some ten times as large.
    heartbeats: list[Beats] = []
    registrations: list[Beats] = []
    for start in range(work.numbers.start, work.numbers.stop, step):
        numbers = range(start, min(start + step, work.numbers.stop))
        beats = beats_of(delivery.fleet, plan, numbers, is_late=delivery.is_late)
        heartbeats.append(beats.where(~beats.registers))
        registrations.append(beats.where(beats.registers))
    for table, parts, make in zip(
        _BEATS, (heartbeats, registrations), (makes.heartbeats, makes.registrations), strict=True
    ):
        some = [part for part in parts if len(part.k)]
        if some:
            yield table, map(make, some)


def _write(delivery: Delivery, table: Table, parts: Iterator[pa.Table] | Sequence[pa.Table]) -> DataFile:
    day = delivery.day if table.partition_by else None
    return write_file(parts, delivery.root, table, day, delivery.run_id)


# -- what the driver does with them ----------------------------------------------------------------------------------


def _replace_day(warehouse: Warehouse, delivery: Delivery, written: Sequence[Written]) -> Counter[int]:
    """Have what was written in place of what the day holds; return how many further events there are, by name server."""
    files: defaultdict[str, list[DataFile]] = defaultdict(list)
    for part in written:
        for name, file in part.files.items():
            files[name].append(file)
    lives = namesrv_events_from(delivery.fleet, delivery.day, delivery.run_id)
    if lives.num_rows:
        files[bronze.NAMESRV_EVENTS.name].append(_write(delivery, bronze.NAMESRV_EVENTS, [lives]))
    for table in (*_BEATS, bronze.NAMESRV_EVENTS):
        warehouse.replace(table, [delivery.day], files[table.name])
    sources = pc.value_counts(lives["source_file"]).to_pylist()
    numbers = {file: n for n, file in enumerate(_source_files(delivery.fleet, delivery.day))}
    return Counter({numbers[source["values"]]: source["counts"] for source in sources})


def _write_late(warehouse: Warehouse, delivery: Delivery, written: Sequence[Written]) -> None:
    frames = count()
    with staging_in(f"{warehouse.staging}/late", warehouse.run_id, delivery.day) as staging:
        stashed = (pair for part in written if part.stashed for pair in zip(part.stashed, _BEATS, strict=True))
        for path, table in stashed:
            for values in rows_of(taken_from([path])):
                staging.add(Row(table.name, values), frame=next(frames))
        settle_staged(warehouse, staging, has_logs=False)
        write_staged(warehouse, staging, Ingested(), delivery.day)


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


def _note_sources(warehouse: Warehouse, delivery: Delivery, counts: Counter[int]) -> None:
    """Have the rows of `sources` by which a night finds the delivery."""
    rows = [
        {
            "content_sha256": _source_sha256(delivery.fleet, file, delivery.name),
            "source_file": file,
            "frames": counts[n],
        }
        for n, file in enumerate(_source_files(delivery.fleet, delivery.day))
    ]
    same = {
        "kind": "event_log",
        "verdict": bronze.ACCEPTED,
        "bytes": 0,
        "days": [delivery.day],
        "ingest_run": warehouse.run_id,
    }
    warehouse.append(bronze.SOURCES, table_of(rows, bronze.SOURCES, **same))
