"""Compare the bronze tables of two warehouses by content: `python -m tests.ingest.compare_bronze OLD NEW`.

Every row counts, with all that it says but which run read it, and from where. Prints for each table how many rows are equal and
how many only one of the two has; returns 1 if there are any. It reads with delta-rs alone, nothing of the code that it judges.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from namesrv_day.arrow.rows import conformed, empty
from schemas import bronze
from schemas.table import Table

_RUN = ("ingest_run", "fingerprint")


def compared(old: Path, new: Path) -> Iterator[tuple[str, int, int, int]]:
    """Yield for each bronze table its name, how many rows are equal, and how many only the old and only the new one has."""
    con = duckdb.connect(config={"threads": 1})
    for table in bronze.TABLES:
        con.register("old", rows_of(old, table))
        con.register("new", rows_of(new, table))
        count = "SELECT count(*) FROM (FROM {} EXCEPT ALL FROM {})"
        (both,) = con.sql("SELECT count(*) FROM (FROM old INTERSECT ALL FROM new)").fetchall()[0]
        (gone,) = con.sql(count.format("old", "new")).fetchall()[0]
        (come,) = con.sql(count.format("new", "old")).fetchall()[0]
        yield table.name, both, gone, come


def rows_of(warehouse: Path, table: Table) -> pa.Table:
    """Return what a table holds now, without the run and the fingerprints of files; nothing where it was never written."""
    path = warehouse / table.layer / table.name
    rows = empty(table)
    if DeltaTable.is_deltatable(str(path)):
        rows = conformed(DeltaTable(str(path)).to_pyarrow_table(), table)
    return rows.drop_columns([name for name in _RUN if name in rows.column_names])


def main(old: Path, new: Path) -> int:
    """Print the comparison; return 0 if all rows are equal."""
    differ = False
    for name, both, gone, come in compared(old, new):
        sys.stdout.write(f"{name:20} {both:>9,} equal {gone:>7,} only old {come:>7,} only new\n")
        differ = differ or gone + come > 0
    return int(differ)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
