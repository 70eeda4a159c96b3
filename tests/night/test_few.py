"""What a task reads of the files of its name server."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from jobs.night.opened import Files
from jobs.store.files import write_file
from namesrv_day.arrow.rows import table_of, with_derived
from schemas import bronze
from schemas.table import Table
from tests.day.plan_rows import DAY, VERSION, Row, row

ONE, OTHER = "10.0.0.9:9876", "10.0.0.8:9876"


@pytest.mark.parametrize("table", [bronze.HEARTBEATS, bronze.ROUTE_OBSERVATIONS], ids=lambda table: table.name)
@pytest.mark.parametrize("names", [[ONE], [ONE, OTHER]])
def test_few_rows_are_those_of_the_whole_files(tmp_path: Path, names: list[str], table: Table) -> None:
    """A join leaves the same rows, with their types, NULL, structs, day and derived ids, as the whole files give of its own."""
    root, files = str(tmp_path), []
    for first, given in ((0, names), (200, [ONE])):
        said: list[Row] = [
            {"namesrv_id": name, "data_version": version} for name in given for version in (VERSION, None)
        ]
        rows = [row(table.name, first + n, seq_rest=0, request_rest=0, **said[n % len(said)]) for n in range(100)]
        files.append(write_file(with_derived(table_of(rows, table), table), root, table, DAY, "part"))
    own = Files(root, {table.name: tuple(files)}).of(ONE)

    def every_third(rows: duckdb.DuckDBPyRelation) -> pa.Table:
        return rows.filter("seq // 1000000000 % 3 = 0").to_arrow_table()

    whole = own.ask(table, every_third)
    third = {"three": pa.table({"number": [3]})}
    few = own.few(table, table.column_names, "SEMI JOIN three ON seq // 1000000000 % number = 0", third)
    assert whole is not None
    assert few.num_rows > 0
    assert few.schema.names == whole.schema.names
    assert sorted(map(repr, few.to_pylist())) == sorted(map(repr, whole.to_pylist()))
    assert Files(root).of(ONE).few(table, ["seq"], "", {}).num_rows == 0
