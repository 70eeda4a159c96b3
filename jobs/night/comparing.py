"""What shows only where name servers are compared, in the driver.

Findings between them, after the passes over a day; before, which of them may be one process, by heartbeats and answers to 106.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyRelation

from jobs.night import stash
from jobs.night.judging import HELD, Judged, ends_otherwise
from jobs.night.opened import Files
from jobs.store.files import read_files
from jobs.store.intervals import write_intervals
from jobs.store.relations import reading
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow.digest import Digest, Slice
from namesrv_day.arrow.sql import ask, connection
from namesrv_day.flags.between import across, together
from namesrv_day.flags.suspected import FRESH_NS, HEARD, REGISTERED, SUSPECTED, TOLD, suspected
from schemas import bronze, gold
from schemas.sql_files import query
from schemas.table import LONG, STRING, Table

_COMPARED = ("namesrv_id", "broker_name", "topic", "valid_from", "valid_to", "opened_by", "closed_by")
_EACH = gold.FINDINGS
_ANSWER = pa.struct([("seq", LONG), ("event_id", STRING)])
_BODIES = pa.schema([("namesrv_id", STRING), ("body", STRING), ("answers", pa.list_(_ANSWER))])
_MOST = 2_000
"""Answers that are looked at of a name server's day: the last ones."""
_REGISTERING = "namesrv_id, broker_addr, broker_name, broker_id, seq, heartbeat_timeout_ms AS lease_ms"
_NEAR = "SELECT DISTINCT unnest([seq // $fresh_ns - 2, seq // $fresh_ns - 1, seq // $fresh_ns]) AS near FROM told"
_HEARD = """
SELECT namesrv_id, broker_addr, min(first_seq) AS first_seq, max(last_seq) AS last_seq FROM beats
WHERE broker_addr IS NOT NULL GROUP BY ALL
"""


def told_together(
    warehouse: Warehouse, day: dt.date, judged: Sequence[Judged]
) -> tuple[list[Judged], dict[Slice, Digest]]:
    """Write the findings that comparing name servers tells; return what was judged, with these, and their digests."""
    history = gold.TOPIC_QUEUE_HISTORY
    written = tuple(file for done in judged if done.intervals for file in done.intervals[history.name].files)

    def queues(names: Sequence[str], brokers: pa.Array) -> pa.Table:
        where = pc.field("namesrv_id").isin(names) & pc.field("broker_name").isin(brokers)
        return Files(warehouse.path, {history.name: written}).on(history, day, _COMPARED, where)

    found = across(
        together(done.compared for done in judged if done.compared is not None), queues, day, warehouse.conf.thresholds
    )
    there, known = (warehouse.files(_EACH), warehouse.published_files(_EACH)), dict[Slice, Digest]()
    again = []
    for done in judged:
        rows = found.filter(pc.field("namesrv_id") == done.namesrv_id)
        told = write_intervals(warehouse.path, _EACH, rows, done.namesrv_id, day, warehouse.run_id, there, "between")
        known |= told.digests
        both = done.intervals[_EACH.name].and_also(told)
        changed: dict[str, Any] = {"intervals": {**done.intervals, _EACH.name: both}}
        if done.published_findings is not None:
            new = {_EACH.name: read_files(warehouse.path, _EACH, both.files)}
            old = {_EACH.name: done.published_findings}
            is_other = ends_otherwise(new, old, {_EACH: HELD[_EACH]})
            changed |= {
                "holds_otherwise": done.holds_otherwise or is_other,
                "ends_otherwise": done.ends_otherwise or is_other,
            }
        again.append(replace(done, **changed))
    return again, known


def suspected_on(warehouse: Warehouse, day: dt.date, hours: Sequence[str]) -> pa.Table:
    """Return what a day tells of name servers being one, or several, as `SUSPECTED`; `hours`: where beats are stashed."""

    def bodies(rows: DuckDBPyRelation) -> pa.Table:
        whole = rows.filter("code = 106 AND response_code = 0 AND body IS NOT NULL")
        return whole.aggregate("namesrv_id, body, list({'seq': seq, 'event_id': event_id}) AS answers").to_arrow_table()

    def of_files(table: Table, ask_one: Callable[[DuckDBPyRelation], pa.Table], schema: pa.Schema) -> pa.Table:
        found = [schema.empty_table()]
        for file in warehouse.files(table, [day]):
            with reading(warehouse.path, table, [file]) as rows:
                found.append(ask_one(rows).cast(schema))
        return pa.concat_tables(found)

    answered = of_files(bronze.ROUTE_OBSERVATIONS, bodies, _BODIES)
    told = ask(query("flags/whole"), {"bodies": answered}, most=_MOST).cast(TOLD)
    if not told.num_rows:
        return SUSPECTED.empty_table()
    columns = ["namesrv_id", "broker_addr", "first_seq", "last_seq"]
    beats = stash.take(hours, "hours", None, columns) if hours else HEARD.empty_table()
    given = {row["namesrv_addr"]: row["namesrv_id"] for row in warehouse.rows(bronze.ADDRESSES).to_pylist()}
    apart = {frozenset(given.get(address, address) for address in pair) for pair in warehouse.conf.apart}
    # All addresses of these are listed.
    listed = {name for name, said in warehouse.conf.namesrvs.items() if said.addresses is not None}
    names = {*told["namesrv_id"].to_pylist(), *beats["namesrv_id"].to_pylist()}
    apart |= {frozenset((name, other)) for name in listed & names for other in names - {name}}

    def registered() -> pa.Table:
        near = ask(_NEAR, {"told": told}, fresh_ns=FRESH_NS)

        def of_file(rows: DuckDBPyRelation) -> pa.Table:
            accepted = rows.filter("response_code = 0 AND refusal IS NULL AND broker_addr IS NOT NULL")
            found = accepted.project(f"{_REGISTERING}, seq // {FRESH_NS} AS near")
            return (
                found.join(connection().from_arrow(near), "near", how="semi").to_arrow_table().select(REGISTERED.names)
            )

        return of_files(bronze.REGISTRATIONS, of_file, REGISTERED)

    return suspected(ask(_HEARD, {"beats": beats}).cast(HEARD), told, registered, apart, warehouse.conf.namesrvs)
