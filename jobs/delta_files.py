"""The files of a Delta table: which lie in its folder, which its versions need, and what its log consists of.

Delta's VACUUM goes by the age of a file, in whole hours, and forgets removed files after a while; versions that readers
have pinned go by number. So what a version needs is read off the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.tables import table_path
from schemas.table import Table

_LOG = "_delta_log"
_LOG_ENTRY = re.compile(r"(\d{20})\.(json|crc|checkpoint\.parquet)")


class BrokenLogError(RuntimeError):
    """A Delta log lacks a commit that it must have."""


@dataclass(frozen=True, slots=True)
class File:
    """A file: its path below the table's folder, and its size in bytes. `day`: its partition, of live files."""

    path: str
    size: int
    day: str | None = None


@dataclass(frozen=True, slots=True)
class Folder:
    """What lies in a table's folder: data files, live or not, and entries of the log."""

    data: tuple[File, ...]
    log: tuple[File, ...]

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(file.size for file in (*self.data, *self.log))


def folders(spark: SparkSession, warehouse: str, tables: Iterable[Table]) -> dict[Table, Folder]:
    """Return what lies in the folders of `tables`, all of which exist; hidden files and checksums apart."""
    found = {}
    for table in tables:
        root = table_path(warehouse, table)
        found[table] = Folder(tuple(_listed(spark, root)), tuple(_listed(spark, f"{root}/{_LOG}")))
    return found


def _listed(spark: SparkSession, folder: str) -> list[File]:
    """Return the files below `folder`; no content is read."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(folder)
    below = re.compile(rf".*/{re.escape(folder.rsplit('/', 1)[-1])}/")
    rows = files.select("path", "length").collect()
    return sorted((File(below.sub("", row["path"], count=1), row["length"]) for row in rows), key=lambda f: f.path)


def live_files(spark: SparkSession, warehouse: str, table: Table) -> list[File]:
    """Return the files of the current version."""
    snapshot = _delta_log(spark, table_path(warehouse, table)).update(False, _none(spark), _none(spark))  # noqa: FBT003
    rows = DataFrame(snapshot.allFiles().toDF(), spark).select("path", "size", "partitionValues").collect()
    return [File(unquote(row["path"]), row["size"], row["partitionValues"].get("day")) for row in rows]
