"""What one file of recorded events leaves for the gate: its rows judged one by one, and what tells of them all together.

The gate then looks at the connections and at the requests that decide, of all rows of a name server, whatever files they are in
(`judged`), and compares ids a part at a time (`keys`) and what lies in order where it overlaps (`runs`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day.arrow.digest import APART, SUMS, hash_of, said_by
from namesrv_day.arrow.rows import with_microseconds
from namesrv_day.arrow.sql import connection
from namesrv_day.gate import keys
from namesrv_day.gate.rules import Measurement, breaks, counted, counts_sql, measure, measured, row_rules, samples, told
from namesrv_day.gate.runs import POSITIONS, Numbers, Run, rises, run_of
from namesrv_day.hours.condense import NOTHING, VERSION, VERSION_OF, Same, equal_beats
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
_COLUMNS = {table.name: table.column_names for table in bronze.TABLES}
_WORD = re.compile(r"\w+")
_NO_LEASES = pa.schema([("namesrv_id", STRING), ("broker_addr", STRING), ("slot_us", LONG)]).empty_table()
_EVENTS = frozenset(table.name for table in bronze.EVENT_TABLES)
_RECORDED = tuple(table.name for table in bronze.RECORDED_TABLES)


Columns = Callable[[Sequence[str]], pa.Table]
"""Gives some columns of the rows of a file, in the order in which they lie."""


@dataclass(frozen=True)
class Scan:
    """What a file leaves: `measured` are its rules of single rows; `ids` are `keys.PARTS`; `runs` tell what lies in order.

    Of beats there are those that are `equal` in one bucket, one row each (`condense.equal_beats`), with their `digest.SUMS`.
    """

    measured: list[Measurement]
    connections: pa.Table
    deciding: pa.Table
    topics: pa.Table
    ids: pa.Table
    runs: list[Run]
    equal: pa.Table | None


def scanned(
    rows: duckdb.DuckDBPyRelation,
    columns: Columns,
    table: str,
    parts: int = 1,
    same: Same = NOTHING,
    leases: pa.Table | None = None,
) -> Scan:
    """Return what `rows` leave, which are a file of `table`, one of `bronze.RECORDED_TABLES`. Ids are cut into `parts`.

    `rows` are read several times, a few columns at a time: give what DuckDB reads itself. `columns`: of the same rows; `same`:
    what is known to be the same in all of them; `leases`, of beats: as `condense.hours_from` has them.
    """
    has_none = table in keys.TIMED and same.get("stated_id", "unknown") is None
    ids, lying = keys.NO_IDS if has_none else keys.ids_of(rows, table), _lying(columns, table)
    equal = _equal(rows, table, same, leases) if table in APART else None
    said = rows if equal is None else connection().from_arrow(equal)
    same = {name: value for name, value in same.items() if value is not None}
    runs = [*_runs(POSITIONS, rows, same, lying)] if table in _EVENTS else []
    if table in keys.TIMED:
        runs += _timed(rows, table, same, {} if len(ids.prints) else lying)
    return Scan(
        _rows_measured(rows, table, ids, equal),
        _connections(said, table, same),
        _deciding(rows, table, same, lying) if table in REQUESTS else DECIDING.empty_table(),
        _topics(said) if table == bronze.REGISTRATIONS.name else TOPICS.empty_table(),
        keys.parts_of_ids(table, ids, parts),
        runs,
        equal,
    )


def _lying(columns: Columns, table: str) -> dict[str, Numbers]:
    """Return the numbers of a file's rows in the order in which they lie, instants in microseconds; not those that may be NULL."""
    wanted = {"seq"} if table in _EVENTS else set()
    wanted |= {"event_time", "source_offset"} if table in REQUESTS else set()
    wanted |= {keys.TIMED[table]} if table in keys.TIMED else set()
    found = with_microseconds(columns(sorted(wanted))) if wanted else pa.table({})
    return {name: found[name].to_numpy() for name in found.column_names if not found[name].null_count}


def _timed(rows: duckdb.DuckDBPyRelation, table: str, same: Same, lying: Mapping[str, Numbers]) -> Iterator[Run]:
    """Yield the runs of rows from which their ids follow; whether those of one microsecond are copies is seen here."""
    for run in _runs(table, rows, same, lying):
        ids = keys.ids_with(_of(rows, table, run.owner), table, _unsigned(run.repeated)) if run.repeated else []
        yield run if len(set(ids)) < len(ids) else run._replace(repeated=())


RUNS = {POSITIONS: ("namesrv_id", "seq"), **{table: ("namesrv_addr", time) for table, time in keys.TIMED.items()}}
"""The columns of a run's owner and of its keys, by its kind."""


def _runs(kind: str, rows: duckdb.DuckDBPyRelation, same: Same, lying: Mapping[str, Numbers]) -> Iterator[Run]:
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


def _rows_measured(
    rows: duckdb.DuckDBPyRelation, table: str, ids: keys.Ids, equal: pa.Table | None
) -> list[Measurement]:
    rules = _rules(table)
    if equal is None:
        [counts] = _named(rows, table).aggregate(counts_sql(rules)).fetchall()
    else:
        counts = _counts(rows, table, equal)
    found = told(counts, partial(samples, rows, table), table, rules)
    count = found[0].rows
    for rule in (rule for rule in row_rules(table) if rule.name == keys.FORM):
        are_all = ids.are_digests and (table in keys.TIMED or len(ids.prints) == count)
        found += [measured(table, rule, count, 0)] if are_all else counted(rows, table, [rule])
    return found


def _rules(table: str) -> list[Rule]:
    """Return the rules of single rows but that of the form of ids, which is judged where these are read."""
    return [rule for rule in row_rules(table) if rule.name != keys.FORM]


def _named(rows: duckdb.DuckDBPyRelation, table: str) -> duckdb.DuckDBPyRelation:
    # An id that follows from a row is there, and has its form: it is not made for it.
    return rows.select(duckdb.StarExpression(exclude=["event_id"]), _AN_ID) if table in keys.TIMED else rows


# -- beats: equal ones are judged together -----------------------------------------------------------------------------


def _equal(rows: duckdb.DuckDBPyRelation, table: str, same: Same, leases: pa.Table | None) -> pa.Table:
    """Return the beats that are `equal`, with the number of those that break a rule about what they are not equal in."""
    said = {name: name for name in said_by(table) if name not in ("namesrv_id", VERSION_OF)}
    sums = {"broken": f"count_if({' OR '.join(map(breaks, _single(table)))})"}
    hashed = _named(rows, table).project(f"*, {hash_of(APART[table])} AS h")
    given = _NO_LEASES if leases is None else leases
    found = equal_beats(hashed, {**said, "has_version": f"{VERSION_OF} IS NOT NULL"}, given, same, {**sums, **SUMS})
    parts = [_flat(found[name]) for name in VERSION]
    versions = pa.StructArray.from_arrays(parts, list(VERSION.values()), mask=pc.invert(_flat(found["has_version"])))
    return found.append_column(VERSION_OF, versions).append_column("n", found["beats"])


def _single(table: str) -> list[Rule]:
    """Return the rules that must be judged of each row: equal ones may differ in what they are about."""
    said = {*said_by(table)}
    others = {*_COLUMNS[table]} - said
    return [rule for rule in _rules(table) if not others.isdisjoint(_WORD.findall(rule.holds))]


def _counts(rows: duckdb.DuckDBPyRelation, table: str, equal: pa.Table) -> list[int]:
    """Return how many `rows` of beats there are, and how many break each rule; single ones are looked at again if one does."""
    single, rules = _single(table), _rules(table)
    alike = [rule for rule in rules if rule not in single]
    sums = ("n", "broken", *(f"if({breaks(rule)}, n, 0)" for rule in alike))
    total = ", ".join(f"CAST(coalesce(sum({sql}), 0) AS BIGINT)" for sql in sums)
    [(count, broken, *of_alike)] = connection().from_arrow(equal).aggregate(total).fetchall()
    found = dict(zip((rule.name for rule in alike), of_alike, strict=True))
    if broken:
        [(_, *of_single)] = _named(rows, table).aggregate(counts_sql(single)).fetchall()
        found |= zip((rule.name for rule in single), of_single, strict=True)
    return [count, *(found.get(rule.name, 0) for rule in rules)]


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()


# -- what is told of all rows together -----------------------------------------------------------------------------------


def _deciding(rows: duckdb.DuckDBPyRelation, table: str, same: Same, lying: Mapping[str, Numbers]) -> pa.Table:
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


def _connections(rows: duckdb.DuckDBPyRelation, table: str, same: Same) -> pa.Table:
    if table == bronze.CHANNEL_EVENTS.name:
        return _shaped(rows.project("namesrv_id, channel_id, kind").to_arrow_table(), CONNECTIONS, {"table": table})
    found = rows.project(f"{_but(same, 'namesrv_id')} channel_id").distinct().to_arrow_table()
    return _shaped(found, CONNECTIONS, {**same, "table": table})


def _topics(rows: duckdb.DuckDBPyRelation) -> pa.Table:
    named = rows.filter("topic_config_digest IS NOT NULL").project("topic_config_digest").distinct()
    return _shaped(named.to_arrow_table(), TOPICS, {})


def _but(same: Same, *columns: str) -> str:
    return "".join(f"{name}, " for name in columns if name not in same)


def _shaped(found: pa.Table, schema: pa.Schema, same: Same) -> pa.Table:
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
