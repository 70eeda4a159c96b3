"""What intervals were on each published day: a row a day for each that was there, as it was known when the day ended."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa

from jobs.conf import PipelineConf
from jobs.night.judging import files_of
from jobs.store.warehouse import Warehouse
from schemas import gold
from schemas.table import Table


def on_days(warehouse: Path, table: Table) -> pa.Table:
    """Return the intervals of a table on all published days, with the `day`."""
    opened = Warehouse(str(warehouse), PipelineConf(), "look", dt.datetime.now(dt.timezone.utc))
    found = [
        files_of(opened, [table, gold.LAST_HEARTBEATS], [day], published=True).on(table, day)
        for day in sorted(opened.ledger().days)
    ]
    days = [
        pa.repeat(pa.scalar(day), rows.num_rows) for day, rows in zip(sorted(opened.ledger().days), found, strict=True)
    ]
    return pa.concat_tables(rows.append_column("day", of) for rows, of in zip(found, days, strict=True))
