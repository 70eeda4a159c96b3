"""Arrow tables: SQL over them, conversion from and to Python, digests that can be added.

DuckDB runs the SQL in this process. In Python, times are microseconds since the epoch (UTC). The digest of a table is the sum of
those of its slices, without reading it.
"""

# ruff: noqa: S608  the SQL is made of names of columns in this package

from __future__ import annotations

import datetime as dt
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from duckdb import ConstantExpression as Constant

from schemas import asked, gold
from schemas.table import Table

Tables = Mapping[str, pa.Table]
_local = threading.local()
# Up to this many rows, any plan without a nested-loop join is fast enough. For more, a good plan depends on table sizes.
_FEW = 100_000
# DuckDB plans an ASOF join of tables of unknown size as a loop; 1.5, the last for Python 3.10, fails at such a plan's second run.
_FEW_IN_ORDER = 2_000 if int(duckdb.__version__.split(".")[0]) > 1 else -1
_VALUE = re.compile(r"\$(\w+)")
# A run over one day asks some two hundred statements. A plan takes a third of a MiB, so few are kept per statement.
_MOST_PLANNED, _MOST_OF_ONE = 500, 2
# Results are fetched from the connection, as the warning advises against: a relation would bind the statement twice.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)


def connection() -> duckdb.DuckDBPyConnection:
    """Return this thread's database. It uses one thread, since a task has one core; times are UTC."""
    if not hasattr(_local, "connection"):
        _local.connection = duckdb.connect(config={"threads": 1})
        # Global, so that plans on cursors have them. Their table sizes are unknown, so never plan a nested-loop join.
        for setting in ("TimeZone = 'UTC'", "nested_loop_join_threshold = 0"):
            _local.connection.execute(f"SET GLOBAL {setting}")
    found: duckdb.DuckDBPyConnection = _local.connection
    return found


@contextmanager
def own_connection(**settings: str) -> Iterator[None]:
    """Use a separate database within the block. Closing it returns its memory to the system; a kept one holds on to much.

    `settings`: DuckDB's, such as memory_limit and temp_directory.
    """
    before = dict(_local.__dict__)
    _local.__dict__.clear()
    try:
        for name, value in settings.items():
            connection().execute(f"SET {name} = {Constant(value)}")
        yield
    finally:
        _local.__dict__.pop("plans", None)
        if (used := _local.__dict__.pop("connection", None)) is not None:
            used.close()
        _local.__dict__.update(before)


def ask(query: str, tables: Tables | None = None, **values: Any) -> pa.Table:
    """Return the result of `query` (one statement). It reads `tables` by their names, and `values` as `$name`.

    Over few rows, planning a statement takes longer than running it. Its plan is therefore kept and used again for tables
    with the same columns.
    """
    given = tables or {}
    # A plan contains its values as SQL, and texts must never become SQL.
    few = _FEW_IN_ORDER if "ASOF" in query else _FEW
    if sum(table.num_rows for table in given.values()) > few or any(map(_has_text, values.values())):
        con = connection()
        for name, table in given.items():
            con.register(name, table)
        try:
            return con.execute(query, values or None).to_arrow_table()
        finally:
            for name in given:
                con.unregister(name)
    return _planned(query, given, values).run(given)


class _Given:
    """A placeholder that a planned statement reads by its name; each run puts another table in it."""

    def __init__(self, table: pa.Table) -> None:
        self.table: pa.Table | None = table
        self.schema = table.schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self.table is not None, "a plan runs with all its tables"
        return self.table.__arrow_c_stream__(requested_schema)


class _Planned:
    """A planned statement on its own cursor, because DuckDB plans again when names on a connection change.

    Its values are part of its text, because DuckDB also plans again if a parameter is bound later.
    """

    def __init__(self, query: str, tables: Tables) -> None:
        self._con = connection().cursor()
        self._given = {name: _Given(table) for name, table in tables.items()}
        for name, given in self._given.items():
            self._con.register(name, given)
        self._con.execute(f"PREPARE asked AS {query}")
        self._of_nothing: pa.Table | None = None

    def run(self, tables: Tables) -> pa.Table:
        """Return the result of the statement. The result over tables without rows is computed only once."""
        if any(table.num_rows for table in tables.values()):
            return self._run(tables)
        if self._of_nothing is None:
            self._of_nothing = self._run(tables)
        return self._of_nothing

    def _run(self, tables: Tables) -> pa.Table:
        for name, given in self._given.items():
            given.table = tables[name]
        try:
            return self._con.execute("EXECUTE asked").to_arrow_table()
        finally:
            for given in self._given.values():
                given.table = None


def _planned(query: str, tables: Tables, values: Mapping[str, Any]) -> _Planned:
    """Return this thread's plan of a statement for tables with these columns, and with these values."""
    plans: dict[tuple[str, object, str], _Planned] = _local.__dict__.setdefault("plans", {})
    statement = _VALUE.sub(lambda name: str(Constant(values[name[1]])), query)
    key = query, tuple((name, table.schema) for name, table in tables.items()), statement
    plan = plans.pop(key, None)
    if plan is None:
        plan, others = _Planned(statement, tables), [of for of in plans if of[:2] == key[:2]]
        # Drop the least recently used: mostly those of earlier days.
        for old in others[: max(0, len(others) + 1 - _MOST_OF_ONE)]:
            del plans[old]
        if len(plans) >= _MOST_PLANNED:
            plans.pop(next(iter(plans)))
    plans[key] = plan
    return plan


def _has_text(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and any(map(_has_text, value)))


Row = Mapping[str, Any]
# As objects, rows take far more memory than as columns.
_ROWS_AT_A_TIME = 10_000


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as dicts by column name, converted in batches."""
    numbers = with_microseconds(table)
    for start in range(0, numbers.num_rows, _ROWS_AT_A_TIME):
        yield from numbers.slice(start, _ROWS_AT_A_TIME).to_pylist()


def with_microseconds(table: pa.Table) -> pa.Table:
    """Return the table with its instants as microseconds since the epoch."""
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            us = table.column(number).cast(pa.timestamp("us", tz=field.type.tz)).cast(pa.int64())
            table = table.set_column(number, field.name, us)
    return table


def table_of(rows: Iterable[Row], table: Table, **same: Any) -> pa.Table:
    """Return rows with the schema of `table`, without column comments; a column that a row lacks is NULL.

    `same`: columns with one value in all rows, such as `day`.
    """
    listed = [{**row, **same} for row in rows]
    return pa.Table.from_pylist(listed, schema=plain(table.schema))


def plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the same columns, nullable and without comments: constraints are checked only when written."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def conformed(rows: pa.Table, table: Table | pa.Schema, **same: Any) -> pa.Table:
    """Return `rows` with exactly the columns of `table`, in order and typed; a missing column becomes NULL.

    `same`: columns with one value in all rows.
    """
    for name, value in same.items():
        rows = rows.append_column(name, pa.repeat(pa.scalar(value), rows.num_rows))
    schema = table if isinstance(table, pa.Schema) else plain(table.schema)
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def with_columns(rows: pa.Table, **columns: pa.ChunkedArray | pa.Array) -> pa.Table:
    """Return rows, a table or a batch, with the values of existing columns replaced by others of the same types."""
    for name, values in columns.items():
        field = rows.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field, values.cast(field.type))
    return rows


def distinct(rows: pa.Table, columns: Sequence[str]) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Return the distinct values of `columns`, and for each row the number of its values in that table."""
    names = ", ".join(f'"{name}"' for name in columns)
    numbered, texts = rows.select(columns).unify_dictionaries(), dict[str, pa.Array]()
    for at, name in enumerate(columns):
        if pa.types.is_dictionary(numbered[name].type):  # equal texts have equal numbers
            once = numbered[name].combine_chunks()
            numbered, texts[name] = numbered.set_column(at, name, once.indices), once.dictionary
    numbered = numbered.append_column("row", pa.array(np.arange(rows.num_rows)))
    found = ask(f"SELECT {names}, list(row) AS rows FROM numbered GROUP BY {names}", {"numbered": numbered})
    places = found["rows"].combine_chunks()
    numbers = np.empty(rows.num_rows, dtype=np.int64)
    numbers[places.flatten().to_numpy()] = np.repeat(np.arange(found.num_rows), places.value_lengths().to_numpy())
    for name, once in texts.items():
        found = found.set_column(found.column_names.index(name), name, once.take(found[name].combine_chunks()))
    return found.drop_columns("rows"), numbers


def derived_of(table: Table) -> dict[str, str]:
    """Return the columns of `table` that are not stored, with the SQL that derives each."""
    return {column.name: asked.derived(table.name, column.name) for column in table.derived}


def with_derived(rows: pa.Table, table: Table) -> pa.Table:
    """Return rows with the columns of `table` that are derived instead of stored."""
    for name, sql in derived_of(table).items():
        made = ask(f"SELECT {sql} FROM rows", {"rows": rows})[0]
        at = rows.schema.get_field_index(name)
        rows = rows.append_column(name, made) if at < 0 else rows.set_column(at, name, made)
    return rows


def empty(table: Table) -> pa.Table:
    """Return `table` without rows."""
    return plain(table.schema).empty_table()


Rows: TypeAlias = "pa.Table | duckdb.DuckDBPyRelation"
"""Rows in memory, or rows that this thread's DuckDB reads on demand."""
_MASK = (1 << 64) - 1
_ROWS_NAME = ("event_id", "nth", "stated_id", "source_file", "source_offset", "ingest_run")
# Ids and sources differ in each of tens of millions of rows: hashing them takes as long as hashing all other columns.
LEFT_OUT: Final = {"heartbeats": _ROWS_NAME, "route_observations": (*_ROWS_NAME, "seq_rest", "request_rest")}
"""Columns, by table, that the digests of its slices do not cover."""
_ENDS = {table.name: table.span[1] for table in gold.INTERVAL_TABLES}
_WHEN = ("seq", "event_time", "effect_time")
VARYING: Final = {"heartbeats": _WHEN, "registrations": (*_WHEN, *_ROWS_NAME[:1], *_ROWS_NAME[3:])}
"""Columns, by table, that differ in each row while thousands of rows are equal in the others; they are hashed separately."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Number of rows, and the sum (mod 2^64) and exclusive-or of their 64-bit hashes: equal for equal rows in any order.

    Printed as `rows-sum-xor`, the last two as 16 hex digits.
    """

    rows: int = 0
    total: int = 0
    xor: int = 0

    @classmethod
    def parse(cls, text: str) -> Digest:
        """Return the digest printed as `text`. Raises ValueError for any other text."""
        rows, total, xor = text.split("-")
        return cls(int(rows), int(total, 16), int(xor, 16))

    def __str__(self) -> str:
        return f"{self.rows}-{self.total:016x}-{self.xor:016x}"

    def __add__(self, other: Digest) -> Digest:
        """Return the digest of the rows of both."""
        return Digest(self.rows + other.rows, (self.total + other.total) & _MASK, self.xor ^ other.xor)

    def __sub__(self, other: Digest) -> Digest:
        """Return the digest of the rows that remain without those of `other`."""
        return Digest(self.rows - other.rows, (self.total - other.total) & _MASK, self.xor ^ other.xor)


def sum_of(digests: Iterable[Digest]) -> Digest:
    """Return the digest of all rows together."""
    return sum(digests, Digest())


def digests_by(
    rows: Rows, *by: str, without: Iterable[str] = (), varying: Sequence[str] = ()
) -> dict[tuple[Any, ...], Digest]:
    """Return the digest of each group of rows with equal values in the columns `by`; `without`: columns left out.

    A row's hash is DuckDB's over its values in the order of the columns; a test pins it for each type. With `varying`, it
    combines two hashes (`joined`): one of these columns and one of the others.
    """
    if isinstance(rows, pa.Table) and not rows.num_rows:
        return {}
    columns = rows.column_names if isinstance(rows, pa.Table) else rows.columns
    common = [name for name in columns if name not in {*without, *varying}]
    of = {"h": hash_of(varying or common), **({"common": hash_of(common)} if varying else {})}
    keys = [f'"{name}"' for name in by] + [name for name in of if name != "h"]
    hashed = ", ".join([*(f'"{name}"' for name in by), *(f"{sql} AS {name}" for name, sql in of.items())])
    sums = ", ".join([*keys, "count(*) AS n", *(f"{sql} AS {name}" for name, sql in SUMS.items())])
    if isinstance(rows, pa.Table):
        grouped = f"GROUP BY {', '.join(keys)}" if keys else ""
        found = ask(f"SELECT {sums} FROM (SELECT {hashed} FROM rows) {grouped}", {"rows": rows})
    else:
        found = rows.project(hashed).aggregate(sums, ", ".join(keys)).to_arrow_table()
    return joined(found, *by) if varying else _digests(found, *by)


SUMS: Final = {"total": "CAST(sum(h) % 18446744073709551616 AS UBIGINT)", "x": "bit_xor(h)"}
"""Aggregates of hashes `h`: SQL by column."""


def joined(found: pa.Table, *by: str) -> dict[tuple[Any, ...], Digest]:
    """Return digests from the `SUMS` of groups of rows that are equal except for the columns `VARYING`.

    `found`: columns `by`; `common`, the hash of the columns that are equal in `n` rows; `total` and `x` of the hashes of the
    others. A row counts with the product of its two hashes (the first made odd) in the sum, else with their exclusive-or.
    """
    common, n, total, x = (found[name].to_numpy() for name in ("common", "n", "total", "x"))
    products = (common << np.uint64(1) | np.uint64(1)) * total
    hashes = {"n": n, "h": products, "x": x ^ np.where(n % 2, common, np.uint64(0))}
    keys = [f'"{name}"' for name in by]
    sums = [*keys, "CAST(sum(n) AS BIGINT) AS n", f"{SUMS['total']} AS total", "bit_xor(x) AS x"]
    rows = pa.table({**{name: found[name] for name in by}, **hashes})
    grouped = f"GROUP BY {', '.join(keys)}" if keys else ""
    return _digests(ask(f"SELECT {', '.join(sums)} FROM rows {grouped}", {"rows": rows}), *by)


def _digests(found: pa.Table, *by: str) -> dict[tuple[Any, ...], Digest]:
    return {
        tuple(row[name] for name in by): Digest(row["n"], row["total"] or 0, row["x"] or 0)
        for row in found.to_pylist()
        if row["n"]
    }


def hash_of(columns: Iterable[str]) -> str:
    """Return SQL for the hash of columns."""
    return "hash({})".format(", ".join(f'"{name}"' for name in columns))


class Slice(NamedTuple):
    """The rows of a table for one name server on one day; for quarantine the name server may be unknown.

    For intervals: those that closed on the day; `day` None: those that are open.
    """

    table: str
    day: dt.date | None
    namesrv_id: str | None


def slices_of(table: str, rows: Rows) -> dict[Slice, Digest]:
    """Return the digest of each slice in rows of `table`, as in the ledger; digests of parts of a slice can be added."""
    if table in _ENDS:
        if isinstance(rows, pa.Table):
            closed = rows.append_column("day", pc.cast(rows[_ENDS[table]], pa.date32()))
        else:
            closed = rows.project(f"*, CAST({_ENDS[table]} AS DATE) AS day")
        found = digests_by(closed, "day", "namesrv_id", without=["day"])
        return {Slice(table, *key): digest for key, digest in found.items()}
    varying = VARYING.get(table, ())
    found = digests_by(rows, "day", "namesrv_id", without=LEFT_OUT.get(table, ()), varying=varying)
    return {Slice(table, *key): digest for key, digest in found.items()}
