"""The first pass: every bronze file of the days is read once, and leaves little.

Beats become hours (`namesrv_day.hours.condense`); of every table the rules about single rows are counted and digests are taken,
which also tell what was heard of whom. Gold slices from which a night starts are held against their digests in the same pass.
"""

from __future__ import annotations

import datetime as dt
import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TypeVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import TamperedError
from jobs.night import stash
from jobs.night.opened import files_of
from jobs.night.together import TogetherWork, to_count
from jobs.passes import Passes
from jobs.store.files import DataFile, read_files
from jobs.store.relations import reading, require_intact
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow.digest import Digest, Slice, slices_of
from namesrv_day.day.alive import alive
from namesrv_day.day.day_events import BEATS
from namesrv_day.gate.rules import Measurement, counted, row_rules
from namesrv_day.hours import answered, condense
from schemas import bronze, gold
from schemas.rules import TABLES
from schemas.table import Table

T = TypeVar("T")
_ONE_DAY = dt.timedelta(days=1)
# So many pieces of work for each core: the last ones to end are small.
_ROUNDS = 4
_LEASES = ("namesrv_id", "broker_addr", "heartbeat_timeout_ms")


@dataclass(frozen=True)
class Piece:
    """One data file, by the name of its table."""

    name: str
    file: DataFile

    @property
    def table(self) -> Table:
        """Return the table."""
        return TABLES[self.name]


@dataclass(frozen=True)
class CondenseWork:
    """Pieces for one task; hours are stashed below `staging`.

    `leases`: where addresses say for how long they live, by day.
    """

    root: str
    pieces: tuple[Piece, ...]
    leases: dict[dt.date, tuple[Piece, ...]]
    staging: str


@dataclass
class Condensed:
    """What the pass has found.

    How many rows each slice has, and its digest; where hours of beats, and of answers, of a name server's day are stashed; rules,
    counted in parts; what is still `to_count` of rules about several rows, a task each. `damaged`:
    what is to be said of files that have not the bytes that were written, whatever their rows are.
    """

    rows: Counter[Slice] = field(default_factory=Counter)
    digests: dict[Slice, Digest] = field(default_factory=dict)
    hours: dict[tuple[dt.date, str], tuple[str, ...]] = field(default_factory=dict)
    answers: dict[tuple[dt.date, str], tuple[str, ...]] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    to_count: list[tuple[TogetherWork, ...]] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    def add(self, other: Condensed) -> None:
        """Add what another task, or an earlier pass, has found."""
        self.rows += other.rows
        for cut, digest in other.digests.items():
            self.digests[cut] = self.digests.get(cut, Digest()) + digest
        for mine, others in ((self.hours, other.hours), (self.answers, other.answers)):
            for of, places in others.items():
                mine[of] = (*mine.get(of, ()), *places)
        self.measurements += other.measurements
        self.to_count += other.to_count
        self.damaged += other.damaged


def condensed(
    warehouse: Warehouse,
    passes: Passes,
    days: Sequence[dt.date],
    starts: Collection[dt.date] = (),
) -> Condensed:
    """Read what is recorded on `days`, and the gold slices of `starts`, once."""
    by_day = [table for table in bronze.TABLES if table.partition_by]
    pieces = [Piece(table.name, file) for table in by_day for file in warehouse.files(table, days)]
    if starts:
        named = files_of(warehouse, (*gold.HISTORY_TABLES, *gold.REPORT_TABLES), starts).named
        pieces += [Piece(name, file) for name, files in named.items() for file in files]
    warehouse.hold([bronze.REGISTRATIONS], {day - _ONE_DAY for day in days} - {*days})
    leases = {day: tuple(_lease_pieces(warehouse, day, starts)) for day in days}
    work = [
        CondenseWork(warehouse.path, tuple(some), leases, warehouse.staging)
        for some in _shared_out(pieces, passes.width * _ROUNDS, lambda piece: piece.file.size)
    ]
    total = Condensed()
    for found in passes.each(condense_files, work):
        total.add(found)
    files = files_of(warehouse, bronze.RECORDED_TABLES, days)
    topics = files_of(warehouse, [bronze.TOPIC_CONFIGS_TABLE], None)
    together = to_count(files.having(topics.named), total.rows, warehouse.staging)
    total.to_count = [tuple(some) for some in _shared_out(together, passes.width, lambda one: one.rows)]
    return total


def condense_files(work: CondenseWork) -> Condensed:
    """Read some files: the task of the pass."""
    found, leases = Condensed(), cache(partial(_leases, work))
    for piece in work.pieces:
        found.add(_condensed(work, piece, leases))
    return found


def _condensed(work: CondenseWork, piece: Piece, leases: Callable[[dt.date], pa.Table]) -> Condensed:
    day, is_bronze = piece.file.day, piece.table.layer == "bronze"
    with reading(work.root, piece.table, [piece.file]) as rows:
        found = Condensed() if day is None or not is_bronze else _of_recorded(work, piece, day, rows, leases)
        found.digests = slices_of(piece.name, rows)
    found.rows = Counter({cut: digest.rows for cut, digest in found.digests.items()})
    try:
        require_intact(work.root, piece.table, [piece.file])
    except TamperedError as error:
        found.damaged.append(error.said)
    return found


def _of_recorded(
    work: CondenseWork,
    piece: Piece,
    day: dt.date,
    rows: duckdb.DuckDBPyRelation,
    leases: Callable[[dt.date], pa.Table],
) -> Condensed:
    """Return what the rows of a file of a bronze table leave but the digests of its slices."""
    found = Condensed()
    if piece.table in bronze.RECORDED_TABLES:
        found.measurements = counted(rows, piece.name, row_rules(piece.name))
    if piece.table in BEATS:
        hours = condense.hours_from(rows, piece.name, leases(day))
        place = stash.put(work.staging, {"hours": hours})
        found.hours = {(day, name): (place,) for name in pc.unique(hours["namesrv_id"]).to_pylist()}
    if piece.table is bronze.ROUTE_OBSERVATIONS:
        answers = answered.hours_from(rows)
        place = stash.put(work.staging, {"answers": answers})
        found.answers = {(day, name): (place,) for name in pc.unique(answers["namesrv_id"]).to_pylist()}
    return found


def _lease_pieces(warehouse: Warehouse, day: dt.date, starts: Iterable[dt.date]) -> Iterator[Piece]:
    """Yield the files that say for how long an address lives on `day`: who registered, then or on the day before, or was live."""
    for file in warehouse.files(bronze.REGISTRATIONS, [day - _ONE_DAY, day]):
        yield Piece(bronze.REGISTRATIONS.name, file)
    last = max((start for start in starts if start < day), default=None)
    live = gold.BROKER_LIVE_HISTORY
    for file in files_of(warehouse, [live], [last]).named[live.name] if last else ():
        yield Piece(live.name, file)


def _leases(work: CondenseWork, day: dt.date) -> pa.Table:
    said = {}
    for table in (gold.BROKER_LIVE_HISTORY, bronze.REGISTRATIONS):
        files = [piece.file for piece in work.leases[day] if piece.table is table]
        is_open = alive(table, day - _ONE_DAY, still=True) if table.has_intervals else None
        said[table] = read_files(work.root, table, files, _LEASES, is_open)
    return condense.leases_from(said[gold.BROKER_LIVE_HISTORY], said[bronze.REGISTRATIONS])


def _shared_out(pieces: Iterable[T], count: int, weight: Callable[[T], int]) -> list[list[T]]:
    """Return the pieces in at most so many heaps of about the same weight, the largest first."""
    heaps: list[tuple[int, int, list[T]]] = [(0, number, []) for number in range(count)]
    for piece in sorted(pieces, key=lambda piece: -weight(piece)):
        total, number, heap = heaps[0]
        heap.append(piece)
        heapq.heapreplace(heaps, (total + weight(piece), number, heap))
    return [heap for _, _, heap in sorted(heaps, key=lambda heap: -heap[0]) if heap]
