"""What one file of recorded events leaves for the gate: its rows judged one by one, and what tells of them all together.

The gate then looks at the connections and at the requests that decide, of all rows of a name server, whatever files they are in
(`judged`), and compares keys a part at a time (`namesrv_day.keys`).
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day import keys
from namesrv_day.rules import Measurement, counted, measure, measured, row_rules
from schemas import bronze
from schemas.rules import REQUESTS, Rule
from schemas.table import LONG, STRING, TIMESTAMP

CONNECTIONS = pa.schema([("table", STRING), ("namesrv_id", STRING), ("channel_id", STRING), ("kind", STRING)])
"""The connections of some rows of a table, once each; of channel_events every row, with its kind."""
DECIDING = pa.schema(
    [
        *(("table", STRING), ("namesrv_id", STRING), ("source_file", STRING), ("source_offset", LONG)),
        ("event_time", TIMESTAMP),
    ]
)
"""Of each thousand packets or lines of a file the requests that are first, last, earliest and latest."""
_EVENTS = frozenset(table.name for table in bronze.EVENT_TABLES)
_RECORDED = tuple(table.name for table in bronze.RECORDED_TABLES)


@dataclass(frozen=True)
class Scan:
    """What a file leaves. `measured`: rules of single rows. `topics`: the topic_config_digests of registrations.

    `ids`, `positions`: `keys.PARTS`.
    """

    measured: list[Measurement]
    connections: pa.Table
    deciding: pa.Table
    topics: pa.Table
    ids: pa.Table
    positions: pa.Table


def scanned(rows: duckdb.DuckDBPyRelation, table: str, parts: int = 1) -> Scan:
    """Return what `rows` leave, which are a file of `table`, one of `bronze.RECORDED_TABLES`. Keys are cut into `parts`."""
    connections = _connections(rows, table)
    ids = keys.ids_of(rows)
    positions = [
        keys.parts_of_positions(namesrv_id, keys.positions_of(rows, namesrv_id), parts)
        for namesrv_id in pc.unique(pc.drop_null(connections["namesrv_id"])).to_pylist()
        if table in _EVENTS
    ]
    return Scan(
        _rows_measured(rows, table, ids),
        connections,
        _deciding(rows, table) if table in REQUESTS else DECIDING.empty_table(),
        _topics(rows) if table == bronze.REGISTRATIONS.name else pa.table({"topic_config_digest": pa.nulls(0, STRING)}),
        keys.parts_of_ids(table, ids.prints, parts),
        pa.concat_tables([keys.PARTS.empty_table(), *positions]),
    )


def judged(connections: pa.Table, deciding: pa.Table) -> list[Measurement]:
    """Return what is counted of the rules about connections and clocks. Given is what all files left of some name servers."""
    return [
        *measure(_by_table(connections, _RECORDED), which=lambda rule: rule.kind == "query" and len(rule.needs) == 1),
        *measure(
            _by_table(deciding, REQUESTS),
            [bronze.NAMESRV_EVENTS.name],
            which=lambda rule: rule.kind == "query" and len(rule.needs) > 1,
        ),
    ]


def _rows_measured(rows: duckdb.DuckDBPyRelation, table: str, ids: keys.Ids) -> list[Measurement]:
    found = counted(rows, table, [rule for rule in row_rules(table) if not _is_form_of_id(rule)])
    count = found[0].rows
    for rule in filter(_is_form_of_id, row_rules(table)):
        # Looked at digit by digit only if not all ids were found to have their form when they were read.
        fine = ids.are_digests and len(ids.prints) == count
        found += [measured(table, rule, count, 0)] if fine else counted(rows, table, [rule])
    return found


def _is_form_of_id(rule: Rule) -> bool:
    return rule.name == "event_id_is_a_digest"


def _deciding(rows: duckdb.DuckDBPyRelation, table: str) -> pa.Table:
    at = (
        "min_by({0}, source_offset)",
        "max_by({0}, source_offset)",
        "min_by({0}, event_time)",
        "max_by({0}, event_time)",
    )
    offsets, instants = (", ".join(row.format(column) for row in at) for column in ("source_offset", "event_time"))
    found = rows.aggregate(
        f"namesrv_id, source_file, source_offset // 1000 AS thousand, [{offsets}] AS offsets, [{instants}] AS instants"
    ).project("namesrv_id, source_file, unnest(offsets) AS source_offset, unnest(instants) AS event_time")
    return _of(table, DECIDING, found.distinct())


def _connections(rows: duckdb.DuckDBPyRelation, table: str) -> pa.Table:
    if table == bronze.CHANNEL_EVENTS.name:
        return _of(table, CONNECTIONS, rows.project("namesrv_id, channel_id, kind"))
    return _of(table, CONNECTIONS, rows.project("namesrv_id, channel_id, NULL::VARCHAR AS kind").distinct())


def _topics(rows: duckdb.DuckDBPyRelation) -> pa.Table:
    return rows.project("topic_config_digest").distinct().to_arrow_table()


def _of(table: str, schema: pa.Schema, rows: duckdb.DuckDBPyRelation) -> pa.Table:
    found = rows.to_arrow_table()
    return found.add_column(0, "table", pa.repeat(pa.scalar(table), found.num_rows)).cast(schema)


def _by_table(rows: pa.Table, tables: tuple[str, ...]) -> dict[str, pa.Table]:
    return {name: rows.filter(pc.equal(rows["table"], name)) for name in tables}
