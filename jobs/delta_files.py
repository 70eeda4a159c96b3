"""The files of a Delta table: which lie in its folder, which its versions need, and what its log consists of.

Delta's VACUUM goes by the age of a file, in whole hours, and forgets removed files after a while; versions that readers
have pinned go by number. So what a version needs is read off the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from jobs import jvm
from jobs.tables import table_path
from schemas.table import Table

_LOG = "_delta_log/"
_LOG_ENTRY = re.compile(re.escape(_LOG) + r"(\d{20})\.(json|crc|checkpoint\.parquet)")
_REMOVED = "remove STRUCT<path: STRING>"


class BrokenLogError(RuntimeError):
    """A Delta log lacks a commit that it must have."""


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of the current version: its path below the table's folder, its bytes, its day (of a table cut by day)."""

    path: str
    size: int
    day: str | None


def files_of(spark: SparkSession, folder: str) -> dict[str, int]:
    """Return the bytes of every file below `folder`, by path below it; checksums of local disks go with their files."""
    path, system = jvm.path_and_system(spark, folder)
    if not system.exists(path):
        return {}
    root = system.makeQualified(path).toString().rstrip("/") + "/"
    found = {}
    statuses = system.listFiles(path, True)
    while statuses.hasNext():
        status = statuses.next()
        name = status.getPath().toString().removeprefix(root)
        if not name.rpartition("/")[2].startswith("."):
            found[name] = int(status.getLen())
    return found


def delete_files(spark: SparkSession, folder: str, names: Iterable[str]) -> None:
    """Delete files below `folder`."""
    path, system = jvm.path_and_system(spark, folder)
    for name in names:
        system.delete(path.suffix(f"/{name}"), False)


def live_files(spark: SparkSession, warehouse: str, table: Table) -> list[LiveFile]:
    """Return the data files of the current version."""
    files = DataFrame(_snapshot(spark, warehouse, table).allFiles().toDF(), spark)
    rows = files.select("path", "size", "partitionValues").collect()
    return [LiveFile(unquote(row["path"]), row["size"], row["partitionValues"].get("day")) for row in rows]


def removed_by(spark: SparkSession, warehouse: str, table: Table, commits: Iterable[str]) -> set[str]:
    """Return the data files that these entries of a table's log removed: older versions need them, the last does not."""
    paths = [f"{table_path(warehouse, table)}/{name}" for name in commits]
    if not paths:
        return set()
    rows = spark.read.schema(_REMOVED).json(paths).select("remove.path").where("path IS NOT NULL")
    return {unquote(row["path"]) for row in rows.collect()}


def commits_after(files: Iterable[str], version: int) -> list[str]:
    """Return the entries of a log that are commits after `version`, in order. Raises BrokenLogError if one is missing."""
    entries = (_LOG_ENTRY.fullmatch(name) for name in files)
    commits = {int(found[1]): found[0] for found in entries if found and found[2] == "json" and int(found[1]) > version}
    missing = set(range(version + 1, max(commits, default=version) + 1)).difference(commits)
    if missing:
        raise BrokenLogError(f"no commit {min(missing)} in the log, and version {version} before it is pinned")
    return [commits[number] for number in sorted(commits)]


def log_before(files: Iterable[str], version: int) -> set[str]:
    """Return the entries of a log that no version from `version` on needs: all before the last checkpoint up to it."""
    entries = {name: found for name in files if (found := _LOG_ENTRY.fullmatch(name))}
    checkpoints = (int(found[1]) for found in entries.values() if found[2].startswith("checkpoint"))
    first = max((number for number in checkpoints if number <= version), default=0)
    return {name for name, found in entries.items() if int(found[1]) < first}


def is_data(name: str) -> bool:
    """Return whether a file below a table's folder holds rows; names with an underscore are Delta's own."""
    return not any(part.startswith("_") for part in name.split("/"))


def property_of(spark: SparkSession, warehouse: str, table: Table, name: str) -> str | None:
    """Return a table's property; None where it is not set."""
    value = _snapshot(spark, warehouse, table).metadata().configuration().get(name)
    return None if value.isEmpty() else str(value.get())


def set_properties(spark: SparkSession, warehouse: str, table: Table, properties: Mapping[str, str]) -> None:
    """Set those of a table's properties that are not so already, in one commit."""
    changed = {k: v for k, v in properties.items() if property_of(spark, warehouse, table, k) != v}
    if changed:
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in changed.items())
        spark.sql(f"ALTER TABLE delta.`{table_path(warehouse, table)}` SET TBLPROPERTIES ({listed})")


def _snapshot(spark: SparkSession, warehouse: str, table: Table) -> Any:
    none = jvm.none_of(spark)
    # As it is now: what another process has committed since the log was opened is live, too.
    return jvm.delta_log(spark, table_path(warehouse, table)).update(False, none, none)
