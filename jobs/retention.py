"""Which versions of the tables must stay readable, and whether those that a run has pinned still are.

Reads   runs; the mark that maintenance leaves in a property of it
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from jobs.delta_files import property_of, set_properties
from schemas import gold

_MARK = "namesrvHistory.oldestVersions"


class NoLongerReadableError(LookupError):
    """Maintenance has deleted what a run had pinned."""


class Pinned(NamedTuple):
    """The versions that a published run has pinned, by table, and when it was published."""

    finished_time: dt.datetime
    versions: Mapping[str, int]


def pinned_by(runs: DataFrame) -> list[Pinned]:
    """Return what the published runs of the ledger have pinned."""
    rows = runs.where("status = 'published'").select("finished_time", "versions").collect()
    return [Pinned(row["finished_time"].replace(tzinfo=dt.timezone.utc), row["versions"]) for row in rows]


def oldest_versions(pinned: Iterable[Pinned], since: dt.datetime) -> dict[str, int]:
    """Return for each table the oldest version that a run published `since` has pinned; the last run always counts."""
    runs = sorted(pinned, key=lambda run: run.finished_time)
    kept = [run for run in runs if run.finished_time >= since] or runs[-1:]
    tables = sorted({table for run in kept for table in run.versions})
    return {table: min(run.versions[table] for run in kept if table in run.versions) for table in tables}


def is_readable(versions: Mapping[str, int], oldest: Mapping[str, int]) -> bool:
    """Return whether none of `versions` is before the oldest that is kept."""
    return all(version >= oldest.get(table, 0) for table, version in versions.items())


def marked(spark: SparkSession, warehouse: str) -> dict[str, int]:
    """Return for each table the version from which on `mark` said that it is readable."""
    found: dict[str, int] = json.loads(property_of(spark, warehouse, gold.RUNS, _MARK) or "{}")
    return found


def mark(spark: SparkSession, warehouse: str, oldest: Mapping[str, int]) -> None:
    """Note in the ledger that only these versions, and later ones, are readable from now on."""
    set_properties(spark, warehouse, gold.RUNS, {_MARK: json.dumps(oldest, sort_keys=True)})


def require_readable(spark: SparkSession, warehouse: str, run_id: str, versions: Mapping[str, int]) -> None:
    """Raise NoLongerReadableError if maintenance has deleted one of `versions`, which the run had pinned."""
    oldest = marked(spark, warehouse)
    gone = sorted(table for table, version in versions.items() if version < oldest.get(table, 0))
    if gone:
        raise NoLongerReadableError(
            f"run {run_id} is older than what maintenance keeps (maintain --retain-days): {gone[0]} is readable from version "
            f"{oldest[gone[0]]} on, and the run has pinned version {versions[gone[0]]}"
        )
