"""Maintenance: compacts small files, and deletes files that no reader may ask for any more.

Writes  compacted files with the same rows, in new versions
Deletes data files and log entries that no version from the oldest pinned one on needs; remains of crashed runs in staging

Delta's VACUUM deletes by the age of a file, but readers pin versions by number. So the log decides which files a version
needs.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from jobs.errors import TamperedError, nobody
from jobs.store import delta_log
from jobs.store.delta_log import LOG, Version
from jobs.store.files import DataFile, batches_of, groups_of, is_rooted, joins_of, write_file
from jobs.store.places import filesystem_of, table_path
from jobs.store.published import OLDEST, oldest_kept
from jobs.store.warehouse import WRITTEN_TABLES, Warehouse
from namesrv_day.arrow import Digest, digests_by, sum_of
from schemas import bronze, gold
from schemas.table import Table

_ALL_TABLES = (*bronze.TABLES, *gold.TABLES)
# A day with this many files below this size is rewritten: opening a file costs about as much as reading that much.
_CROWD, _SMALL_BYTES, _FULL_BYTES = 4, 16 << 20, 128 << 20


class TableCare(NamedTuple):
    """What maintenance did, or would do, to one table: compacted days; files and bytes, data and log, before and after."""

    compacted_days: int
    files: int
    files_after: int
    bytes: int
    bytes_after: int


@dataclass
class Maintained:
    """Result of maintenance: by table, and the removed staging folders. Of the published `runs`, `readable` still are."""

    by_table: dict[str, TableCare] = field(default_factory=dict)
    staging: list[str] = field(default_factory=list)
    readable: int = 0
    runs: int = 0

    @property
    def total(self) -> TableCare:
        """Return the sum over all tables."""
        return TableCare(*map(sum, zip(TableCare(0, 0, 0, 0, 0), *self.by_table.values(), strict=True)))


def maintain(
    warehouse: Warehouse,
    retain_days: int = delta_log.KEPT_DAYS,
    share: Callable[[int, int], None] = nobody,
    *,
    dry_run: bool = False,
) -> Maintained:
    """Compact, then delete what neither the last published run nor any run published in the last `retain_days` days needs.

    The caller holds the lock; that of readers will do for `dry_run`, which changes nothing, and counts files that compaction
    would replace as they are. `share` gets the number of finished tables, and of all. Raises TamperedError before anything is
    deleted, BrokenLogError for a log with a missing commit, LayoutError.
    """
    warehouse.require_ledger()  # refuses another layout, or an older ledger, before anything is changed
    root = warehouse.path
    # With a log that is behind, or lacks a commit, needed files would look unused.
    for table in WRITTEN_TABLES:
        warehouse.published_files(table)
    existing = {
        table.name: Version(root, table, head) for table in _ALL_TABLES if (head := delta_log.head_of(root, table)) >= 0
    }
    runs = warehouse.rows(gold.RUNS, columns=["finished_time", "versions"], filter=pc.field("status") == "published")
    pinned = [(row["finished_time"], dict(row["versions"] or ())) for row in runs.to_pylist()]
    oldest = oldest_versions(pinned, warehouse.started - dt.timedelta(days=retain_days))
    if gold.RUNS.name in existing:
        # A version that an earlier maintenance with a shorter retention deleted stays deleted.
        gone = oldest_kept(existing[gold.RUNS.name].delta)
        oldest = {name: max(oldest.get(name, 0), gone.get(name, 0)) for name in {**gone, **oldest}}
    crowded = {name: _crowded(version) for name, version in existing.items()}
    system, folder = filesystem_of(f"{root}/_staging")
    # The holder of the lock is the only run, so none of these is in use.
    staging = sorted(of.base_name for of in system.get_file_info(pafs.FileSelector(folder, allow_not_found=True)))
    done = Maintained({}, staging, sum(is_readable(versions, oldest) for _, versions in pinned), len(pinned))
    before = {name: _files(root, version.table) for name, version in existing.items()}
    if not dry_run:
        for number, (name, version) in enumerate(existing.items()):
            share(number, 2 * len(existing))
            compacted = _compacted(warehouse, version, crowded[name])
            delta_log.set_properties(compacted, delta_log.properties(retain_days), warehouse.run_id)
        if gold.RUNS.name in existing:
            ledger = Version(root, gold.RUNS)
            # From now on only these versions and later ones are readable.
            delta_log.set_properties(ledger, {OLDEST: json.dumps(oldest, sort_keys=True)}, warehouse.run_id)
        warehouse.clear_staging()
        # The old file names ledger files that are about to be deleted.
        warehouse.write_history()
    for number, (name, version) in enumerate(existing.items(), start=len(existing)):
        share(number, 2 * len(existing))
        # No run pins the ledger, but somebody may be reading its current version.
        first = version.number if version.table is gold.RUNS else oldest.get(name, 0)
        left, files = _cleaned(root, version.table, first, dry_run=dry_run), before[name]
        done.by_table[name] = TableCare(
            len(crowded[name]), len(files), len(left), sum(files.values()), sum(left.values())
        )
    return done


# -- which versions must stay readable -------------------------------------------------------------------------------


Pinned = tuple[dt.datetime, Mapping[str, int]]
"""When a run was published, and the versions that it pinned, by table."""


def oldest_versions(pinned: Iterable[Pinned], since: dt.datetime) -> dict[str, int]:
    """Return for each table the oldest version that a run published `since` pinned; the last run always counts."""
    runs = sorted(pinned, key=itemgetter(0))
    kept = [versions for at, versions in runs if at >= since] or [versions for _, versions in runs[-1:]]
    tables = sorted({table for versions in kept for table in versions})
    return {table: min(versions[table] for versions in kept if table in versions) for table in tables}


def is_readable(versions: Mapping[str, int], oldest: Mapping[str, int]) -> bool:
    """Return whether all of `versions` are still kept."""
    return all(version >= oldest.get(table, 0) for table, version in versions.items())


# -- compaction ------------------------------------------------------------------------------------------------------


def _crowded(version: Version) -> dict[dt.date | None, list[DataFile]]:
    """Return the small files of each day that has many of them; the key None: a table that is not cut by day.

    Closed intervals are grouped by month (key: its first day). Open ones stay: they already have the right number of files.
    Recorded events stay in the files that hold them: the chain has the bytes of these files, not the rows.
    """
    if not is_rooted(version.table):
        return {}
    small: dict[dt.date | None, list[DataFile]] = {}
    for file in version.files():
        if file.size < _SMALL_BYTES and (file.closed or not version.table.has_intervals):
            small.setdefault(file.closed[0].replace(day=1) if file.closed else file.day, []).append(file)
    return {day: files for day, files in small.items() if len(files) >= _CROWD}


def _compacted(warehouse: Warehouse, version: Version, crowded: Mapping[dt.date | None, list[DataFile]]) -> Version:
    """Put small files together, prove that the rows are the same, and return the new version."""
    groups = [
        (day, group)
        for day, files in crowded.items()
        # Keep the files of a name server together.
        for group in groups_of(sorted(files, key=lambda file: (file.namesrvs[0] or "", file.path)), _FULL_BYTES)
    ]
    if not groups:
        return version
    root, table, add = warehouse.path, version.table, list[DataFile]()
    for day, group in groups:
        joins = [rows for file in group for rows in joins_of(root, table, file)]
        read, written = list[Digest](), list[Digest]()
        rows = _digested(batches_of(root, table, group), read)
        add.append(write_file(rows, root, table, day, f"compacted-{warehouse.run_id}", joins))
        for _ in _digested(batches_of(root, table, [add[-1]]), written):
            pass
        if sum_of(read) != sum_of(written):
            raise TamperedError(f"compaction has changed rows of {table.name}; nothing was deleted", "Run `check`")
    remove = [file for _, group in groups for file in group]
    number = delta_log.commit(version, add, remove, warehouse.run_id, rows_change=False)
    return Version(warehouse.path, table, number)


def _digested(parts: Iterable[pa.Table], digests: list[Digest]) -> Iterator[pa.Table]:
    """Yield rows unchanged and note their digests, which saves a second read."""
    for rows in parts:
        digests += digests_by(rows).values()
        yield rows


# -- what nobody needs -----------------------------------------------------------------------------------------------


def _cleaned(root: str, table: Table, oldest: int, *, dry_run: bool) -> dict[str, int]:
    """Delete the files that no version from `oldest` on needs; return the remaining ones with their bytes."""
    files, log = _files(root, table), delta_log.log_of(root, table)
    head = delta_log.head_of(root, table)
    needed = {file.path for file in Version(root, table, head).files()}
    for commit in delta_log.commits_of(root, table, oldest, head):
        needed.update(commit.removed)
    # Spark's checksums on a local disk stay as long as their files; names with an underscore belong to Delta.
    needed |= {re.sub("([^/]+)$", r".\1.crc", path) for path in needed}
    useless = {
        name for name in files if not any(part.startswith("_") for part in name.split("/")) and name not in needed
    }
    useless |= {f"{LOG}/{name}" for name in log_before(log, oldest)}.intersection(files)
    if not dry_run:
        system, folder = filesystem_of(table_path(root, table))
        for name in sorted(useless):
            system.delete_file(f"{folder}/{name}")
    return {name: size for name, size in files.items() if name not in useless}


def log_before(log: Mapping[str, tuple[int, str]], version: int) -> set[str]:
    """Return the log entries that no version from `version` on needs: all before the last checkpoint up to it."""
    checkpoints = (number for number, kind in log.values() if kind.startswith("checkpoint") and number <= version)
    first = max(checkpoints, default=0)
    return {name for name, (number, _) in log.items() if number < first}


def _files(root: str, table: Table) -> dict[str, int]:
    """Return the bytes of every file below a table's folder, by path below it."""
    system, folder = filesystem_of(table_path(root, table))
    found = system.get_file_info(pafs.FileSelector(folder, recursive=True))
    return {info.path.removeprefix(f"{folder}/"): info.size for info in found if info.is_file}
