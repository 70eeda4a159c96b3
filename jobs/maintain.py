"""Maintenance: fewer, larger files, and nothing on disk that no reader may ask for any more.

Reads   the ledger, the logs and folders of all tables
Writes  compacted files with the same rows, in new versions
Deletes data files and log entries that no version from the oldest pinned one on needs; what crashed runs left in staging
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from jobs import delta_files, retention, tables
from schemas import bronze, gold
from schemas.table import Table

RETAIN_DAYS = 400
_ALL_TABLES = (*bronze.TABLES, *gold.TABLES)
# A day with this many files of less than this size is rewritten: opening a file costs about as much as reading that much.
_CROWD, _SMALL_BYTES = 4, 16 << 20


class CompactionError(RuntimeError):
    """Compaction has changed rows."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Files and bytes on disk."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return the sum."""
        return Usage(self.files + other.files, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class TableCare:
    """What maintenance did, or would do, to one table: its files before and after, data and log; how many days it compacted."""

    before: Usage
    after: Usage
    compacted_days: int


@dataclass
class Maintained:
    """What maintenance did: by table, and the staging folders that it removed. `readable` of all published `runs` still are."""

    by_table: dict[str, TableCare] = field(default_factory=dict)
    staging: list[str] = field(default_factory=list)
    readable: int = 0
    runs: int = 0

    @property
    def total(self) -> TableCare:
        """Return all tables together."""
        cares = self.by_table.values()
        return TableCare(
            sum((care.before for care in cares), Usage()),
            sum((care.after for care in cares), Usage()),
            sum(care.compacted_days for care in cares),
        )


def maintain(
    spark: SparkSession, warehouse: str, now: dt.datetime, retain_days: int = RETAIN_DAYS, *, dry_run: bool = False
) -> Maintained:
    """Compact, then delete what no run published in the last `retain_days` days, nor the last published one, needs.

    To be called under the lease. With `dry_run` nothing is changed, and files that compaction would replace count as
    they are. Raises CompactionError before anything is deleted, BrokenLogError for a log with a hole.
    """
    existing = [table for table in _ALL_TABLES if tables.exists(spark, warehouse, table)]
    pinned = retention.pinned_by(tables.read_table(spark, warehouse, gold.RUNS))
    oldest = retention.oldest_versions(pinned, now - dt.timedelta(days=retain_days))
    if gold.RUNS in existing:
        # What an earlier maintenance with a shorter retention has deleted stays deleted.
        gone = retention.marked(spark, warehouse)
        oldest = {name: max(oldest.get(name, 0), gone.get(name, 0)) for name in {**gone, **oldest}}
        # Nobody pins a version of the ledger itself, but somebody may be reading it.
        oldest[gold.RUNS.name] = tables.version_of(spark, warehouse, gold.RUNS) or 0
    before = {table: _files(spark, warehouse, table) for table in existing}
    crowded = {table: days for table in existing if (days := _crowded_days(spark, warehouse, table))}
    staging = _staging_folders(spark, warehouse)
    if not dry_run:
        _compact(spark, warehouse, crowded)
        for table in existing:
            delta_files.set_properties(spark, warehouse, table, _properties(retain_days))
        if gold.RUNS in existing:
            retention.mark(spark, warehouse, oldest)
        for name in staging:
            tables.remove(spark, f"{warehouse}/_staging/{name}")
    by_table = {}
    for table in existing:
        left = _cleaned(spark, warehouse, table, oldest.get(table.name, 0), dry_run=dry_run)
        by_table[table.name] = TableCare(_usage(before[table]), _usage(left), len(crowded.get(table, ())))
    return Maintained(
        by_table, staging, sum(retention.is_readable(run.versions, oldest) for run in pinned), len(pinned)
    )


def _crowded_days(spark: SparkSession, warehouse: str, table: Table) -> list[str | None]:
    """Return the days of which a table has many small files; [None] for such a table that is not cut by day."""
    small: dict[str | None, int] = {}
    for file in delta_files.live_files(spark, warehouse, table):
        if file.size < _SMALL_BYTES:
            small[file.day] = small.get(file.day, 0) + 1
    return [day for day, files in small.items() if files >= _CROWD]


def _compact(spark: SparkSession, warehouse: str, crowded: Mapping[Table, list[str | None]]) -> None:
    """Rewrite the crowded days, and prove that their rows are what they were."""

    def digests() -> dict[str, str]:
        frames = {table: tables.read_table(spark, warehouse, table) for table in crowded}
        return tables.digests({t.name: _hashable(frame.where(_of_days(t, crowded[t]))) for t, frame in frames.items()})

    def optimize(table: Table) -> None:
        found = DeltaTable.forPath(spark, tables.table_path(warehouse, table)).optimize()
        (found.where(_of_days(table, crowded[table])) if table.partition_by else found).executeCompaction()

    before = digests()
    tables.in_parallel({table.name: partial(optimize, table) for table in crowded})
    after = digests()
    changed = sorted(name for name in before if before[name] != after[name])
    if changed:
        raise CompactionError(f"compaction has changed rows of {', '.join(changed)}; nothing was deleted")


def _hashable(frame: DataFrame) -> DataFrame:
    """Return the rows with maps, which have no hash, as text."""
    maps = [field.name for field in frame.schema.fields if isinstance(field.dataType, T.MapType)]
    return frame.withColumns({name: F.to_json(name) for name in maps})


def _of_days(table: Table, days: list[str | None]) -> str:
    """Return the condition that a row is of one of `days`; true for a table that is not cut by day."""
    listed = ", ".join(f"DATE'{day}'" for day in days)
    return f"day IN ({listed})" if table.partition_by else "true"


def _properties(retain_days: int) -> dict[str, str]:
    """Return table properties that keep Delta, and a VACUUM by hand, from deleting by age what is pinned by number."""
    kept = f"interval {max(retain_days, RETAIN_DAYS)} days"
    # In this order: Delta refuses to keep files for longer than the log.
    return {
        "delta.enableExpiredLogCleanup": "false",
        "delta.logRetentionDuration": kept,
        "delta.deletedFileRetentionDuration": kept,
    }


def _cleaned(spark: SparkSession, warehouse: str, table: Table, oldest: int, *, dry_run: bool) -> dict[str, int]:
    """Delete the files that no version from `oldest` on needs; return those that are left, with their bytes."""
    files = _files(spark, warehouse, table)
    needed = {file.path for file in delta_files.live_files(spark, warehouse, table)}
    needed |= delta_files.removed_by(spark, warehouse, table, delta_files.commits_after(files, oldest))
    useless = {name for name in files if delta_files.is_data(name) and name not in needed}
    useless |= delta_files.log_before(files, oldest)
    if not dry_run:
        delta_files.delete_files(spark, tables.table_path(warehouse, table), sorted(useless))
    return {name: size for name, size in files.items() if name not in useless}


def _files(spark: SparkSession, warehouse: str, table: Table) -> dict[str, int]:
    return delta_files.files_of(spark, tables.table_path(warehouse, table))


def _staging_folders(spark: SparkSession, warehouse: str) -> list[str]:
    """Return what crashed runs left in staging: under the lease no other run is there."""
    return sorted({name.split("/", 1)[0] for name in delta_files.files_of(spark, f"{warehouse}/_staging")})


def _usage(files: Mapping[str, int]) -> Usage:
    return Usage(len(files), sum(files.values()))
