"""Publish what a run wrote: judge it, take its digests, and write its row into the ledger."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jobs import __version__, numbers, tables
from jobs.crash import crash_points
from jobs.digest import Digest, sum_of
from jobs.gate import GateError, validate_gold
from jobs.ledger import Ledger, Run, as_rows, digests_of, require_same, slices_in_force
from jobs.plan import Plan, holes
from jobs.tables import Slice
from jobs.warehouse import DATA_TABLES, WRITTEN_TABLES, Warehouse
from schemas import bronze, gold

_BRONZE = tuple(table.name for table in bronze.TABLES)
_BY_DAY = {table.name for table in WRITTEN_TABLES if "day" in table.column_names}


@dataclass
class Published:
    """What `publish` has done: digests of all gold tables, rows of all tables, and what the ledger's row reports."""

    digests: dict[str, str] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def publish(
    house: Warehouse,
    plan: Plan,
    days: Sequence[dt.date],
    starts: Mapping[Slice, Digest],
    counts: Mapping[str, int],
    seconds: Mapping[str, float],
) -> Published:
    """Judge the gold slices of `days` and, if they pass, write the run into the ledger: from then on readers see it.

    `starts`: the slices from which the run started. Reads the slices of `days` only: those of other days are as the ledger
    has them. Raises GateError, after noting the refusal in the ledger, if a critical rule is broken; TamperedError if rows of
    a published day, to which nothing was added, are not those that its run read.
    """
    try:
        warnings = validate_gold(house, days)
    except GateError as error:
        _write_run(house, days, {"status": "refused", "gate": str(error), "counts": counts, "seconds": seconds})
        raise
    read = house.slices(WRITTEN_TABLES, days)
    cut = {name: frame for name, frame in read.items() if name in _BY_DAY}
    in_bronze = {name: frame for name, frame in read.items() if name not in _BY_DAY}
    known = partial(slices_in_force, house.table(gold.RUNS))
    found: dict[str, Any] = tables.in_parallel(
        {
            "slices": lambda: digests_of(cut, days),
            "replaced": lambda: known(days),
            "outcomes": lambda: numbers.outcome_counts(cut, days),
            "report": lambda: numbers.report_of(cut, days),
            "uncut": lambda: tables.row_counts(in_bronze),
        }
    )
    inputs, outputs = _split(found["slices"])
    published = _split(found["replaced"])[0]
    require_same(_unchanged(inputs, plan, house.ledger()), _unchanged(published, plan, house.ledger()))
    digests = _whole(house.ledger(), found["replaced"], found["slices"])
    rows = {**found["uncut"], **{name: digest.rows for name, digest in digests.items()}}
    report = {**found["report"], "tables": {name: rows[name] for name in (*_BRONZE, *sorted(set(rows) - {*_BRONZE}))}}
    _write_run(
        house,
        days,
        {
            "status": "published",
            "gate": "passed",
            "ingest_runs": plan.ingest_runs,
            "sources": plan.sources,
            "inputs": as_rows({**starts, **inputs}),
            "outputs": as_rows(outputs),
            "digests": {name: str(digest) for name, digest in digests.items()},
            "counts": {**counts, **{f"outcome.{name}": count for name, count in found["outcomes"].items()}},
            "seconds": seconds,
            "report": json.dumps(report, sort_keys=True),
        },
    )
    return Published(gold_digests(digests), report, [*warnings, *holes(inputs, known)])


def gold_digests(digests: Mapping[str, Digest]) -> dict[str, str]:
    """Return the printed digests of the gold tables."""
    return {table.name: str(digests.get(table.name, Digest())) for table in sorted(DATA_TABLES, key=lambda t: t.name)}


def _split(slices: Mapping[Slice, Digest]) -> tuple[dict[Slice, Digest], dict[Slice, Digest]]:
    """Return the slices of bronze tables, and those of gold ones."""
    read = {cut: digest for cut, digest in slices.items() if cut.table in _BRONZE}
    return read, {cut: digest for cut, digest in slices.items() if cut not in read}


def _unchanged(slices: Mapping[Slice, Digest], plan: Plan, ledger: Ledger) -> dict[Slice, Digest]:
    """Return the slices of days that are published and that no new source has touched."""
    days = ledger.days - plan.touched
    return {cut: digest for cut, digest in slices.items() if cut.day in days}


def _whole(ledger: Ledger, replaced: Mapping[Slice, Digest], written: Mapping[Slice, Digest]) -> dict[str, Digest]:
    """Return the digest of each table that is cut by day, from that of the last run and the slices that have changed."""
    before = ledger.last.digests if ledger.last is not None else {}

    def of(table: str, slices: Mapping[Slice, Digest]) -> Digest:
        return sum_of(digest for cut, digest in slices.items() if cut.table == table)

    return {table: before.get(table, Digest()) - of(table, replaced) + of(table, written) for table in sorted(_BY_DAY)}


def finished_after(last: Run | None, now: dt.datetime) -> dt.datetime:
    """Return `now`, or just after the run `last`: runs are ordered by this time, also where the machine's clock went back."""
    if last is None:
        return now
    return max(now, last.finished_time.replace(tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=1))


def _write_run(house: Warehouse, days: Sequence[dt.date], said: Mapping[str, Any]) -> None:
    last = house.ledger().last
    versions = tables.in_parallel(
        {t.name: partial(tables.version_of, house.spark, house.path, t) for t in WRITTEN_TABLES}
    )
    row = {
        "run_id": house.run_id,
        "layout": gold.LAYOUT,
        "parent_run": None if last is None else last.run_id,
        "started_time": house.started,
        "finished_time": finished_after(last, dt.datetime.now(dt.timezone.utc)),
        "days": list(days),
        "ingest_runs": [],
        "sources": [],
        "inputs": [],
        "outputs": [],
        "versions": {name: version for name, version in versions.items() if version is not None},
        "digests": {},
        "code_version": __version__,
        "config_sha256": house.conf.sha256,
        **said,
    }
    with crash_points("ledger"):
        tables.append(house.spark.createDataFrame([row], gold.RUNS.schema), house.path, gold.RUNS)
    house.forget(gold.RUNS)
