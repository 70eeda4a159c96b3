"""What a day's recorded rows tell of name servers that may be one: heartbeats as they were condensed, and answers to 106."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pyarrow as pa
from duckdb import DuckDBPyRelation

from jobs.night import stash
from jobs.store.relations import ask_file
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow.sql import ask, connection
from namesrv_day.flags.suspected import FRESH_NS, HEARD, REGISTERED, SUSPECTED, TOLD, suspected
from schemas import bronze
from schemas.sql_files import query
from schemas.table import LONG, STRING

_ANSWER = pa.struct([("seq", LONG), ("event_id", STRING)])
_BODIES = pa.schema([("namesrv_id", STRING), ("body", STRING), ("answers", pa.list_(_ANSWER))])
_MOST = 2_000
"""Answers that are looked at of a name server's day: the last ones."""


def suspected_on(warehouse: Warehouse, day: dt.date, hours: Sequence[str]) -> pa.Table:
    """Return what a day tells of name servers being one, or several, as `SUSPECTED`; `hours`: where beats are stashed."""
    told = _told(warehouse, day)
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

        parts = [
            ask_file(warehouse.path, bronze.REGISTRATIONS, file, of_file).cast(REGISTERED)
            for file in warehouse.files(bronze.REGISTRATIONS, [day])
        ]
        return pa.concat_tables([REGISTERED.empty_table(), *parts])

    return suspected(ask(_HEARD, {"beats": beats}).cast(HEARD), told, registered, apart, warehouse.conf.namesrvs)


def _told(warehouse: Warehouse, day: dt.date) -> pa.Table:
    def of_file(rows: DuckDBPyRelation) -> pa.Table:
        whole = rows.filter("code = 106 AND response_code = 0 AND body IS NOT NULL")
        return whole.aggregate("namesrv_id, body, list({'seq': seq, 'event_id': event_id}) AS answers").to_arrow_table()

    parts = [
        ask_file(warehouse.path, bronze.ROUTE_OBSERVATIONS, file, of_file).cast(_BODIES)
        for file in warehouse.files(bronze.ROUTE_OBSERVATIONS, [day])
    ]
    return ask(query("flags/whole"), {"bodies": pa.concat_tables([_BODIES.empty_table(), *parts])}, most=_MOST).cast(
        TOLD
    )


_REGISTERING = "namesrv_id, broker_addr, broker_name, broker_id, seq, heartbeat_timeout_ms AS lease_ms"
_NEAR = "SELECT DISTINCT unnest([seq // $fresh_ns - 2, seq // $fresh_ns - 1, seq // $fresh_ns]) AS near FROM told"
_HEARD = """
SELECT namesrv_id, broker_addr, min(first_seq) AS first_seq, max(last_seq) AS last_seq FROM beats
WHERE broker_addr IS NOT NULL GROUP BY ALL
"""
