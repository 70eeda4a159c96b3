"""The ledger, `runs`: what published runs read and wrote, and whether that is still so.

Reads   runs
Writes  one row of runs: from then on readers see what the run wrote
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from jobs.digest import Digest
from jobs.disk import full_disk
from jobs.tables import Slice, of_days, slice_digests
from schemas import bronze
from schemas.gold import LAYOUT

HALTED = "outcome.scan_failed"
"""Key of `counts`: events that ended a name server's periodic scan."""
_SCAN_LIFE = (HALTED, "outcome.started", "outcome.stopped")
_UNNUMBERED_LAYOUT = 1
# A heartbeat's name and source are other ones in each of tens of millions of rows: to hash them takes as long as all the rest.
_NOT_SAID = ("event_id", "source_file", "source_offset", "ingest_run")
_BRONZE = [table.name for table in bronze.TABLES]
_LAST = ("run_id", "finished_time", "days", "versions", "digests", "counts", "config_sha256", "code_version", "report")


class LayoutError(RuntimeError):
    """The warehouse was written by a version of this software that lays it out otherwise."""


class TamperedError(RuntimeError):
    """Rows on disk are not those that a published run read or wrote."""


@dataclass(frozen=True, slots=True)
class Run:
    """One published run, as far as later ones ask about it."""

    run_id: str
    finished_time: dt.datetime
    days: list[dt.date]
    versions: Mapping[str, int]
    digests: Mapping[str, Digest]
    counts: Mapping[str, int]
    config_sha256: str
    code_version: str
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the published runs say together; `last` is None where nothing has been published.

    `covered`: ingest runs whose rows are published; `days`: days that are; `halting_days`: those of runs in which a scan
    failed; `scan_days`: those of runs in which a scan failed or a name server started or stopped.
    """

    last: Run | None = None
    covered: frozenset[str] = frozenset()
    days: frozenset[dt.date] = frozenset()
    halting_days: frozenset[dt.date] = field(default_factory=frozenset)
    scan_days: frozenset[dt.date] = field(default_factory=frozenset)


def read_ledger(runs: DataFrame, warehouse: str) -> Ledger:
    """Return what the published runs say together; one Spark job. Raises LayoutError."""
    if "layout" not in runs.columns:
        raise _layout_error(warehouse, _UNNUMBERED_LAYOUT)
    published = runs.where("status = 'published'")
    counted = {key: F.coalesce(F.try_element_at("counts", F.lit(key)), F.lit(0)) for key in _SCAN_LIFE}
    halting = F.when(counted[HALTED] > 0, F.col("days"))
    scans = F.when(F.greatest(*counted.values()) > 0, F.col("days"))
    row = published.agg(
        F.max_by(F.struct(*_LAST), F.struct("finished_time", "run_id")).alias("last"),
        F.flatten(F.collect_list("ingest_runs")).alias("covered"),
        F.flatten(F.collect_list("days")).alias("days"),
        F.flatten(F.collect_list(halting)).alias("halting_days"),
        F.flatten(F.collect_list(scans)).alias("scan_days"),
        F.min("layout").alias("oldest"),
        F.max("layout").alias("newest"),
    ).collect()[0]
    if row["last"] is None:
        return Ledger()
    for layout in (row["oldest"], row["newest"]):
        if layout != LAYOUT:
            raise _layout_error(warehouse, layout)
    named = ("covered", "days", "halting_days", "scan_days")
    return Ledger(_run_of(row["last"]), **{name: frozenset(row[name]) for name in named})


def run_known_at(runs: DataFrame, asked: str | dt.datetime) -> Run | None:
    """Return the published run with the id `asked`, or the last one that had been published at that instant."""
    published = runs.where("status = 'published'")
    known = published.where(F.col("run_id") == asked if isinstance(asked, str) else F.col("finished_time") <= asked)
    rows = known.orderBy(F.desc("finished_time"), F.desc("run_id")).select(*_LAST).limit(1).collect()
    return _run_of(rows[0]) if rows else None


def slices_in_force(
    runs: DataFrame, days: Collection[dt.date] | None = None, known_at: Run | None = None
) -> dict[Slice, Digest]:
    """Return the digest of each slice as the ledger has it: of gold tables as written, of bronze ones as read.

    A day is as the last run left it that recomputed it; `known_at`: of the runs up to that one. `days`: only of these.
    """
    published = runs.where("status = 'published'")
    if known_at is not None:
        published = published.where(F.col("finished_time") <= F.lit(known_at.finished_time))
    by_day = published.select("*", F.explode("days").alias("day"))
    if days is not None:
        by_day = by_day.where(F.col("day").isin(sorted(days)))
    read = F.filter("inputs", lambda cut: cut["table"].isin(_BRONZE))
    of_day = F.filter(F.concat("outputs", read), lambda cut: cut["day"] == F.col("day"))
    last = by_day.groupBy("day").agg(F.max_by(of_day, F.struct("finished_time", "run_id")).alias("cuts"))
    rows = last.select(F.explode("cuts").alias("cut")).select("cut.*").collect()
    return {Slice(row["table"], row["day"], row["namesrv_id"]): Digest.parse(row["digest"]) for row in rows}


def digests_of(frames: Mapping[str, DataFrame], days: Collection[dt.date]) -> dict[Slice, Digest]:
    """Return the digests of the slices of `days`, as the ledger keeps them; one Spark job. `frames` are cut by day."""
    return slice_digests({name: of_days(_said(name, frame), days) for name, frame in frames.items()})


def _said(name: str, frame: DataFrame) -> DataFrame:
    return frame.drop(*_NOT_SAID) if name == bronze.HEARTBEATS.name else frame


def as_rows(digests: Mapping[Slice, Digest]) -> list[tuple[str, dt.date, str | None, str]]:
    """Return slices with their digests as `inputs` and `outputs` hold them."""
    ordered = sorted(digests, key=lambda cut: (cut.day, cut.table, cut.namesrv_id or ""))
    return [(*cut, str(digests[cut])) for cut in ordered]


_FROM_BACKUP = (
    "Bring the table's folder back from a backup; a gold day that follows from intact events can also be recomputed with "
    "`nightly --from DAY --to DAY`"
)


def require_same(found: Mapping[Slice, Digest], expected: Mapping[Slice, Digest], remedy: str = _FROM_BACKUP) -> None:
    """Raise TamperedError, naming the first slice that differs and the remedy, if `found` is not what the ledger expects."""
    wrong = differing(found, expected)
    if wrong:
        more = f" ({len(wrong) - 1} more slices differ)" if len(wrong) > 1 else ""
        raise TamperedError(f"{wrong[0]}{more}. Nothing was published. `check` lists every such slice. {remedy}")


@contextmanager
def require_readable(what: str) -> Iterator[None]:
    """Raise TamperedError if reading `what` fails: a file that is missing, cut short or flipped. Spark says which."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if full_disk(error, None) is not None:
            raise
        raise TamperedError(f"{what}: cannot be read: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """Return the line of an error that names a file, or its first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if ".parquet" in line or ".json" in line), lines[0] if lines else "")


def differing(found: Mapping[Slice, Digest], expected: Mapping[Slice, Digest]) -> list[str]:
    """Return a sentence for each slice whose digests differ."""
    wrong = (cut for cut in {**expected, **found} if found.get(cut, Digest()) != expected.get(cut, Digest()))
    return [
        f"{cut.table} of {cut.day} ({cut.namesrv_id or 'no name server'}): its rows have digest "
        f"{found.get(cut, Digest())}, the ledger says {expected.get(cut, Digest())}"
        for cut in sorted(wrong, key=lambda cut: (cut.day, cut.table, cut.namesrv_id or ""))
    ]


def _run_of(row: Row) -> Run:
    values = row.asDict()
    digests = {table: Digest.parse(text) for table, text in values.pop("digests").items()}
    return Run(**{**values, "digests": digests, "report": json.loads(values["report"] or "{}")})


def _layout_error(warehouse: str, layout: int) -> LayoutError:
    older = layout < LAYOUT
    advice = (
        "Run `nightly` with the same inputs, or with what `export` of that version writes, into a new folder"
        if older
        else "Use that version with it"
    )
    return LayoutError(
        f"{warehouse} has layout {layout}, of {'an older' if older else 'a newer'} version of this software; this one reads and "
        f"writes layout {LAYOUT}. {advice}. Nothing was changed"
    )
