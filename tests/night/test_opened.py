"""What a task opens of the files of its name server, and which name servers' days are one task."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from jobs.night.night import grouped
from jobs.night.replaying import Files
from jobs.store.files import write_file
from namesrv_day.arrow import table_of, with_derived
from schemas import bronze
from schemas.table import Table
from tests.day import plan_rows
from tests.day.plan_rows import VERSION, Row, row
from tests.store.tiny import DAY, EXPIRED, ONE, TWO, removal, warehouse_at, write


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Return files of one name server, of the other, and of both."""
    warehouse = warehouse_at(tmp_path)
    rows = [(("a", ONE), ("b", ONE)), (("c", TWO),), (("d", ONE), ("e", TWO))]
    written = (write(warehouse, EXPIRED, DAY, *(removal(name, of) for name, of in some)) for some in rows)
    return Files(warehouse.path, {EXPIRED.name: tuple(written)})


def names(rows: pa.Table) -> list[str]:
    found: list[str] = rows["broker_name"].to_pylist()
    return found


def test_rows_are_one_name_server_s_whatever_files_they_are_in(files: Files) -> None:
    """In the order of the files; a file of nobody else need not say whose its rows are."""
    assert names(files.of(ONE).rows(EXPIRED)) == ["a", "b", "d"]
    assert names(files.of(TWO).rows(EXPIRED, ["broker_name"])) == ["c", "e"]
    assert names(files.of(TWO).rows(EXPIRED, ["broker_name"], pa.compute.field("broker_name") > "c")) == ["e"]
    assert (
        files.of("10.0.0.3:9876").rows(EXPIRED, ["broker_name"]).schema
        == files.of(ONE).rows(EXPIRED, ["broker_name"]).schema
    )


@pytest.mark.parametrize("table", [bronze.HEARTBEATS, bronze.ROUTE_OBSERVATIONS], ids=lambda table: table.name)
@pytest.mark.parametrize("names", [[ONE], [ONE, TWO]])
def test_few_rows_are_those_of_the_whole_files(tmp_path: Path, names: list[str], table: Table) -> None:
    """A join leaves the same rows, with their types, NULL, structs, day and derived ids, as the whole files give of its own."""
    root, files = str(tmp_path), []
    for first, given in ((0, names), (200, [ONE])):
        said: list[Row] = [
            {"namesrv_id": name, "data_version": version} for name in given for version in (VERSION, None)
        ]
        rows = [row(table.name, first + n, seq_rest=0, request_rest=0, **said[n % len(said)]) for n in range(100)]
        files.append(write_file(with_derived(table_of(rows, table), table), root, table, plan_rows.DAY, "part"))
    own = Files(root, {table.name: tuple(files)}).of(ONE)

    def every_third(rows: duckdb.DuckDBPyRelation) -> pa.Table:
        return rows.filter("seq // 1000000000 % 3 = 0").to_arrow_table()

    with own.reading(table) as found:
        whole = every_third(found)
    third = {"three": pa.table({"number": [3]})}
    few = own.few(table, table.column_names, "SEMI JOIN three ON seq // 1000000000 % number = 0", third)

    assert few.num_rows > 0
    assert few.schema.names == whole.schema.names
    assert sorted(map(repr, few.to_pylist())) == sorted(map(repr, whole.to_pylist()))
    assert Files(root).of(ONE).few(table, ["seq"], "", {}).num_rows == 0


@pytest.mark.parametrize(
    ("rows", "width", "groups"),
    [
        ([], 2, []),
        ([0], 4, [[0]]),
        ([14] * 13, 1, [[*range(13)]]),
        ([14] * 13, 2, [[*range(7)], [*range(7, 13)]]),
        ([500_000, *[20] * 13], 2, [[0], [*range(1, 14)]]),
        ([500_000, 500_000], 1, [[0], [1]]),
        ([15_000] * 4, 1, [[0], [1], [2], [3]]),
        ([5_000] * 6, 1, [[0, 1, 2], [3, 4, 5]]),
    ],
)
def test_small_days_are_one_task(rows: list[int], width: int, groups: list[list[int]]) -> None:
    """As many tasks as run at once share them evenly; no group has more rows than a task is worth, but for its last day."""
    assert grouped(enumerate(rows), width) == [tuple(group) for group in groups]
