"""The log of a Delta table: which files a version has, who made it, and how the next one is made.

delta-rs reads and commits. This module itself reads commits for their author and for the files that they removed.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from deltalake import CommitProperties, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from jobs.errors import BrokenLogError, TableFeatureError, WarehouseBusyError, first_line
from jobs.store.files import DataFile, bounded, described, month_of
from jobs.store.places import filesystem_of, table_path
from jobs.store.published import delta_table, delta_uri
from schemas.table import CLOSED_MONTH, Table

LOG: Final = "_delta_log"
KEPT_DAYS: Final = 400
WRITER: Final = "namesrv-history"
"""First word of the userMetadata of each of our commits; the second word is the run."""
ENTRY: Final = re.compile(r"(\d{20})\.(json|crc|checkpoint\.parquet)")
# A reader of a version reads the log from the last checkpoint on.
_COMMITS_A_CHECKPOINT = "20"


class Commit(NamedTuple):
    """One version: the run of ours that made it (None: somebody else did), and the data files that it removed.

    `days`: days with changed rows; None: rows without a day. Empty if only files or properties changed.
    """

    version: int
    run_id: str | None
    days: frozenset[dt.date | None]
    removed: tuple[str, ...]


class Version:
    """A version of a table: its number and its data files."""

    def __init__(self, root: str, table: Table, number: int | None = None) -> None:
        """Open a committed version; None: the newest.

        Raises BrokenLogError if the log cannot be read, TableFeatureError if the table needs more than its files.
        """
        self.root, self.table = root, table
        self.delta = delta_table(table_path(root, table), table.name, table.partition_by, number)
        self.number: int = self.delta.version()

    @cached_property
    def _found(self) -> pa.Table:
        found = pa.table(self.delta.get_add_actions(flatten=True))
        names = {
            "path": "path",
            "size": "size_bytes",
            "rows": "num_records",
            "day": "partition.day",
            "low": "min.namesrv_id",
            "high": "max.namesrv_id",
            "nulls": "null_count.namesrv_id",
            "first": f"min.{self.table.span[1]}",
            "last": f"max.{self.table.span[1]}",
        }
        nothing = pa.nulls(found.num_rows)
        return pa.table({name: found[of] if of in found.column_names else nothing for name, of in names.items()})

    def files(self, days: Collection[dt.date] | None = None) -> list[DataFile]:
        """Return all data files or, of a table that is cut by day, those of some days.

        Raises TamperedError if a file without statistics in the log is not there.
        """
        found = self._found
        if days is not None and self.table.is_by_day:
            found = found.filter(pc.is_in(found["day"], pa.array(sorted(days), pa.date32())))
        return [self._file(row) for row in found.to_pylist()]

    def _file(self, row: Mapping[str, Any]) -> DataFile:
        if row["rows"] is None:
            return described(self.root, self.table, row["path"], row["day"])
        file = DataFile(row["path"], row["size"], row["rows"], row["day"])
        return bounded(file, row["nulls"], row["low"], row["high"], _day_of(row["first"]), _day_of(row["last"]))


def _day_of(value: dt.date | None) -> dt.date | None:
    """Return the day of an instant, or of a day, from a log's statistics."""
    return value.astimezone(dt.timezone.utc).date() if isinstance(value, dt.datetime) else value


# -- reading commits -------------------------------------------------------------------------------------------------


def log_of(root: str, table: Table) -> dict[str, tuple[int, str]]:
    """Return the entries of a table's log by file name: version, and json, crc or checkpoint.parquet. Raises BrokenLogError."""
    system, folder = filesystem_of(f"{table_path(root, table)}/{LOG}")
    found = system.get_file_info(pafs.FileSelector(folder, allow_not_found=True))
    # delta-rs would read an empty commit as one that changed nothing.
    for info in found:
        if info.is_file and info.size == 0 and info.extension == "json":
            raise BrokenLogError(f"{table.name}: cannot be read: {info.path}: it is empty")
    entries = ((info.base_name, ENTRY.fullmatch(info.base_name)) for info in found)
    return {name: (int(entry[1]), entry[2]) for name, entry in entries if entry}


def head_of(root: str, table: Table) -> int:
    """Return the number of the newest version; -1 if the table was never written."""
    return max((number for number, kind in log_of(root, table).values() if kind == "json"), default=-1)


def actions_of(table: Table, system: Any, path: str) -> list[dict[str, Any]]:
    """Return the actions of a log entry, one a line. Raises BrokenLogError, FileNotFoundError."""
    try:
        with system.open_input_stream(path) as stream:
            return [json.loads(line) for line in stream.read().splitlines() if line.strip()]
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise BrokenLogError(f"{table.name}: cannot be read: {path}: {first_line(error)}") from error


def commits_of(root: str, table: Table, after: int, last: int) -> Iterator[Commit]:
    """Yield the commits of `table` with numbers above `after` up to `last`, the newest first. Raises BrokenLogError."""
    system, folder = filesystem_of(f"{table_path(root, table)}/{LOG}")
    for number in range(last, after, -1):
        path = f"{folder}/{number:020d}.json"
        try:
            found = _commit_of(number, actions_of(table, system, path))
        except FileNotFoundError as error:
            raise BrokenLogError(
                f"{table.name}: no commit {number} in the log, and version {after} before it is pinned"
            ) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BrokenLogError(f"{table.name}: {path} is not a valid commit: {error!r}") from error
        yield found


def _commit_of(number: int, actions: Iterable[Mapping[str, Any]]) -> Commit:
    run_id, days, removed = None, set[dt.date | None](), []
    for kind, values in (entry for action in actions for entry in action.items()):
        if kind == "commitInfo":
            writer, _, run = str(values.get("userMetadata") or "").partition(" ")
            run_id = run if writer == WRITER else None
        elif kind in ("add", "remove"):
            if values.get("dataChange", True):
                day = (values.get("partitionValues") or {}).get("day")
                days.add(dt.date.fromisoformat(day) if day else None)
            if kind == "remove":
                removed.append(unquote(values["path"]))
    return Commit(number, run_id, frozenset(days), tuple(removed))


# -- making commits --------------------------------------------------------------------------------------------------


def properties(retain_days: int = KEPT_DAYS) -> dict[str, str]:
    """Return the properties of a table. They keep Delta, or a manual VACUUM, from deleting by age what is pinned by number."""
    kept = f"interval {max(retain_days, KEPT_DAYS)} days"
    return {
        "delta.enableExpiredLogCleanup": "false",
        "delta.logRetentionDuration": kept,
        "delta.deletedFileRetentionDuration": kept,
        "delta.enableDeletionVectors": "false",
        "delta.checkpointInterval": _COMMITS_A_CHECKPOINT,
    }


def create(root: str, table: Table, files: Iterable[DataFile], run_id: str) -> int:
    """Create `table`, which was never written, with comments, properties and `files`; return the version."""
    fields = [pa.field(f.name, f.type, metadata=f.metadata) for f in table.delta_schema]
    create_table_with_add_actions(
        delta_uri(table_path(root, table)),
        Schema.from_arrow(pa.schema(fields)),
        [_added(root, table, file) for file in files],
        partition_by=list(table.partition_by),
        description=table.grain,
        configuration=properties(),
        commit_properties=_by(run_id),
    )
    return 0


def commit(
    version: Version, add: Iterable[DataFile], remove: Iterable[DataFile], run_id: str, *, rows_change: bool = True
) -> int:
    """Commit a version on top of `version`, the newest: with `add`, and without `remove`. Return its number.

    Raises WarehouseBusyError if somebody else committed first, TableFeatureError if the table has a feature that cannot be written.
    """
    now = int(time.time() * 1000)
    table = version.table
    actions: list[AddAction | RemoveAction] = [
        _added(version.root, table, file, rows_change=rows_change) for file in add
    ]
    actions += [RemoveAction(file.path, rows_change, now, file.size, _partition(table, file)) for file in remove]
    partition_by = version.delta.metadata().partition_columns
    try:
        version.delta.create_write_transaction(
            actions, "append", version.delta.schema(), partition_by, commit_properties=_by(run_id)
        )
    except CommitFailedError as error:
        if head_of(version.root, version.table) != version.number:
            raise busy(version.root, version.table) from error
        if "features required" in str(error):
            raise TableFeatureError(f"{version.table.name}: cannot be written: {first_line(error)}") from error
        raise
    return version.number + 1


def busy(root: str, table: Table) -> WarehouseBusyError:
    """Return the error for a table that somebody else changed during this run."""
    where = table_path(root, table)
    return WarehouseBusyError(
        f"{where}: somebody else has changed this table. Nothing was published; run the same again"
    )


def set_properties(version: Version, wanted: Mapping[str, str], run_id: str) -> None:
    """Set the properties of a table that differ from the wanted ones, in one commit."""
    known = version.delta.metadata().configuration
    changed = {name: value for name, value in wanted.items() if known.get(name) != value}
    if changed:
        version.delta.alter.set_table_properties(changed, raise_if_not_exists=False, commit_properties=_by(run_id))


def _added(root: str, table: Table, file: DataFile, *, rows_change: bool = True) -> AddAction:
    stats = file.stats or described(root, table, file.path, file.day).stats
    return AddAction(file.path, file.size, _partition(table, file), int(time.time() * 1000), rows_change, stats)


def _partition(table: Table, file: DataFile) -> dict[str, str | None]:
    if table.has_intervals:
        return {CLOSED_MONTH: None if file.closed is None else month_of(file.closed[0])}
    return {} if file.day is None else {"day": file.day.isoformat()}


def _by(run_id: str) -> CommitProperties:
    """Return what identifies our commits. No retries: a commit is based on the version that was read, or fails."""
    return CommitProperties({"userMetadata": f"{WRITER} {run_id}"}, max_commit_retries=0)
