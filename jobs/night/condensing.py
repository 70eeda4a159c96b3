"""The first pass: reads every bronze file of the days once, and keeps little of it.

It condenses heartbeats into hours (`namesrv_day.hours`), counts the rules about single rows of every table, and takes
digests, which also show on which days each name server was recorded.
"""

from __future__ import annotations

import datetime as dt
import re
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import TamperedError
from jobs.night.replaying import Files, files_of
from jobs.passes import Passes
from jobs.store.files import ASKED_FILES, DataFile, groups_of, reading, require_intact
from jobs.store.places import filesystem_of, local_path, unnamed
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow import Digest, Rows, Slice, own_connection, slices_of
from namesrv_day.context import alive
from namesrv_day.events import BEATS
from namesrv_day.hours import hours_from, leases_from
from namesrv_day.rules import Measurement, measure
from schemas import bronze, gold
from schemas.rules import RULES, TABLES
from schemas.table import Rule, Scope, Table

# DuckDB spills above this; so many keys take a gigabyte of disk.
_MEMORY, _KEYS_AT_A_TIME = "256MB", 20_000_000
# Few columns of so many rows take less time in memory than a database of their own.
_MOST_IN_MEMORY = 100_000
_WORD = re.compile(r"\w+")
_RECORDED = tuple(table.name for table in bronze.RECORDED_TABLES)


# -- rules about several rows of recorded tables: keys, connections, clocks, stored topics -----------------------------------


@dataclass(frozen=True)
class TogetherWork:
    """Rules with some `scopes` of some recorded `tables`; `rows`: their row count, `files`: the files of all tables that they read.

    Keys are counted in parts, of which this is `part`, as in `measure`; the first part has all other rules, too. DuckDB spills
    below `staging`.
    """

    files: Files
    scopes: tuple[Scope, ...]
    tables: tuple[str, ...]
    rows: int
    part: tuple[int, int]
    staging: str

    def asks(self, rule: Rule) -> bool:
        """Return whether this work counts a rule."""
        return rule.kind != "row" and rule.scope in self.scopes and (self.part[0] == 0 or rule.kind == "unique")


def to_count(files: Files, digests: Mapping[Slice, Digest], staging: str) -> Iterator[TogetherWork]:
    """Yield the work of counting rules over the recorded tables in `files`, with topic_configs; `digests`: of each slice.

    Few rows are read once for all rules. With many rows each table, and each name server, is a task of its own.
    """
    of_table, of_namesrv = Counter[str](), Counter[str]()
    for cut, digest in digests.items():
        if cut.table in _RECORDED and cut.namesrv_id is not None:
            of_table[cut.table] += digest.rows
            of_namesrv[cut.namesrv_id] += digest.rows

    def reading(*tables: str) -> Files:
        return Files(files.root, {name: files.named.get(name, ()) for name in tables})

    if 0 < of_table.total() < _MOST_IN_MEMORY:
        both = reading(*_RECORDED, bronze.TOPIC_CONFIGS_TABLE.name)
        yield TogetherWork(both, ("namesrv", "table"), _RECORDED, of_table.total(), (0, 1), staging)
        return
    for table, count in of_table.items():
        needs = {name for rule in RULES[table] if rule.scope == "table" for name in rule.needs}
        for part in _parts(count):
            yield TogetherWork(reading(table, *needs), ("table",), (table,), count, part, staging)
    for name, count in of_namesrv.items():
        for part in _parts(count):
            yield TogetherWork(reading(*_RECORDED).of(name), ("namesrv",), _RECORDED, count, part, staging)


def _parts(keys: int) -> list[tuple[int, int]]:
    count = 1 + keys // _KEYS_AT_A_TIME
    return [(number, count) for number in range(count)]


def count_together(work: Iterable[TogetherWork]) -> list[Measurement]:
    """Count the rules of some work: a task, of bounded memory. Raises TamperedError if a file cannot be read."""
    found = []
    for one in work:
        tables, rows = [TABLES[name] for name in one.files.named], dict[str, Rows]()
        with ExitStack() as opened:
            if one.rows < _MOST_IN_MEMORY:
                rules = (rule for table in one.tables for rule in RULES[table] if one.asks(rule))
                words = {*_WORD.findall(" ".join(rule.over or "" for rule in rules))}
                columns = {table: [name for name in table.column_names if name in words] for table in tables}
                rows = {table.name: one.files.rows(table, columns[table]) for table in tables}
            else:
                folder = local_path(one.staging) or Path(tempfile.gettempdir())
                spilled = str(folder / f"spilled-{uuid.uuid4().hex}")
                opened.enter_context(own_connection(memory_limit=_MEMORY, temp_directory=spilled))
                rows = {table.name: opened.enter_context(one.files.reading(table)) for table in tables}
            found += measure(rows, one.tables, which=one.asks, part=one.part)
    return found


T = TypeVar("T")
_ONE_DAY = dt.timedelta(days=1)
# Pieces of work for each core; many, so that the last ones to end are small.
_ROUNDS = 4
# Reading so many bytes takes as long as a query's overhead.
_WORTH_A_QUERY = 1 << 20
_LEASES = ("namesrv_id", "broker_addr", "heartbeat_timeout_ms")


# -- the pass ----------------------------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """Data files of one table (by its name) and one day, which are read in one query."""

    name: str
    day: dt.date
    files: tuple[DataFile, ...]

    @property
    def table(self) -> Table:
        """Return the table."""
        return TABLES[self.name]


@dataclass(frozen=True)
class CondenseWork:
    """Pieces for one task; condensed hours are stashed below `staging`.

    `leases`: by day, the files with the lease times of addresses.
    """

    root: str
    pieces: tuple[Piece, ...]
    leases: dict[dt.date, Files]
    staging: str


@dataclass
class Condensed:
    """Result of the pass.

    The digest of each slice; the files with stashed heartbeats of a day and name server; rules, counted in parts. `damaged`: a
    sentence for each file whose bytes are not those that were written, whatever its rows are.
    """

    digests: dict[Slice, Digest] = field(default_factory=dict)
    stashed: dict[tuple[dt.date, str], tuple[str, ...]] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    def add(self, other: Condensed) -> None:
        """Add the result of another task, or of an earlier pass."""
        for cut, digest in other.digests.items():
            self.digests[cut] = self.digests.get(cut, Digest()) + digest
        for of, paths in other.stashed.items():
            self.stashed[of] = (*self.stashed.get(of, ()), *paths)
        self.measurements += other.measurements
        self.damaged += other.damaged


def condensed(
    warehouse: Warehouse, passes: Passes, days: Sequence[dt.date], starts: Collection[dt.date] = ()
) -> Condensed:
    """Read the rows recorded on `days` once. `starts`: published earlier days, whose live brokers provide leases."""
    files = {table.name: warehouse.files(table, days) for table in bronze.TABLES if table.partition_by}
    warehouse.hold([bronze.REGISTRATIONS], {day - _ONE_DAY for day in days} - {*days})
    leases = dict[dt.date, Files]()
    for day in days:
        # Leases on a day are those of brokers that registered then or the day before, or were live.
        registered = files_of(warehouse, [bronze.REGISTRATIONS], [day - _ONE_DAY, day])
        last = [max(before)] if (before := [start for start in starts if start < day]) else []
        leases[day] = registered.having(files_of(warehouse, [gold.BROKER_LIVE_HISTORY], last).named)
    count = passes.width * _ROUNDS
    most = max(_WORTH_A_QUERY, sum(file.size for of in files.values() for file in of) // count)
    pieces = list[Piece]()
    for name, listed in files.items():
        for of, of_day in groupby(listed, lambda file: file.day):
            assert of is not None
            # Small files of a day, as hourly runs leave them, are put together.
            pieces += (Piece(name, of, tuple(some)) for some in groups_of(of_day, most, ASKED_FILES))
    work = [
        CondenseWork(warehouse.path, tuple(some), leases, warehouse.staging)
        for some in _shared_out(pieces, count, lambda piece: sum(file.size for file in piece.files))
    ]
    total = Condensed()
    for found in passes.each(condense_files, work):
        total.add(found)
    recorded = files_of(warehouse, bronze.RECORDED_TABLES, days)
    topics = files_of(warehouse, [bronze.TOPIC_CONFIGS_TABLE], None)
    together = to_count(recorded.having(topics.named), total.digests, warehouse.staging)
    for counted in passes.each(count_together, _shared_out(together, passes.width, lambda one: one.rows)):
        total.measurements += counted
    return total


def condense_files(work: CondenseWork) -> Condensed:
    """Read some files: the task of the pass."""

    @cache
    def leases(day: dt.date) -> pa.Table:
        files, is_open = work.leases[day], alive(gold.BROKER_LIVE_HISTORY, day - _ONE_DAY, still=True)
        live = files.rows(gold.BROKER_LIVE_HISTORY, _LEASES, is_open)
        return leases_from(live, files.rows(bronze.REGISTRATIONS, _LEASES))

    total = Condensed()
    for piece in work.pieces:
        found, day = Condensed(), piece.day
        with reading(work.root, piece.table, piece.files) as rows:
            found.digests = slices_of(piece.name, rows)
            if piece.table in bronze.RECORDED_TABLES:
                found.measurements = measure({piece.name: rows}, which=lambda rule: rule.kind == "row")
            if piece.table in BEATS:
                hours = hours_from(rows, piece.name, leases(day))
                system, place = filesystem_of(work.staging)
                system.create_dir(place)
                path, stream = unnamed(work.staging, "hours")
                with stream, pa.ipc.new_file(stream, hours.schema) as writer:
                    writer.write_table(hours)
                found.stashed = {(day, name): (path,) for name in pc.unique(hours["namesrv_id"]).to_pylist()}
        try:
            require_intact(work.root, piece.table, piece.files)
        except TamperedError as error:
            found.damaged.append(error.message)
        total.add(found)
    return total


def _shared_out(pieces: Iterable[T], count: int, weight: Callable[[T], int]) -> list[list[T]]:
    """Return the pieces in at most so many heaps of about the same weight, the largest pieces first."""
    heaviest_first = sorted(pieces, key=weight, reverse=True)
    return [heaviest_first[number::count] for number in range(min(count, len(heaviest_first)))]
