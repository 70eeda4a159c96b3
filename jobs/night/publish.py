"""Publish what a run made: judge it, commit it, and write its row into the ledger."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from jobs.errors import GateError
from jobs.ingest.ingest import IN_ORDER
from jobs.night.days import Days, holes
from jobs.night.gate import SMALL, measured_small, require_sound
from jobs.night.night import Night
from jobs.night.restated import note_restatements
from jobs.night.unusable import note_unusable
from jobs.store.ledger import Ledger, as_rows
from jobs.store.relations import digest_of
from jobs.store.warehouse import DATA_TABLES, WRITTEN_TABLES, Warehouse
from namesrv_day.across.numbers import report_of
from namesrv_day.arrow.digest import Digest, Slice, sum_of
from schemas import bronze, gold

_BRONZE = frozenset(table.name for table in bronze.TABLES)
_BY_DAY = tuple(table for table in WRITTEN_TABLES if table.partition_by)


@dataclass
class Published:
    """What `publish` has done: digests of all gold tables, rows of all tables, and what the ledger's row reports."""

    days: list[dt.date] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    restated: int = 0


def publish(
    warehouse: Warehouse, night: Night, days: Days, counts: Mapping[str, int], seconds: Mapping[str, float]
) -> Published:
    """Judge what the night made and, if it passes, commit it and write the run into the ledger: from then on readers see it.

    `counts`: frames read, by what became of them; `seconds` by step. Raises GateError if a critical rule is broken; TamperedError
    if rows of a published day, to which nothing was added, are not those that its run read.
    """
    done = sorted(night.replayed)
    inputs = {cut: digest for cut, digest in night.read.digests.items() if cut.table in _BRONZE}
    known = warehouse.slices_in_force({None, *done})
    night.require_as_published(days)
    measurements = night.measurements
    for cut, digest in note_unusable(warehouse, night, days, [*measured_small(warehouse, done), *measurements]).items():
        inputs[cut] = inputs.get(cut, Digest()) + digest
    warnings = require_sound(warehouse, [*measured_small(warehouse, done), *measurements])
    restated = note_restatements(warehouse, night, done)
    outputs = night.outputs
    digests = {**_whole(warehouse.ledger(), known, {**inputs, **outputs}), **_of_small(warehouse)}
    report = {**_report(warehouse, done), "tables": _rows(digests)}
    warehouse.commit([*DATA_TABLES, gold.RESTATEMENTS, *IN_ORDER])
    warehouse.note_run(
        done,
        {
            "status": "published",
            "gate": "passed",
            "ingest_runs": days.ingest_runs,
            "sources": days.sources,
            "inputs": as_rows({**night.starts, **inputs}),
            "outputs": as_rows(outputs),
            "coverage": [row for judged in night.judged for row in judged.coverage],
            "digests": {name: str(digest) for name, digest in digests.items()},
            "counts": {**counts, **{f"outcome.{name}": count for name, count in night.outcomes.items()}},
            "seconds": seconds,
            "report": json.dumps(report, sort_keys=True),
        },
    )
    warnings += holes(inputs, warehouse.slices_in_force)
    return Published(done, gold_digests(digests), report, warnings, restated)


def note_refused(
    warehouse: Warehouse,
    days: Sequence[dt.date],
    error: GateError,
    counts: Mapping[str, int],
    seconds: Mapping[str, float],
) -> None:
    """Note in the ledger that the gate refused a run."""
    warehouse.discard()
    warehouse.note_run(days, {"status": "refused", "gate": str(error), "counts": counts, "seconds": seconds})


def gold_digests(digests: Mapping[str, Digest]) -> dict[str, str]:
    """Return the printed digests of the gold tables."""
    return {table.name: str(digests.get(table.name, Digest())) for table in sorted(DATA_TABLES, key=lambda t: t.name)}


def _whole(ledger: Ledger, replaced: Mapping[Slice, Digest], written: Mapping[Slice, Digest]) -> dict[str, Digest]:
    """Return the digest of each table that is cut by day, from that of the last run and the slices that have changed."""
    before = ledger.last.digests if ledger.last is not None else {}

    def of(table: str, slices: Mapping[Slice, Digest]) -> Digest:
        return sum_of(digest for cut, digest in slices.items() if cut.table == table)

    names = sorted(table.name for table in _BY_DAY)
    return {name: before.get(name, Digest()) - of(name, replaced) + of(name, written) for name in names}


def _of_small(warehouse: Warehouse) -> dict[str, Digest]:
    """Return the digest of each table that is not cut by day, from that of the last run and the files that have changed."""
    last, found = warehouse.ledger().last, {}
    for table in SMALL:
        now = {file.path: file for file in warehouse.files(table)}
        known = None if last is None else last.digests.get(table.name)
        was = {} if known is None else {file.path: file for file in warehouse.published_files(table)}
        added, gone = ([of[path] for path in sorted(of.keys() - other)] for of, other in ((now, was), (was, now)))
        of_added, of_gone = (digest_of(warehouse.path, table, files) for files in (added, gone))
        found[table.name] = (known or Digest()) - of_gone + of_added
    return found


def _rows(digests: Mapping[str, Digest]) -> dict[str, int]:
    """Return how many rows each table has, bronze tables first."""
    rows = {name: digest.rows for name, digest in digests.items()}
    first = [table.name for table in bronze.TABLES]
    return {name: rows[name] for name in (*first, *sorted(rows.keys() - set(first)))}


def _report(warehouse: Warehouse, days: Sequence[dt.date]) -> dict[str, Any]:
    wanted = {
        gold.FINDINGS: ["code", "told_on", "ended_on"],
        gold.ANSWER_CHECKS: None,
        gold.ROUTE_MISMATCHES: ["answer_time", "namesrv_id", "code", "subject", "event_id", "classification"],
        gold.ORDER_DECISIONS: ["decision_id"],
        gold.NAMESRV_SETTINGS: None,
    }
    rows = {table.name: warehouse.rows(table, days, columns) for table, columns in wanted.items()}
    told = pc.field("told_on").isin(days) | pc.field("ended_on").isin(days)
    return report_of({**rows, gold.FINDINGS.name: rows[gold.FINDINGS.name].filter(told)}, days)
