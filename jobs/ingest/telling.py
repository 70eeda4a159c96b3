"""What recorded rows tell of addresses: of name servers, who beat there, what they answered, and what that depends on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Final

import pyarrow as pa
from duckdb import DuckDBPyRelation

from jobs.ingest.staging import Staging
from jobs.store.relations import ask_file
from jobs.store.warehouse import Warehouse
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS
from namesrv_day.across import addresses
from namesrv_day.across.addresses import BEATS, ENDS, REGISTERED, TOLD, Pair, Telling
from namesrv_day.arrow.rows import empty
from namesrv_day.arrow.sql import ask, connection
from schemas import bronze
from schemas.table import LONG, STRING, Table

_BEATING: Final = (bronze.HEARTBEATS, bronze.REGISTRATIONS, bronze.ROUTE_OBSERVATIONS)


class Recorded:
    """The rows of some days: those that are stored, and such as are `staged`, of which none is stored yet."""

    def __init__(self, house: Warehouse, days: Collection[dt.date], staged: Staging | None = None) -> None:
        self._house, self._days, self._staged = house, days, staged

    def _asked(
        self, table: Table, columns: str, asked: Callable[[DuckDBPyRelation], pa.Table], *, is_of_days: bool = True
    ) -> pa.Table:
        """Return what `asked` makes of these columns of rows, part by part."""
        parts = list(self._parts(table, columns, asked, is_of_days=is_of_days))
        return pa.concat_tables(parts or [asked(connection().from_arrow(empty(table)))])

    def _parts(
        self, table: Table, columns: str, asked: Callable[[DuckDBPyRelation], pa.Table], *, is_of_days: bool = True
    ) -> Iterator[pa.Table]:
        """Yield what `asked` makes of these columns of each part of the rows."""
        for file in self._house.files(table, self._days if is_of_days else None):
            yield ask_file(self._house.path, table, file, asked)
        if self._staged is not None:
            names = [name.strip() for name in columns.split(",")]
            for rows in self._staged.columns(table.name, names):
                yield asked(connection().from_arrow(rows))

    def heard(self) -> pa.Table:
        """Return who beat at which name server, since when and until when, and when it answered, as `BEATS`."""
        parts = []
        for table in _BEATING:
            columns = "namesrv_id, seq" if table is bronze.ROUTE_OBSERVATIONS else "namesrv_id, seq, broker_addr"
            parts.append(self._asked(table, columns, partial(_first_and_last, "broker_addr" in columns)).cast(BEATS))
        return ask(_HEARD, {"parts": pa.concat_tables(parts)}).cast(BEATS)

    def clusters(self) -> pa.Table:
        """Return the answers that show all brokers, with hashes of their bodies."""
        return self._asked(bronze.ROUTE_OBSERVATIONS, "namesrv_id, seq, event_id, code, response_code, body", _hashed)

    def pairs(self, beats: pa.Table) -> list[Pair]:
        """Return what rows tell of each two name servers that are heard, of whom `beats` says who beat there."""
        among = beats.select(["namesrv_id"])

        def each(table: Table, columns: str, where: str, needs: str = "") -> Iterator[pa.Table]:
            return self._parts(table, columns + needs, partial(_among, among, columns, where))

        telling = Telling(beats, self._routes(among))
        for some in each(bronze.REGISTRATIONS, _REGISTERING, _ACCEPTED, ", response_code, refusal"):
            given = {"registrations": some}
            telling.registered(ask(_REGISTERED, given, lease_ms=BROKER_CHANNEL_EXPIRED_MS).cast(REGISTERED))
        for some in each(bronze.CHANNEL_EVENTS, "namesrv_id, channel_id, seq", "kind = 'close'", ", kind"):
            telling.ended(_ended(some, "broker_addr"))
        for some in each(bronze.UNREGISTRATIONS, "namesrv_id, broker_addr, seq", "TRUE"):
            telling.ended(_ended(some, "channel_id"))
        digests, columns = pa.table({"topic_config_digest": telling.digests}), "topic_config_digest, topics"
        named = partial(_among, digests, columns, "TRUE")
        configs = self._asked(bronze.TOPIC_CONFIGS_TABLE, columns, named, is_of_days=False)
        return telling.compared(ask(_TOPICS, {"configs": configs, "answers": telling.answers}))

    def _routes(self, among: pa.Table) -> pa.Table:
        """Return the answers that are looked at of name servers: most are not, and of these neither body nor id is read."""
        table, columns = bronze.ROUTE_OBSERVATIONS, "code, response_code, body, scope, namesrv_id, subject, seq"
        wanted = addresses.sampled(self._asked(table, columns, partial(_told, among)))
        columns = "namesrv_id, code, subject, seq, event_id, request_seq, body, response_version"
        of_these = partial(_among, wanted, columns, _ROUTES)
        return self._asked(table, f"{columns}, response_code, scope", of_these)


def _first_and_last(has_broker: bool, rows: DuckDBPyRelation) -> pa.Table:  # noqa: FBT001  for `partial`
    named = rows.project(f"namesrv_id, {'broker_addr' if has_broker else 'NULL'} AS broker_addr, seq")
    return named.aggregate("namesrv_id, broker_addr, min(seq) AS first_seq, max(seq) AS last_seq").to_arrow_table()


def _hashed(rows: DuckDBPyRelation) -> pa.Table:
    answers = rows.filter("code = 106 AND response_code = 0 AND body IS NOT NULL")
    return answers.project("namesrv_id, seq, event_id, hash(body) AS body").to_arrow_table().cast(_CLUSTERS)


def _among(wanted: pa.Table, columns: str, where: str, rows: DuckDBPyRelation) -> pa.Table:
    """Return columns of rows among the `wanted`, which have some columns in common with them."""
    return _own(wanted, where, rows).project(columns).to_arrow_table()


def _ended(rows: pa.Table, missing: str) -> pa.Table:
    return rows.append_column(missing, pa.nulls(len(rows), STRING)).select(ENDS.names).cast(ENDS)


def _told(among: pa.Table, rows: DuckDBPyRelation) -> pa.Table:
    """Return when it was answered whether there is a route, as `TOLD`: of an answer hardly more than its position."""
    shown = "namesrv_id, code, subject, response_code = 0 AS is_shown"
    told = _own(among, _ROUTES, rows).aggregate(f"{shown}, list(seq) AS seqs", "namesrv_id, code, subject, is_shown")
    return told.to_arrow_table().cast(TOLD)


def _own(wanted: pa.Table, where: str, rows: DuckDBPyRelation) -> DuckDBPyRelation:
    return rows.filter(where).join(connection().from_arrow(wanted), ", ".join(wanted.column_names), how="semi")


_CLUSTERS: Final = pa.schema([("namesrv_id", STRING), ("seq", LONG), ("event_id", STRING), ("body", pa.uint64())])
_HEARD: Final = """
SELECT namesrv_id, broker_addr, min(first_seq) AS first_seq, max(last_seq) AS last_seq FROM parts GROUP BY ALL
"""
_ROUTES: Final = """
code IN (105, 106) AND (response_code = 0 AND body IS NOT NULL OR response_code = 17) AND coalesce(scope, '') = ''
"""
_ACCEPTED: Final = "response_code = 0 AND refusal IS NULL AND broker_addr IS NOT NULL"
_OF_OTHERS: Final = {"lease_ms": "heartbeat_timeout_ms", "received": "event_time"}
_REGISTERING: Final = ", ".join([*(name for name in REGISTERED.names if name not in _OF_OTHERS), *_OF_OTHERS.values()])
_REGISTERED: Final = """
SELECT namesrv_id, broker_addr, broker_name, broker_id, topic_config_digest, channel_id,
    epoch_us(event_time) * 1000 AS received, seq, coalesce(heartbeat_timeout_ms, $lease_ms) AS lease_ms
FROM registrations
"""
_TOPICS: Final = """
SELECT DISTINCT topic_config_digest, topic FROM (SELECT topic_config_digest, unnest(topics).topic AS topic FROM configs)
WHERE topic IN (SELECT subject FROM answers)
"""
