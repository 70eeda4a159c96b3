"""`history.duckdb` as somebody opens it who has DuckDB and nothing of ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from jobs.store.published import HISTORY


@contextmanager
def stock(warehouse: Path, zone: str = "UTC") -> Iterator[duckdb.DuckDBPyConnection]:
    """Open it from the folder of the warehouse, in a session of some time zone."""
    here = Path.cwd()
    os.chdir(warehouse)
    try:
        with duckdb.connect(HISTORY, read_only=True) as connection:
            connection.execute(f"SET TimeZone = '{zone}'")
            yield connection
    finally:
        os.chdir(here)


def run_of(warehouse: Path) -> str:
    with stock(warehouse) as connection:
        ((run_id,),) = connection.execute("SELECT run_id FROM files.run").fetchall()
    return str(run_id)
