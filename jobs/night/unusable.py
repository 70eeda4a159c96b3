"""Stored rows of which a part cannot be read, as an earlier version of this software may have stored them: noted in quarantine.

The row stays, and counts for what else it says (`schemas.codec`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow.compute as pc

from jobs.ingest.writing import refusal_of
from jobs.night.days import Days
from jobs.night.night import Night
from jobs.store.files import write_file
from jobs.store.relations import digests_of
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow.digest import Digest, Slice
from namesrv_day.arrow.rows import table_of
from namesrv_day.arrow.sql import ask
from namesrv_day.gate.rules import Measurement, breaks, row_rules
from schemas import bronze
from schemas.rules import TABLES as NAMED
from schemas.rules import UNREAD_FIELDS, UNREAD_QUEUES


def note_unusable(
    warehouse: Warehouse, night: Night, days: Days, measurements: Iterable[Measurement]
) -> dict[Slice, Digest]:
    """Add a quarantine row for each row of the replayed days that cannot be read whole; return the digests of those added.

    `measurements`: the rules of all bronze tables, counted. Until it is committed only this run sees it.
    """
    broken = {(one.table, one.rule) for one in measurements if one.broken}
    of_fields = [table for table, rule in sorted(broken) if rule == UNREAD_FIELDS]
    found = [row for table in of_fields for row in _with_unread_fields(warehouse, night, table)]
    if (bronze.TOPIC_CONFIGS_TABLE.name, UNREAD_QUEUES) in broken:
        found += _with_unread_queues(warehouse, night)
    known = warehouse.rows(bronze.QUARANTINE, None, ["quarantine_id"]) if found else None
    stored = set() if known is None else set(known["quarantine_id"].to_pylist())
    added = {row["quarantine_id"]: row for row in found if row["quarantine_id"] not in stored}
    if not added:
        return {}
    # A run that read nothing is no ingest run: its rows count as of the one that stored what they are about.
    ours = {"ingest_run": warehouse.run_id} if warehouse.run_id in days.ingest_runs else {}
    day = max(days.touched or night.replayed)
    rows = table_of(({**row, **ours} for row in added.values()), bronze.QUARANTINE, day=day)
    file = write_file(rows, warehouse.path, bronze.QUARANTINE, day, warehouse.run_id)
    warehouse.change(bronze.QUARANTINE, [file])
    return digests_of(warehouse.path, bronze.QUARANTINE, [file])


def _with_unread_fields(warehouse: Warehouse, night: Night, name: str) -> Iterator[dict[str, Any]]:
    """Yield what stands in quarantine for rows of a table whose header fields of an answer cannot be read."""
    table = NAMED[name]
    (rule,) = (rule for rule in row_rules(name) if rule.name == UNREAD_FIELDS)
    query = f"SELECT event_id FROM rows WHERE {breaks(rule)}"  # noqa: S608  text of ours
    for day in sorted(night.replayed):
        rows = warehouse.rows(table, [day], ["event_id", "response_fields"])
        for_ids = pc.field("event_id").isin(ask(query, {"rows": rows})["event_id"].combine_chunks())
        yield from (
            _refused(row, name, UNREAD_FIELDS) for row in warehouse.rows(table, [day], None, for_ids).to_pylist()
        )


def _with_unread_queues(warehouse: Warehouse, night: Night) -> Iterator[dict[str, Any]]:
    """Yield what stands in quarantine for topic tables with a queue map that cannot be read: the first registration with each."""
    (rule,) = (rule for rule in row_rules(bronze.TOPIC_CONFIGS_TABLE.name) if rule.name == UNREAD_QUEUES)
    query = f"SELECT topic_config_digest FROM rows WHERE {breaks(rule)}"  # noqa: S608  text of ours
    configs = ask(query, {"rows": warehouse.rows(bronze.TOPIC_CONFIGS_TABLE)})["topic_config_digest"].combine_chunks()
    named = warehouse.rows(bronze.REGISTRATIONS, night.replayed, None, pc.field("topic_config_digest").isin(configs))
    first: dict[str, dict[str, Any]] = {}
    for row in named.sort_by("seq").to_pylist():
        first.setdefault(row["topic_config_digest"], row)
    return (_refused(row, bronze.REGISTRATIONS.name, UNREAD_QUEUES) for row in first.values())


def _refused(row: dict[str, Any], table: str, rule: str) -> dict[str, Any]:
    """Return the row of quarantine that stands for a stored one."""
    return {**refusal_of(row, NAMED[table], [rule]).values, "ingest_run": row["ingest_run"]}
