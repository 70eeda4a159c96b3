"""Set logic over Arrow tables: SQL that DuckDB runs in this process."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

Tables = Mapping[str, pa.Table]
_local = threading.local()


def connection() -> duckdb.DuckDBPyConnection:
    """Return this thread's database: one thread, as a task has one core; times are UTC."""
    if not hasattr(_local, "connection"):
        _local.connection = duckdb.connect(config={"threads": 1})
        _local.connection.execute("SET TimeZone = 'UTC'")
    found: duckdb.DuckDBPyConnection = _local.connection
    return found


def ask(query: str, tables: Tables | None = None, **values: Any) -> pa.Table:
    """Return what `query` (one statement) gives. It reads `tables` by their names, and `values` as `$name`."""
    con = connection()
    given = tables or {}
    for name, table in given.items():
        con.register(name, table)
    try:
        return con.sql(query, params=values or None).to_arrow_table()
    finally:
        for name in given:
            con.unregister(name)
