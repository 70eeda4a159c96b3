"""What one file of recorded events leaves for the gate: its rows judged one by one, and what tells of them all together.

The gate then looks at the connections and at the requests that decide, of all rows of a name server, whatever files they are in
(`judged`), and compares keys a part at a time (`namesrv_day.keys`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
TOPICS = pa.schema([("topic_config_digest", STRING)])
"""The topic tables that registrations name."""
_EVENTS = frozenset(table.name for table in bronze.EVENT_TABLES)
_RECORDED = tuple(table.name for table in bronze.RECORDED_TABLES)


@dataclass(frozen=True)
class Scan:
    """What a file leaves: `measured` are its rules of single rows; `ids` and `positions` are `keys.PARTS`."""

    measured: list[Measurement]
    connections: pa.Table
    deciding: pa.Table
    topics: pa.Table
    ids: pa.Table
    positions: pa.Table


def scanned(rows: duckdb.DuckDBPyRelation, table: str, parts: int = 1, *, with_ids: bool = True) -> Scan:
    """Return what `rows` leave, which are a file of `table`, one of `bronze.RECORDED_TABLES`. Keys are cut into `parts`.

    `rows` are read several times, a few columns at a time: give what DuckDB reads itself. Without ids, which are more than half of
    the bytes of heartbeats, the rules about `event_id` have judged no rows.
    """
    same = _same(rows, ("namesrv_id", "source_file"))
    connections = _connections(rows, table, same)
    ids = keys.ids_of(rows, table) if with_ids else None
    positions = [
        keys.parts_of_positions(namesrv_id, keys.positions_of(own), parts)
        for namesrv_id, own in (_by_namesrv(rows, connections) if table in _EVENTS else ())
    ]
    return Scan(
        _rows_measured(_with(rows, same), table, ids),
        connections,
        _deciding(rows, table, same) if table in REQUESTS else DECIDING.empty_table(),
        _topics(rows) if table == bronze.REGISTRATIONS.name else TOPICS.empty_table(),
        keys.parts_of_ids(table, ids, parts) if ids else keys.PARTS.empty_table(),
        pa.concat_tables([keys.PARTS.empty_table(), *positions]),
    )


def judged(connections: pa.Table, deciding: pa.Table, topics: pa.Table, stored: pa.Table) -> list[Measurement]:
    """Return what is counted of the rules about connections, clocks and topics, given what all files left.

    Of connections and clocks it may be what they left of some name servers. `stored`: the keys of topic_configs.
    """
    by_table = _by_table(connections, _RECORDED)
    named = {bronze.REGISTRATIONS.name: topics, bronze.TOPIC_CONFIGS_TABLE.name: stored}
    return [
        *measure(by_table, which=lambda rule: rule.kind == "query" and len(rule.needs) == 1),
        *measure(_by_table(deciding, REQUESTS), [bronze.NAMESRV_EVENTS.name], which=_is_of_requests),
        *measure(named, [bronze.REGISTRATIONS.name], which=lambda rule: rule.kind == "reference"),
    ]


def _is_of_requests(rule: Rule) -> bool:
    return rule.kind == "query" and rule.needs == tuple(sorted(REQUESTS))


_AN_ID = duckdb.SQLExpression("if(stated_id IS NULL, '', stated_id)").alias("event_id")


def _rows_measured(rows: duckdb.DuckDBPyRelation, table: str, ids: keys.Ids | None) -> list[Measurement]:
    rules = row_rules(table)
    # An id that follows from a row is there, and has its form: it is not made for it.
    judged_rows = rows.select(duckdb.StarExpression(exclude=["event_id"]), _AN_ID) if table in keys.TIMED else rows
    found = counted(judged_rows, table, [rule for rule in rules if rule.name != keys.FORM])
    count = found[0].rows
    for rule in (rule for rule in rules if rule.name == keys.FORM):
        if ids is None:
            found += [measured(table, unread, 0, 0) for unread in (rule, keys.ID[table])]
        elif ids.are_digests and len(ids.prints) + len(ids.timed) == count:
            found.append(measured(table, rule, count, 0))
        else:
            found += counted(rows, table, [rule])
    return found


def _same(rows: duckdb.DuckDBPyRelation, columns: Sequence[str]) -> dict[str, str]:
    """Return the columns that have one value in all rows, with it: mostly statistics say so, and nothing is grouped by them."""
    asked = ", ".join(f"min({name}), max({name}), count({name})" for name in columns)
    [(count, *found)] = rows.aggregate(f"count(*), {asked}").fetchall()
    bounds = zip(columns, found[::3], found[1::3], found[2::3], strict=True)
    return {name: low for name, low, high, known in bounds if low == high and known == count > 0}


def _with(rows: duckdb.DuckDBPyRelation, same: Mapping[str, str]) -> duckdb.DuckDBPyRelation:
    """Return rows with what they have in common as constants, about which a rule is judged once."""
    constants = [duckdb.ConstantExpression(value).alias(name) for name, value in same.items()]
    return rows.select(duckdb.StarExpression(exclude=list(same)), *constants) if same else rows


def _deciding(rows: duckdb.DuckDBPyRelation, table: str, same: Mapping[str, str]) -> pa.Table:
    found = rows.aggregate(
        f"""{_but(same, "namesrv_id", "source_file")} source_offset // 1000 AS thousand,
        [min(source_offset), max(source_offset), min_by(source_offset, event_time), max_by(source_offset, event_time)] AS offsets,
        [min_by(event_time, source_offset), max_by(event_time, source_offset), min(event_time), max(event_time)] AS instants"""
    )
    columns = (
        f"{_but(same, 'namesrv_id', 'source_file')} unnest(offsets) AS source_offset, unnest(instants) AS event_time"
    )
    return _of(found.project(columns).distinct(), DECIDING, {**same, "table": table})


def _connections(rows: duckdb.DuckDBPyRelation, table: str, same: Mapping[str, str]) -> pa.Table:
    if table == bronze.CHANNEL_EVENTS.name:
        return _of(rows.project("namesrv_id, channel_id, kind"), CONNECTIONS, {"table": table})
    return _of(rows.project(f"{_but(same, 'namesrv_id')} channel_id").distinct(), CONNECTIONS, {**same, "table": table})


def _by_namesrv(rows: duckdb.DuckDBPyRelation, connections: pa.Table) -> Iterator[tuple[str, duckdb.DuckDBPyRelation]]:
    """Yield the name servers of a file, and the rows of each."""
    names = pc.unique(connections["namesrv_id"]).to_pylist()
    for name in names:
        if name is not None:
            own = duckdb.ColumnExpression("namesrv_id") == duckdb.ConstantExpression(name)
            yield name, rows if len(names) == 1 else rows.filter(own)


def _topics(rows: duckdb.DuckDBPyRelation) -> pa.Table:
    return _of(rows.filter("topic_config_digest IS NOT NULL").project("topic_config_digest").distinct(), TOPICS, {})


def _but(same: Mapping[str, str], *columns: str) -> str:
    return "".join(f"{name}, " for name in columns if name not in same)


def _of(rows: duckdb.DuckDBPyRelation, schema: pa.Schema, same: Mapping[str, str]) -> pa.Table:
    """Return rows with the columns of `schema`: some have the `same` value in all rows, and others that are missing none."""
    found = rows.to_arrow_table()
    columns = [
        found[field.name].cast(field.type)
        if field.name in found.column_names
        else pa.repeat(pa.scalar(same.get(field.name), field.type), found.num_rows)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _by_table(rows: pa.Table, tables: Sequence[str]) -> dict[str, pa.Table]:
    return {name: rows.filter(pc.equal(rows["table"], name)) for name in tables}
