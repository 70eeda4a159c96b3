"""Rules about all recorded rows together: ids are compared a group of parts at a time, runs where they overlap."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from jobs.night import stash
from jobs.night.opened import TABLES
from jobs.store.files import DataFile, bounds_of, read_files
from jobs.store.relations import ask_file
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow.rows import with_microseconds
from namesrv_day.gate import keys, runs, scan
from namesrv_day.gate.keys import Copies, Numbers
from namesrv_day.gate.rules import Measurement
from namesrv_day.gate.runs import Run, Stretch
from namesrv_day.gate.scan import Scan
from schemas import bronze

_SMALL = ("connections", "deciding", "topics")
_FEW = 4


@dataclass(frozen=True)
class FileRun:
    """A run, and the file of a table in which it lies."""

    table: str
    file: DataFile
    run: Run


@dataclass(frozen=True)
class KeysWork:
    """Some groups of the ids that were left at `places`; stretches of keys below the warehouse `root`, with their files."""

    places: tuple[str, ...]
    groups: tuple[int, ...]
    root: str
    stretches: tuple[tuple[Stretch, tuple[FileRun, ...]], ...]


def what_is_left(found: Scan, groups: int) -> dict[str, pa.Table]:
    """Return what a file leaves, as it is stashed: its ids by group."""
    left = {name: getattr(found, name) for name in _SMALL}
    in_group = [part % groups for part in found.ids["part"].to_pylist()]
    for group in range(groups):
        rows = [row for row, of in enumerate(in_group) if of == group]
        left[f"ids-{group}"] = found.ids.take(pa.array(rows, pa.int64()))
    return left


@dataclass(frozen=True)
class Comparison:
    """What is still to be compared of the keys recorded on `days`: pieces of `work`, and what is judged of their results.

    `places`: where files left what they know; `found`: their runs.
    """

    places: tuple[str, ...]
    found: tuple[FileRun, ...]
    days: tuple[dt.date, ...]
    work: tuple[KeysWork, ...]

    def judged(self, house: Warehouse, compared: Iterable[tuple[list[Copies], list[Run]]]) -> list[Measurement]:
        """Return what is counted of the rules about keys, connections, clocks and topics; `compared`: by `compare_keys`."""
        copies, of_runs = list[Copies](), [of.run for of in self.found]
        for of_ids, of_stretches in compared:
            copies += of_ids
            of_runs += of_stretches
        connections, deciding, topics = (stash.take(self.places, name) for name in _SMALL)
        stored = house.rows(bronze.TOPIC_CONFIGS_TABLE, None, ["topic_config_digest"])
        positions = runs.copies(runs.POSITIONS, of_runs)
        return [
            *keys.judged(positions, [*copies, *_timed(of_runs)], partial(_again, house, self.days)),
            *scan.judged(connections, deciding, topics, stored),
        ]


def to_compare(
    root: str, places: Sequence[str], groups: int, found: Sequence[FileRun], days: Sequence[dt.date], tasks: int
) -> Comparison:
    """Return what is to be compared of some files' keys, in at most so many `tasks`; `places`, `found`: see `Comparison`."""
    overlapping = [(one, tuple(found[n] for n in one.runs)) for one in runs.overlaps([of.run for of in found])]
    tasks = min(groups, tasks)
    work = [
        KeysWork(tuple(places), tuple(range(groups))[task::tasks], root, tuple(overlapping[task::tasks]))
        for task in range(tasks)
    ]
    return Comparison(tuple(places), tuple(found), tuple(days), tuple(work))


def _timed(of_runs: Sequence[Run]) -> list[Copies]:
    return [copies._replace(owner=table) for table in keys.TIMED for copies in runs.copies(table, of_runs)]


def compare_keys(work: KeysWork) -> tuple[list[Copies], list[Run]]:
    """Compare ids, a group at a time, and some stretches: a task. Returns what is found of prints, and of runs."""
    ids = [of for group in work.groups for of in keys.copies_in(stash.take(work.places, f"ids-{group}"))]
    return ids, [runs.compared(one, [_keys(work.root, one, of) for of in files]) for one, files in work.stretches]


def _keys(root: str, stretch: Stretch, of: FileRun) -> runs.Numbers:
    """Return the keys that a file has in a stretch."""
    owner, key = scan.RUNS[stretch.kind]
    wanted = pc.scalar(True)
    if stretch.owner is None or owner != "namesrv_id" or set(bounds_of(of.file)) != {stretch.owner}:
        wanted &= pc.field(owner).is_null() if stretch.owner is None else pc.field(owner) == stretch.owner
    if stretch.kind != runs.POSITIONS:
        wanted &= pc.field("stated_id").is_null()
    # To look at each key takes longer than to read them all: only where most can be left out unread.
    if stretch.last - stretch.first < (of.run.last - of.run.first) // _FEW:
        kind = TABLES[of.table].schema.field(key).type
        first, last = (pa.scalar(edge, pa.int64()).cast(kind) for edge in (stretch.first, stretch.last))
        wanted &= (pc.field(key) >= first) & (pc.field(key) <= last)
    return runs.within(
        stretch, with_microseconds(read_files(root, TABLES[of.table], [of.file], [key], wanted))[key].to_numpy()
    )


def _again(house: Warehouse, days: Sequence[dt.date], name: str, prints: Numbers) -> list[str]:
    """Return the ids of a table that have one of these prints, as often as they are there."""
    table = TABLES[name]
    files = house.files(table, days)
    return [
        event_id
        for file in files
        for event_id in ask_file(house.path, table, file, lambda rows: keys.ids_with(rows, name, prints))
    ]
