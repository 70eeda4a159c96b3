"""What footers prove of a file is true of each of its rows, and need not be read."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.errors import TamperedError
from jobs.store.files import write_file
from jobs.store.places import table_path
from jobs.store.relations import ask_files, few_of, same_in
from namesrv_day.arrow.rows import table_of, with_derived
from schemas import bronze
from schemas.table import Table
from tests.day.plan_rows import DAY, VERSION, row

DRAWN: dict[str, list[Any]] = {
    "namesrv_id": ["10.0.0.9:9876", "10.0.0.8:9876"],
    "channel_id": ["1:1#1", "1:1#2", None],
    "broker_addr": ["1:1", "2:1", None, ""],
    "response_code": [0, None],
    "response_remark": [None, "text"],
    "one_way": [False, True],
    "source_file": ["a.pcap", "b/c.pcap"],
    "stated_id": [None, "0" * 32],
    "data_version": [VERSION, None, dict.fromkeys(VERSION), {**VERSION, "counter": None}],
    "filter_servers": [None, [], ["f"]],
    "source_offset": [1, 0],
}
SAME: dict[str, Any] = {
    "code": 322, "request_version": 407, "nth": 0, "ingest_run": "run", "namesrv_addr": "10.0.0.9:9876", "compressed": False,
}  # fmt: skip


def drawn(table: Table, seed: int, varying: int) -> pa.Table:
    """Return 200 beats that differ in some columns, and no others."""
    draw = random.Random(seed)
    columns = draw.sample(sorted(DRAWN), varying)
    first = {name: draw.choice(values) for name, values in DRAWN.items()}
    rows = []
    for n in range(200):
        values = {**first, **{name: draw.choice(DRAWN[name]) for name in columns}}
        late = row(table.name, draw.randrange(86_400), lag_us=draw.choice([0, 5, -5]), **SAME, **values)
        rows.append({**late, "seq": late["seq"] + draw.choice([0, n, 2_000_000_000]), "event_id": f"{n:032x}"})
    return with_derived(table_of(rows, table), table)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_the_same_in_a_file_is_the_same_in_each_row(tmp_path: Path, seed: int) -> None:
    """Every value that the footer proves is that of all rows, and all that is one value in all rows is proven."""
    table, root = bronze.HEARTBEATS, str(tmp_path)
    given = drawn(table, seed, seed % 8)
    found = same_in(root, table, write_file(given, root, table, DAY, "part"))
    version = given["data_version"].combine_chunks()
    columns = {name: given[name] for name in table.stored_schema.names if name != "data_version"}
    columns |= {f"data_version.{part}": pc.struct_field(version, part) for part in VERSION}
    for name, column in columns.items():
        values = pc.unique(column).to_pylist()
        assert (name in found) == (len(values) == 1 and name not in ("seq", "event_time", "effect_time")), name
        assert found.get(name, values[0]) == values[0]
    if "data_version IS NOT NULL" in found:
        assert not version.null_count


@pytest.mark.parametrize("seed", range(12))
def test_few_rows_of_files_are_those_of_the_whole_files(tmp_path: Path, seed: int) -> None:
    """What the footers of all files prove is not read, and is in the rows all the same: with its type, NULL and structs, too."""
    table, root = bronze.HEARTBEATS, str(tmp_path)
    # Two files whose rows agree in some columns, each, and not with each other.
    files = [write_file(drawn(table, seed + n, seed % 5), root, table, DAY, "part") for n in (0, seed % 3)]
    names = [name for name in table.stored_schema.names if name != "event_id"]

    def every_third(rows: duckdb.DuckDBPyRelation) -> pa.Table:
        return rows.filter("seq % 3 = 0").project(", ".join(names)).to_arrow_table()

    whole = ask_files(root, table, files, every_third)
    few = few_of(root, table, files, names, "WHERE seq % 3 = $rest", {}, rest=0)
    assert few.num_rows > 0
    assert few.schema == whole.schema
    assert few.to_pylist() == whole.to_pylist()
    three = {"three": pa.table({"number": [3]})}
    joined = few_of(root, table, files, names, "SEMI JOIN three ON seq % number = 0", three)
    assert sorted(map(repr, joined.to_pylist())) == sorted(map(repr, whole.to_pylist()))  # a join keeps no order


def test_footers_of_others_prove_nothing(tmp_path: Path) -> None:
    """Least and greatest values may be cut short there; only the folder's day is known. A file that is none is named."""
    table, root = bronze.HEARTBEATS, str(tmp_path)
    file = write_file(drawn(table, 0, 0), root, table, DAY, "part")
    whole = Path(table_path(root, table)) / file.path
    rewritten = whole.with_name("other.parquet")
    duckdb.sql(f"COPY (FROM read_parquet('{whole}', hive_partitioning=false)) TO '{rewritten}' (FORMAT parquet)")
    other = file._replace(path=f"day={DAY}/other.parquet")
    assert same_in(root, table, other) == {"day": DAY}
    rewritten.write_bytes(b"PAR1")
    with pytest.raises(TamperedError, match="other"):
        same_in(root, table, other)
