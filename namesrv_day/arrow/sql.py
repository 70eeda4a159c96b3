"""SQL over Arrow tables, run by DuckDB in this process."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
from duckdb import ConstantExpression as Constant

Tables = Mapping[str, pa.Table]
_local = threading.local()
# Up to this many rows, any plan without a nested-loop join is fast enough. For more, a good plan depends on table sizes.
_FEW = 100_000
# DuckDB plans an ASOF join of tables of unknown size as a loop.
_FEW_IN_ORDER = 2_000
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
def apart(**settings: str) -> Iterator[None]:
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
        return _asked_once(query, given, values)
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
    said = _VALUE.sub(lambda name: str(Constant(values[name[1]])), query)
    key = query, tuple((name, table.schema) for name, table in tables.items()), said
    plan = plans.pop(key, None)
    if plan is None:
        plan, others = _Planned(said, tables), [of for of in plans if of[:2] == key[:2]]
        # Drop the least recently used: mostly those of earlier days.
        for old in others[: max(0, len(others) + 1 - _MOST_OF_ONE)]:
            del plans[old]
        if len(plans) >= _MOST_PLANNED:
            plans.pop(next(iter(plans)))
    plans[key] = plan
    return plan


def _has_text(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and any(map(_has_text, value)))


def _asked_once(query: str, tables: Tables, values: Mapping[str, Any]) -> pa.Table:
    con = connection()
    for name, table in tables.items():
        con.register(name, table)
    try:
        return con.execute(query, values or None).to_arrow_table()
    finally:
        for name in tables:
            con.unregister(name)
