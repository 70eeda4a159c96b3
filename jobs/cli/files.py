"""Recorded events as an event log, which can be read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc

from jobs.cli.output import opened
from jobs.errors import MissingDayError
from jobs.night.work import require_configs
from jobs.printable import nobody
from jobs.store.ledger import days_of
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow.rows import rows_of
from namesrv_wire.logs.event_log import line_of
from namesrv_wire.rows import Row
from schemas import bronze


def export(warehouse: Warehouse, output: Path, share: Callable[[int, int], None] = nobody) -> int:
    """Write every recorded event and answer to `output`, ordered by name server and position; return the lines.

    `share` is told how many name servers' days are done, of how many.
    Raises TamperedError; MissingDayError where nothing is recorded.
    """
    stored = warehouse.rows(bronze.TOPIC_CONFIGS_TABLE)
    require_configs(warehouse.path, stored)
    configs = {row["topic_config_digest"]: row for row in rows_of(stored)}
    days = days_of(warehouse.recorded())
    if not days:
        raise MissingDayError(f"{warehouse.path}: nothing is recorded at all")
    lines = 0
    with opened(output) as file:
        namesrvs = sorted({name for day in days for name in warehouse.namesrvs_on(day)})
        for place, namesrv_id in enumerate(namesrvs):
            own = pc.field("namesrv_id") == namesrv_id
            for number, day in enumerate(days):
                share(place * len(days) + number, len(namesrvs) * len(days))
                found = [
                    Row(table.name, row)
                    for table in bronze.RECORDED_TABLES
                    for row in rows_of(warehouse.rows(table, [day], None, own))
                ]
                for row in sorted(found, key=lambda row: (row.values["seq"], row.values["event_id"])):
                    file.write(line_of(row, configs.get(row.values.get("topic_config_digest"))) + "\n")
                lines += len(found)
    return lines
