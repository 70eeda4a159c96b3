"""Which versions of the tables must stay readable, and whether those that a run has pinned still are."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jobs.store import published
from jobs.store.delta_log import Version, head_of, open_version, set_properties
from jobs.store.ledger import Run
from jobs.store.warehouse import Warehouse
from schemas import gold


class Pinned(NamedTuple):
    """The versions that a published run has pinned, by table, and when it was published."""

    finished_time: dt.datetime
    versions: Mapping[str, int]


def pinned_by(runs: pa.Table) -> list[Pinned]:
    """Return what the published runs of the ledger have pinned; `runs` has status, finished_time and versions."""
    published = runs.filter(pc.field("status") == "published")
    return [Pinned(row["finished_time"], dict(row["versions"] or ())) for row in published.to_pylist()]


def oldest_versions(pinned: Iterable[Pinned], since: dt.datetime) -> dict[str, int]:
    """Return for each table the oldest version that a run published `since` has pinned; the last run always counts."""
    runs = sorted(pinned, key=lambda run: run.finished_time)
    kept = [run for run in runs if run.finished_time >= since] or runs[-1:]
    tables = sorted({table for run in kept for table in run.versions})
    return {table: min(run.versions[table] for run in kept if table in run.versions) for table in tables}


def is_readable(versions: Mapping[str, int], oldest: Mapping[str, int]) -> bool:
    """Return whether none of `versions` is before the oldest that is kept."""
    return all(version >= oldest.get(table, 0) for table, version in versions.items())


def mark(runs: Version, oldest: Mapping[str, int], run_id: str) -> None:
    """Note in the ledger that only these versions, and later ones, are readable from now on."""
    set_properties(runs, {published.OLDEST: json.dumps(oldest, sort_keys=True)}, run_id)


def require_kept(house: Warehouse, run: Run) -> None:
    """Raise NoLongerReadableError if maintenance has deleted a version that `run`, a published one, had pinned."""
    runs = open_version(house.path, gold.RUNS, head_of(house.path, gold.RUNS))
    published.require_kept(runs.delta, run.run_id, run.versions)
