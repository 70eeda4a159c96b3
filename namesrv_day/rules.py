"""Counting the rules of `schemas.table`: how many rows of Arrow tables, or of data files, break each."""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, reduce

import duckdb
import numpy as np
import pyarrow as pa

from namesrv_day.arrow import Rows, ask, connection
from schemas import bronze
from schemas.rules import RULES, TABLES
from schemas.table import Kind, Rule, Severity

SAMPLES = 3
SAMPLE_CHARS = 300


@dataclass(frozen=True, slots=True)
class Measurement:
    """One rule counted on one table.

    `rows` were checked (of the table, or of the rule's query), `broken` of them break the rule, and `sample` shows a few
    of those as JSON. `missing`: tables that the rule reads but that were not given; nothing was counted then.
    """

    table: str
    rule: str
    severity: Severity
    kind: Kind
    says: str
    rows: int | None
    broken: int | None
    sample: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def measured(
    table: str,
    rule: Rule,
    rows: int | None,
    broken: int | None,
    sample: Iterable[str] = (),
    missing: tuple[str, ...] = (),
) -> Measurement:
    """Return the measurement of `rule` on `table`."""
    return Measurement(table, rule.name, rule.severity, rule.kind, rule.says, rows, broken, tuple(sample), missing)


def measure(
    frames: Mapping[str, Rows],
    only: Collection[str] | None = None,
    days: Collection[dt.date] | None = None,
    which: Callable[[Rule], bool] = lambda _: True,
    part: tuple[int, int] = (0, 1),
) -> list[Measurement]:
    """Return a measurement for every rule of every table in `frames`, in the order of `RULES`.

    Rules may read other tables of `frames`. `only` restricts the checked tables, `days` the checked days (of rows that have
    one), `which` the rules. Frames that are relations (of this thread's `connection`) are read once for each query; DuckDB
    spills what exceeds its memory_limit. Of their keys, only those whose hash falls into `part` (number, count) are
    counted. Raises KeyError for a table without rules.
    """
    asked = {name: RULES[name] for name in (frames if only is None else only)}
    measurements: list[Measurement] = []
    for table in (name for name in RULES if name in asked):
        found: dict[str, Measurement] = {}
        passes: dict[str | None, list[Rule]] = {}
        for rule in filter(which, asked[table]):
            missing = tuple(name for name in rule.needs if name not in frames)
            # Rules check rows of the tables that they read; without such rows no query is needed.
            checked = [
                frames[name] for name in {table, *(() if rule.kind == "reference" else rule.needs)} & frames.keys()
            ]
            count = None if missing else 0
            found[rule.name] = measured(table, rule, count, count, missing=missing)
            if not missing and any(not isinstance(of, pa.Table) or of.num_rows for of in checked):
                passes.setdefault(rule.over, []).append(rule)
        for over, together in passes.items():
            read, others = {name: frames[name] for name in ((table,) if over is None else together[0].needs)}, 0
            if together[0].kind == "unique" and any(isinstance(of, duckdb.DuckDBPyRelation) for of in read.values()):
                read, others = _repeated(read, together[0], part)
            rows = f"FROM ({over or f'FROM {table}'}) AS checked"
            if days is not None and (over is None or _DAY.search(over)):
                # Passed as a table: days in the text would make each day's statement a new one to plan.
                read = {**read, "days": pa.table({"day": pa.array(sorted(days), pa.date32())})}
                rows += " WHERE day IN (SELECT day FROM days)"
            counts = ", ".join(["count(*)", *(f"count_if({breaks(rule)})" for rule in together)])
            total, *numbers = (number[0].as_py() for number in _asked(f"SELECT {counts} {rows}", read).columns)
            for rule, broken in zip(together, numbers, strict=True):
                sample = _samples(rows, read, table, rule) if broken else []
                found[rule.name] = measured(table, rule, total + others, broken or 0, sample)
        measurements += found.values()
    return measurements


def merged(parts: Iterable[Measurement], tables: Collection[str], rows: Mapping[str, int]) -> list[Measurement]:
    """Return one measurement for each rule of `tables`, in the order of `RULES`: the sum of what the parts counted.

    `rows`: number of rows of each table. If one part could not count a rule, the whole is not counted. A rule without any
    measurement had nothing to check; but if its table has rows, it was forgotten, and is returned as not counted.
    """
    found: dict[tuple[str, str], Measurement] = {}
    for part in parts:
        before = found.setdefault((part.table, part.rule), part)
        if before is part:
            continue
        missing = tuple(sorted({*before.missing, *part.missing}))
        found[part.table, part.rule] = replace(
            before,
            rows=None if missing else (before.rows or 0) + (part.rows or 0),
            broken=None if missing else (before.broken or 0) + (part.broken or 0),
            sample=() if missing else tuple(sorted({*before.sample, *part.sample})[:SAMPLES]),
            missing=missing,
        )
    return [
        found.get((name, rule.name))
        or (measured(name, rule, None, None, missing=(name,)) if rows.get(name) else measured(name, rule, 0, 0))
        for name in RULES
        if name in tables
        for rule in RULES[name]
    ]


def reasons(rows: pa.Table, table: str) -> pa.ChunkedArray:
    """Return for each row of `table` the names of the critical row rules that it breaks, in the order of `RULES`."""
    critical = [rule for rule in RULES[table] if rule.kind == "row" and rule.severity == "critical"]
    if not ask(f"SELECT count(*) FROM rows WHERE {' OR '.join(map(breaks, critical)) or 'FALSE'}", {"rows": rows})[0][
        0
    ].as_py():
        none = pa.array(np.zeros(len(rows) + 1, np.int32))
        return pa.chunked_array([pa.ListArray.from_arrays(none, pa.array([], pa.string()))])
    named = ", ".join(f"CASE WHEN {breaks(rule)} THEN '{rule.name}' END" for rule in critical)
    return ask(f"SELECT list_filter([{named}], lambda name: name IS NOT NULL) AS reasons FROM rows", {"rows": rows})[0]


@cache
def breaks(rule: Rule) -> str:
    """Return a SQL boolean, never NULL, that is true if a row breaks `rule`."""
    return f"NOT coalesce({rule.holds}, FALSE)"


_DAY = re.compile(r"\bday\b")
"""Found in the query of a rule whose rows have a day."""


def _repeated(read: Mapping[str, Rows], rule: Rule, part: tuple[int, int]) -> tuple[dict[str, Rows], int]:
    """Return the rows whose key may be repeated, since its hash is, and the number of others; for `part` of the hashes.

    Numbers are grouped several times as fast as texts, and derived ids need not be computed for it.
    """
    con, (number, parts) = connection(), part
    given = {name: con.from_arrow(rows) if isinstance(rows, pa.Table) else rows for name, rows in read.items()}
    hashed = {name: rows.project(f"*, {_key_hash(name, rule)} AS key_hash") for name, rows in given.items()}
    if parts > 1:
        hashed = {name: rows.filter(f"key_hash % {parts} = {number}") for name, rows in hashed.items()}
    hashes = reduce(duckdb.DuckDBPyRelation.union, (rows.project("key_hash") for rows in hashed.values()))
    copies = hashes.aggregate("key_hash, count(*) AS copies", "key_hash")
    found = copies.aggregate(
        "count(*) FILTER (copies = 1) AS others, list(key_hash) FILTER (copies > 1) AS hashes"
    ).to_arrow_table()
    others, repeated = found["others"][0].as_py(), found["hashes"].combine_chunks().flatten()
    if not len(repeated):
        return {name: TABLES[name].schema.empty_table() for name in read}, others
    known = con.from_arrow(pa.table({"key_hash": repeated}))
    return {name: rows.join(known, "key_hash", how="semi") for name, rows in hashed.items()}, others


def _key_hash(table: str, rule: Rule) -> str:
    """Return SQL for a hash of the key of `rule`."""
    if rule.key == TABLES[table].key and table in _TIMED:
        return f"if(stated_id IS NULL, hash(namesrv_addr, channel_id, code, {_TIMED[table]}, nth), hash(stated_id))"
    return f"hash({', '.join(rule.key)})"


_TIMED = {bronze.HEARTBEATS.name: "event_time", bronze.ROUTE_OBSERVATIONS.name: "effect_time"}
"""Tables whose ids are derived from other columns, with the instant that is one of these."""


def _asked(query: str, read: Mapping[str, Rows]) -> pa.Table:
    """Return the result of a statement over tables in memory or relations, by their names."""
    if all(isinstance(rows, pa.Table) for rows in read.values()):
        return ask(query, read)
    con = connection()
    for name, rows in read.items():
        (con.from_arrow(rows) if isinstance(rows, pa.Table) else rows).create_view(name, replace=True)
    try:
        return con.execute(query).to_arrow_table()
    finally:
        for name in read:
            con.execute(f"DROP VIEW {name}")


def _samples(rows: str, read: Mapping[str, Rows], table: str, rule: Rule) -> list[str]:
    """Return up to SAMPLES of the rows of a query that break `rule` of `table`, as JSON without line breaks.

    For rows of the table itself only the key is shown, for rows of the rule's own query all columns.
    """
    keys = ", ".join(f"'{name}': {name}" for name in TABLES[table].key)
    shown = f"substr(CAST(to_json({f'{{{keys}}}' if rule.over is None else 'checked'}) AS VARCHAR), 1, {SAMPLE_CHARS})"
    broken = f"SELECT {shown} AS sample FROM (SELECT * {rows}) AS checked WHERE {breaks(rule)} ORDER BY sample LIMIT {SAMPLES}"
    found: list[str] = _asked(broken, read)["sample"].to_pylist()
    return found
