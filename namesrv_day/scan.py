"""What one file of recorded events leaves for the gate: its rows judged one by one, and what tells of them all together.

The gate then looks at the connections and at the requests that decide, of all rows of a name server, whatever files they are in
(`judged`), and compares ids a part at a time (`namesrv_day.keys`) and what lies in order where it overlaps (`namesrv_day.runs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day import keys
from namesrv_day.rows import with_microseconds
from namesrv_day.rules import Measurement, counted, measure, measured, row_rules
from namesrv_day.runs import POSITIONS, Numbers, Run, rises, run_of
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


Columns = Callable[[Sequence[str]], pa.Table]
"""Gives some columns of the rows of a file, in the order in which they lie."""


@dataclass(frozen=True)
class Scan:
    """What a file leaves: `measured` are its rules of single rows; `ids` are `keys.PARTS`; `runs` tell what lies in order."""

    measured: list[Measurement]
    connections: pa.Table
    deciding: pa.Table
    topics: pa.Table
    ids: pa.Table
    runs: list[Run]


def scanned(rows: duckdb.DuckDBPyRelation, columns: Columns, table: str, parts: int = 1) -> Scan:
    """Return what `rows` leave, which are a file of `table`, one of `bronze.RECORDED_TABLES`. Ids are cut into `parts`.

    `rows` are read several times, a few columns at a time: give what DuckDB reads itself. `columns`: of the same rows.
    """
    same = _same(rows, ("namesrv_id", "source_file", *(["namesrv_addr"] if table in keys.TIMED else [])))
    ids, lying = keys.ids_of(rows, table), _lying(columns, table)
    runs = [*_runs(POSITIONS, rows, same, lying)] if table in _EVENTS else []
    if table in keys.TIMED:
        runs += _timed(rows, table, same, {} if len(ids.prints) else lying)
    return Scan(
        _rows_measured(_with(rows, same), table, ids),
        _connections(rows, table, same),
        _deciding(rows, table, same, lying) if table in REQUESTS else DECIDING.empty_table(),
        _topics(rows) if table == bronze.REGISTRATIONS.name else TOPICS.empty_table(),
        keys.parts_of_ids(table, ids, parts),
        runs,
    )


def _lying(columns: Columns, table: str) -> dict[str, Numbers]:
    """Return the numbers of a file's rows in the order in which they lie, instants in microseconds; not those that may be NULL."""
    wanted = {"seq"} if table in _EVENTS else set()
    wanted |= {"event_time", "source_offset"} if table in REQUESTS else set()
    wanted |= {keys.TIMED[table]} if table in keys.TIMED else set()
    found = with_microseconds(columns(sorted(wanted))) if wanted else pa.table({})
    return {name: found[name].to_numpy() for name in found.column_names if not found[name].null_count}


def _timed(
    rows: duckdb.DuckDBPyRelation, table: str, same: Mapping[str, str], lying: Mapping[str, Numbers]
) -> Iterator[Run]:
    """Yield the runs of rows from which their ids follow; whether those of one microsecond are copies is seen here."""
    for run in _runs(table, rows, same, lying):
        ids = keys.ids_with(_of(rows, table, run.owner), table, _unsigned(run.repeated)) if run.repeated else []
        yield run if len(set(ids)) < len(ids) else run._replace(repeated=())


RUNS = {POSITIONS: ("namesrv_id", "seq"), **{table: ("namesrv_addr", time) for table, time in keys.TIMED.items()}}
"""The columns of a run's owner and of its keys, by its kind."""


def _runs(
    kind: str, rows: duckdb.DuckDBPyRelation, same: Mapping[str, str], lying: Mapping[str, Numbers]
) -> Iterator[Run]:
    owner, key = RUNS[kind]
    if key in lying and owner in same:
        yield run_of(kind, same[owner], lying[key])
        return
    for (name,) in rows.unique(owner).fetchall():
        number = key if kind == POSITIONS else f"epoch_us({key})"
        found = _of(rows, kind, name).filter(f"{key} IS NOT NULL").project(f"{number} AS number").to_arrow_table()
        if found.num_rows and (name is not None or kind != POSITIONS):
            yield run_of(kind, name, found["number"].to_numpy())


def _of(rows: duckdb.DuckDBPyRelation, kind: str, owner: str | None) -> duckdb.DuckDBPyRelation:
    """Return the rows whose keys are of a run's owner."""
    column = duckdb.ColumnExpression(RUNS[kind][0])
    own = rows.filter(column.isnull() if owner is None else column == duckdb.ConstantExpression(owner))
    return own if kind == POSITIONS else own.filter(keys.FOLLOWS)


def _unsigned(numbers: Sequence[int]) -> keys.Numbers:
    return np.array(numbers, np.int64).view(np.uint64)


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


def _rows_measured(rows: duckdb.DuckDBPyRelation, table: str, ids: keys.Ids) -> list[Measurement]:
    rules = row_rules(table)
    # An id that follows from a row is there, and has its form: it is not made for it.
    judged_rows = rows.select(duckdb.StarExpression(exclude=["event_id"]), _AN_ID) if table in keys.TIMED else rows
    found = counted(judged_rows, table, [rule for rule in rules if rule.name != keys.FORM])
    count = found[0].rows
    for rule in (rule for rule in rules if rule.name == keys.FORM):
        are_all = ids.are_digests and (table in keys.TIMED or len(ids.prints) == count)
        found += [measured(table, rule, count, 0)] if are_all else counted(rows, table, [rule])
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


def _deciding(
    rows: duckdb.DuckDBPyRelation, table: str, same: Mapping[str, str], lying: Mapping[str, Numbers]
) -> pa.Table:
    if {"namesrv_id", "source_file"} <= same.keys() and {"source_offset", "event_time"} <= lying.keys():
        offsets, instants = lying["source_offset"], lying["event_time"]
        if rises(offsets) and rises(instants):
            thousands = offsets // 1000
            begins = np.flatnonzero(thousands[1:] != thousands[:-1]) + 1
            at = np.unique(np.concatenate([[0], begins, begins - 1, [len(offsets) - 1]]))
            return _shaped(
                pa.table({"source_offset": offsets[at], "event_time": instants[at]}), DECIDING, {**same, "table": table}
            )
    found = rows.aggregate(
        f"""{_but(same, "namesrv_id", "source_file")} source_offset // 1000 AS thousand,
        [min(source_offset), max(source_offset), min_by(source_offset, event_time), max_by(source_offset, event_time)] AS offsets,
        [min_by(event_time, source_offset), max_by(event_time, source_offset), min(event_time), max(event_time)] AS instants"""
    )
    columns = (
        f"{_but(same, 'namesrv_id', 'source_file')} unnest(offsets) AS source_offset, unnest(instants) AS event_time"
    )
    return _shaped(found.project(columns).distinct().to_arrow_table(), DECIDING, {**same, "table": table})


def _connections(rows: duckdb.DuckDBPyRelation, table: str, same: Mapping[str, str]) -> pa.Table:
    if table == bronze.CHANNEL_EVENTS.name:
        return _shaped(rows.project("namesrv_id, channel_id, kind").to_arrow_table(), CONNECTIONS, {"table": table})
    found = rows.project(f"{_but(same, 'namesrv_id')} channel_id").distinct().to_arrow_table()
    return _shaped(found, CONNECTIONS, {**same, "table": table})


def _topics(rows: duckdb.DuckDBPyRelation) -> pa.Table:
    named = rows.filter("topic_config_digest IS NOT NULL").project("topic_config_digest").distinct()
    return _shaped(named.to_arrow_table(), TOPICS, {})


def _but(same: Mapping[str, str], *columns: str) -> str:
    return "".join(f"{name}, " for name in columns if name not in same)


def _shaped(found: pa.Table, schema: pa.Schema, same: Mapping[str, str]) -> pa.Table:
    """Return rows with the columns of `schema`: some have the `same` value in all rows, and others that are missing none."""
    columns = [
        found[field.name].cast(field.type)
        if field.name in found.column_names
        else pa.repeat(pa.scalar(same.get(field.name), field.type), found.num_rows)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _by_table(rows: pa.Table, tables: Sequence[str]) -> dict[str, pa.Table]:
    return {name: rows.filter(pc.equal(rows["table"], name)) for name in tables}
