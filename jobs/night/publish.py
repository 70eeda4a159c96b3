"""Publish what a run made: check it, commit, and write the row into the ledger."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from jobs.errors import GateError
from jobs.ingest.ingest import IN_ORDER
from jobs.night.days import Days, holes
from jobs.night.gate import SMALL, measured_small, require_sound
from jobs.night.night import Night
from jobs.store.ledger import as_rows
from jobs.store.relations import digest_of
from jobs.store.warehouse import DATA_TABLES, WRITTEN_TABLES, Warehouse
from namesrv_day.across.numbers import report_of
from namesrv_day.arrow.digest import Digest, Slice, sum_of
from schemas import bronze, gold

_BRONZE = frozenset(table.name for table in bronze.TABLES)
_RECORDED = frozenset(table.name for table in bronze.RECORDED_TABLES)
_DATA = frozenset(table.name for table in DATA_TABLES)
_REPORTED = {
    gold.FINDINGS: ["code", "told_on", "ended_on"],
    gold.ANSWER_CHECKS: None,
    gold.ROUTE_MISMATCHES: ["answer_time", "namesrv_id", "code", "subject", "event_id", "classification"],
    gold.ORDER_DECISIONS: ["decision_id"],
    gold.NAMESRV_SETTINGS: None,
}
"""Of the tables that a run reports on, the columns that are read for that."""


def publish(
    warehouse: Warehouse, night: Night, days: Days, counts: Mapping[str, int], seconds: Mapping[str, float]
) -> tuple[dict[str, Any], dict[str, str], list[str], int]:
    """Check what the night made and, if it passes, commit it and write the run into the ledger: from then on readers see it.

    Return what the ledger's row reports, the printed digests of all gold tables, warnings, and how many published slices are others
    now. `counts`: frames read, by what became of them; `seconds` by step. Raises GateError if a critical rule is broken;
    TamperedError if rows of a published day, to which nothing was added, are not those that its run read.
    """
    done = sorted(night.replayed)
    inputs = {cut: digest for cut, digest in night.read.digests.items() if cut.table in _BRONZE}
    known = warehouse.slices_in_force({None, *done})
    night.require_as_published(days)
    warnings = require_sound(warehouse, [*measured_small(warehouse, done), *night.measurements])
    outputs = night.outputs
    # As the view `restatements` tells them: a last day that goes on is none.
    were, last_day = warehouse.ledger().days, max(warehouse.ledger().days, default=None)
    now, none = {**inputs, **outputs}, Digest()
    others = [cut for cut in {**known, **now} if now.get(cut, none) != known.get(cut, none)]
    more = {cut: now.get(cut, none).rows - known.get(cut, none).rows for cut in others if cut.table in _RECORDED}
    gone_on = {cut.namesrv_id for cut in more if cut.day == last_day} - {
        cut.namesrv_id for cut, rows in more.items() if rows < 0
    }
    restated = [cut for cut in others if cut.table in _DATA and cut.day in were.intersection(done)]
    restated = [cut for cut in restated if cut.day != last_day or cut.namesrv_id not in gone_on]
    digests = _digests(warehouse, known, now)
    rows = {table.name: warehouse.rows(table, done, columns) for table, columns in _REPORTED.items()}
    told = pc.field("told_on").isin(done) | pc.field("ended_on").isin(done)
    rows[gold.FINDINGS.name] = rows[gold.FINDINGS.name].filter(told)
    first = [table.name for table in bronze.TABLES]
    in_order = [*first, *sorted(digests.keys() - set(first))]
    report = {**report_of(rows, done), "tables": {name: digests[name].rows for name in in_order}}
    warehouse.commit([*DATA_TABLES, *IN_ORDER])
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
    return report, gold_digests(digests), warnings, len(restated)


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


def _digests(
    warehouse: Warehouse, replaced: Mapping[Slice, Digest], written: Mapping[Slice, Digest]
) -> dict[str, Digest]:
    """Return the digest of each table, from that of the last run and the slices (of a small table the files) that have changed."""
    last = warehouse.ledger().last
    before = {} if last is None else last.digests

    def of(table: str, slices: Mapping[Slice, Digest]) -> Digest:
        return sum_of(digest for cut, digest in slices.items() if cut.table == table)

    names = sorted(table.name for table in WRITTEN_TABLES if table.partition_by)
    found = {name: before.get(name, Digest()) - of(name, replaced) + of(name, written) for name in names}
    for table in SMALL:
        known = before.get(table.name)
        now = {file.path: file for file in warehouse.files(table)}
        was = {} if known is None else {file.path: file for file in warehouse.published_files(table)}
        added, gone = ([of[path] for path in sorted(of.keys() - other)] for of, other in ((now, was), (was, now)))
        of_added, of_gone = (digest_of(warehouse.path, table, files) for files in (added, gone))
        found[table.name] = (known or Digest()) - of_gone + of_added
    return found
