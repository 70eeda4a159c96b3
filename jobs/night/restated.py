"""What a run changes in days that were published before: its rows of `restatements`.

A day is restated where a slice - one table, one name server - is other than the published one. A day that merely went on,
because it was the last one and every new event lies behind all that was known of it, is none.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc

from jobs import __version__
from jobs.night.night import Night
from jobs.store.files import read_files, write_file
from jobs.store.warehouse import Warehouse
from namesrv_core.inference.settings import ADDRESSES
from namesrv_day.across.restate import causes_of, restatements, settings_differ
from schemas import gold


def _leave_out_unpublished(warehouse: Warehouse) -> None:
    """Leave out the rows of runs that died before they were published."""
    table, published = gold.RESTATEMENTS, pa.array(sorted(warehouse.ledger().runs))
    for file in warehouse.files(table):
        if PurePosixPath(file.path).name.rpartition("-")[0] in warehouse.ledger().runs:
            continue  # a file is called by the run that wrote it
        runs = read_files(warehouse.path, table, [file], ["run_id"])["run_id"]
        if not pc.all(pc.is_in(runs, published)).as_py():
            kept = read_files(warehouse.path, table, [file], filter=pc.field("run_id").isin(published))
            warehouse.change(
                table,
                [write_file(kept, warehouse.path, table, file.day, warehouse.run_id)] if len(kept) else [],
                [file],
            )


def note_restatements(warehouse: Warehouse, night: Night, days: Sequence[dt.date]) -> int:
    """Add the rows of `restatements` for those of `days` that were published before; return how many slices have changed.

    No reader sees them until the run is published.
    """
    ledger, last = warehouse.ledger(), warehouse.ledger().last
    if last is None:
        return 0
    _leave_out_unpublished(warehouse)
    each = gold.NAMESRV_SETTINGS

    def resettled(day: dt.date, of: pc.Expression | None = None) -> bool:
        return settings_differ(warehouse.rows(each, [day], None, of), warehouse.published_rows(each, [day], None, of))

    renamed = {day for day in ledger.days & set(days) if resettled(day, pc.field("setting") == ADDRESSES)}
    # A day on which name servers became one, or several, has not merely gone on.
    fresh = {
        key: replace(events, last_known=None) if key[0] in renamed else events
        for key, events in night.read.fresh.items()
        if key[0] in days
    }
    others = {
        "configuration": bool(renamed) or last.config_sha256 != warehouse.conf.sha256,
        "code": last.code_version != __version__,
    }
    causes = causes_of(days, ledger.days, fresh, others, resettled)
    if causes is None:
        return 0
    compared = (row for of in night.judged for row in of.differing)
    rows = restatements(compared, fresh, causes, max(ledger.days), run_id=warehouse.run_id, previous_run=last.run_id)
    for day in pc.unique(rows["day"]).to_pylist():
        of_day = rows.filter(pc.field("day") == day)
        warehouse.write(gold.RESTATEMENTS, of_day, day)
    return int(rows.num_rows)
