"""Data files: what is written is what is read, what the log is told of it is true, and what cannot be read is named."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from jobs.errors import TamperedError
from jobs.store import files
from jobs.store.files import (
    DataFile,
    batches_of,
    described,
    digests_of,
    groups_of,
    is_rooted,
    namesrvs_in,
    pieces_of,
    read_files,
    reading,
    write_file,
)
from jobs.store.places import table_path
from namesrv_day.arrow import Digest, digests_by, plain, slices_of, sum_of, table_of, with_derived
from schemas import bronze, gold
from schemas.table import BOOLEAN, DATE, DOUBLE, INT, LONG, STRING, STRINGS, TIMESTAMP, Table, map_of, struct_of
from tests.store.tiny import DAY, EXPIRED, HEARTBEATS, NEXT, NUMBERS, ONE, TWO, beat, removal, warehouse_at, write

ALL_TABLES = (*bronze.TABLES, *gold.TABLES)
MS = dt.timedelta(milliseconds=1)


def some(of: pa.DataType) -> object:
    """Return a value of a type, nested ones with something in them."""
    if pa.types.is_struct(of):
        return {field.name: some(field.type) for field in of}
    if pa.types.is_map(of):
        return [("key", some(of.item_type))]
    if pa.types.is_list(of):
        return [some(of.value_type), None]
    plain_values = {
        "string": "text",
        "int32": 7,
        "int64": 1 << 40,
        "double": 0.5,
        "bool": True,
        "date32[day]": DAY,
        "timestamp[us, tz=UTC]": dt.datetime(2026, 11, 21, 1, 2, 3, 456_789, tzinfo=dt.timezone.utc),
    }
    return plain_values[str(of)]


@pytest.mark.parametrize("table", ALL_TABLES, ids=lambda table: table.name)
def test_rows_of_every_table_are_read_as_they_were_written(tmp_path: Path, table: Table) -> None:
    """Values of all types, nested ones too, and NULLs; without rows there is a file, too, and it says the same of itself later."""
    day = DAY if table.partition_by else None
    same = {"day": DAY} if day else {}
    full = {field.name: some(field.type) for field in table.schema}
    given_rows: list[list[dict[str, object]]] = [[full, {}, full], [], [{}]]
    for rows in given_rows:
        given = with_derived(table_of(rows, table, **same), table)
        file = write_file(given, str(tmp_path), table, day, "part")
        assert read_files(str(tmp_path), table, [file]).equals(given)
        assert (file.rows, file.day) == (len(rows), day if table.is_by_day else None)
        assert file.size == (Path(table_path(str(tmp_path), table)) / file.path).stat().st_size
        assert described(str(tmp_path), table, file.path, file.day) == file._replace(pieces=())
        assert file.pieces == (pieces_of(str(tmp_path), table, file) if is_rooted(table) else ())


def test_attempts_do_not_write_over_each_other(tmp_path: Path) -> None:
    """Two attempts of one task give two files, beside each other in the folder of their day."""
    first, second = (write(warehouse_at(tmp_path), NUMBERS, DAY, {"n": n}) for n in (1, 2))
    assert first.path != second.path
    assert {Path(file.path).parent.name for file in (first, second)} == {f"day={DAY}"}
    assert read_files(str(tmp_path), NUMBERS, [second, first], ["n"]).column("n").to_pylist() == [2, 1]


def test_columns_come_in_the_order_of_the_table(tmp_path: Path) -> None:
    """A column that rows lack is NULL, one that the table lacks is left out."""
    given = pa.table({"more": [1], "n": pa.array([2], pa.int32())})
    file = write_file(given, str(tmp_path), NUMBERS, DAY, "part")
    read = read_files(str(tmp_path), NUMBERS, [file])
    assert read.to_pylist() == [{"day": DAY, "n": 2, "text": None}]
    assert read.schema == plain(NUMBERS.schema)


def test_rows_that_come_in_parts_lie_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of any size, tables or batches, become groups of at least so many rows, in their order."""
    monkeypatch.setattr(files, "_ROWS_PER_GROUP", 10)
    batch = pa.RecordBatch.from_pydict({"n": list(range(21, 25))})
    parts = [*(pa.table({"n": [number]}) for number in range(21)), batch]
    file = write_file(iter(parts), str(tmp_path), NUMBERS, DAY, "part")
    footer = pq.read_metadata(f"{table_path(str(tmp_path), NUMBERS)}/{file.path}")
    assert [footer.row_group(number).num_rows for number in range(footer.num_row_groups)] == [10, 10, 5]
    assert read_files(str(tmp_path), NUMBERS, [file], ["n"]).column("n").to_pylist() == list(range(25))


def test_one_topic_of_many_lies_in_few_rows(tmp_path: Path) -> None:
    """Groups of intervals are small, closed ones more than open ones, but they are read in parts of many."""
    table, size = gold.TOPIC_QUEUE_HISTORY, 20_000
    rows = table_of([{"topic": f"T{number:05}"} for number in range(size)], table)
    found = []
    for day in (None, DAY):
        file = write_file(rows, str(tmp_path), table, day, "part")
        footer = pq.read_metadata(f"{table_path(str(tmp_path), table)}/{file.path}")
        found.append(max(footer.row_group(number).num_rows for number in range(footer.num_row_groups)))
        assert [len(part) for part in batches_of(str(tmp_path), table, [file])] == [size]
    assert found == [8_192, 2_048]


def test_statistics_bound_every_row(tmp_path: Path) -> None:
    """Instants are widened to whole milliseconds, long texts cut at the lower end and left out at the upper, NULLs counted."""
    at = dt.datetime(2026, 11, 21, 8, 0, 0, 1_500, tzinfo=dt.timezone.utc)
    rows = [
        beat(2, ONE),
        {**beat(5, TWO), "broker_name": "b" * 40, "effect_time": at},
        {**beat(3, ONE), "effect_time": at + MS},
    ]
    stats = json.loads(write(warehouse_at(tmp_path), HEARTBEATS, DAY, *rows).stats)
    assert stats["numRecords"] == 3
    low, high, nulls = stats["minValues"], stats["maxValues"], stats["nullCount"]
    assert (low["namesrv_id"], high["namesrv_id"], low["seq"], high["seq"]) == (ONE, TWO, 2, 5)
    assert (low["effect_time"], high["effect_time"]) == ("2026-11-21T08:00:00.001Z", "2026-11-21T08:00:00.003Z")
    assert (low["broker_name"], "broker_name" in high, nulls["broker_name"]) == ("b" * 32, False, 2)
    assert "event_id" not in low


def test_files_of_other_name_servers_are_not_opened(tmp_path: Path) -> None:
    """What is asked of one name server is read where it can be; rows without a name server may be anywhere."""
    warehouse = warehouse_at(tmp_path)
    of_one, of_two = (write(warehouse, EXPIRED, DAY, removal("X", namesrv_id)) for namesrv_id in (ONE, TWO))
    (Path(table_path(warehouse.path, EXPIRED)) / of_two.path).unlink()
    read = read_files(warehouse.path, EXPIRED, [of_one, of_two], filter=pc.field("namesrv_id") == ONE)
    assert read.column("namesrv_id").to_pylist() == [ONE]
    assert namesrvs_in(warehouse.path, EXPIRED, [of_one, of_two]) == {ONE, TWO}
    nobody = write(warehouse, bronze.QUARANTINE, DAY, {"namesrv_id": None}, {"namesrv_id": ONE})
    found = read_files(warehouse.path, bronze.QUARANTINE, [nobody], filter=pc.field("namesrv_id").is_null())
    assert found.num_rows == 1
    assert namesrvs_in(warehouse.path, bronze.QUARANTINE, [nobody]) == {ONE}


def test_what_is_asked_may_name_other_columns_than_are_shown(tmp_path: Path) -> None:
    """Also the day, which is in no file."""
    warehouse = warehouse_at(tmp_path)
    found = [write(warehouse, NUMBERS, day, {"n": n}) for day, n in ((DAY, 1), (NEXT, 2))]
    read = read_files(warehouse.path, NUMBERS, found, ["n"], pc.field("day") == pa.scalar(NEXT))
    assert read.to_pylist() == [{"n": 2}]
    assert read_files(warehouse.path, NUMBERS, [], ["n"]).to_pylist() == []


@pytest.mark.parametrize("harm", ["missing", "empty", "cut", "flipped"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, harm: str) -> None:
    """One sentence with the table and the file, wherever reading breaks: no file, no footer, or a page that cannot be unpacked."""
    warehouse = warehouse_at(tmp_path)
    good, bad = (write(warehouse, NUMBERS, DAY, *({"n": n, "text": f"{n * n}"} for n in range(500))) for _ in range(2))
    path = Path(table_path(warehouse.path, NUMBERS)) / bad.path
    data = path.read_bytes()
    if harm == "missing":
        path.unlink()
    else:
        harmed = {"empty": b"", "cut": data[: len(data) // 2], "flipped": data[:40] + bytes(200) + data[240:]}
        path.write_bytes(harmed[harm])
    pattern = rf"^numbers: cannot be read: {path}: .*"
    with pytest.raises(TamperedError, match=pattern) as said:
        read_files(warehouse.path, NUMBERS, [good, bad])
    assert "\n" not in str(said.value)
    with pytest.raises(TamperedError, match=pattern):
        list(batches_of(warehouse.path, NUMBERS, [good, bad]))
    with pytest.raises(TamperedError, match=pattern), reading(warehouse.path, NUMBERS, [bad]) as rows:
        rows.aggregate("sum(n), max(text)").fetchall()
    if harm != "flipped":
        with pytest.raises(TamperedError, match=pattern):
            described(warehouse.path, NUMBERS, bad.path, DAY)


def test_a_wrong_question_is_no_tampering(tmp_path: Path) -> None:
    """A filter that cannot be evaluated says so, and blames no file."""
    warehouse = warehouse_at(tmp_path)
    with pytest.raises(pa.ArrowException):
        read_files(warehouse.path, NUMBERS, [write(warehouse, NUMBERS, DAY, {"n": 1})], filter=pc.field("n") == "text")


def test_digests_of_files_are_those_of_their_rows(tmp_path: Path) -> None:
    """However rows are spread over files; of a heartbeat its name and source do not count."""
    warehouse = warehouse_at(tmp_path)
    rows = [beat(1, ONE), beat(2, TWO), beat(3, ONE)]
    found = [write(warehouse, HEARTBEATS, DAY, *rows[:2]), write(warehouse, HEARTBEATS, DAY, *rows[2:])]
    digests = digests_of(warehouse.path, HEARTBEATS, found)
    assert digests == slices_of("heartbeats", table_of(rows, HEARTBEATS, day=DAY))
    assert {cut.namesrv_id: digest.rows for cut, digest in digests.items()} == {ONE: 2, TWO: 1}
    renamed = [{**row, "stated_id": "other", "nth": 1, "source_file": "other", "ingest_run": "other"} for row in rows]
    assert slices_of("heartbeats", table_of(renamed, HEARTBEATS, day=DAY)) == digests
    changed = [{**rows[0], "code": 904}, *rows[1:]]
    assert slices_of("heartbeats", table_of(changed, HEARTBEATS, day=DAY)) != digests


def test_the_hash_of_a_value_is_what_it_was() -> None:
    """One value of each type, and NULL: with another DuckDB whose hashes differ, every published digest would be wrong."""
    types = (STRING, INT, LONG, BOOLEAN, DOUBLE, TIMESTAMP, DATE, STRINGS, map_of(LONG), struct_of(seq=LONG, no=INT))
    columns = {str(of): pa.table({"column": pa.array([some(of), None], of)}) for of in types}
    found = {name: str(sum_of(digests_by(rows).values())) for name, rows in columns.items()}
    assert found == {
        "string": "2-83f2ffcbcedf2681-7bc2ff33ad1ea571",
        "int32": "2-3897e34450681e03-c667dcba2f67ddf3",
        "int64": "2-107658ec8260e7a6-ee4656127998e454",
        "bool": "2-00d1f7cefda5c689-fe21f70cfc240569",
        "double": "2-8dd439920268d5d4-7123b549f96715a2",
        "timestamp[us, tz=UTC]": "2-46be93fc2dc1eabf-383e0be20c39e0bf",
        "date32[day]": "2-77fcb76a57eef333-07fc289027eee8c3",
        "list<element: string>": "2-3700b62a8d48ff54-c8f029d06c80fc22",
        "map<string, int64>": "2-cd8f4e13c3ac728d-b16f41cbba23696d",
        "struct<seq: int64, no: int32>": "2-689adf9d7808dba1-9762d85047e71399",
    }


def test_a_digest_can_be_added_to_and_taken_from() -> None:
    """Sums wrap at 64 bits, what is printed can be read back, and taking away undoes adding."""
    one, other = Digest(2, (1 << 64) - 1, 5), Digest(1, 3, 6)
    assert one + other == Digest(3, 2, 3)
    assert sum_of([one, other]) - other == one
    assert Digest.parse(str(one)) == one
    assert str(other) == "1-0000000000000003-0000000000000006"


def test_a_file_of_another_engine_reads_alike(tmp_path: Path) -> None:
    """Times in the old 96-bit form, columns in another order, and a day that the file itself has."""
    at = dt.datetime(2026, 11, 21, 1, 2, 3, 456_789, tzinfo=dt.timezone.utc)
    folder = Path(table_path(str(tmp_path), EXPIRED)) / f"day={DAY}"
    folder.mkdir(parents=True)
    rows = table_of([{**removal("X"), "last_beat_time": at}], EXPIRED, day=DAY).select(
        list(reversed(EXPIRED.column_names))
    )
    pq.write_table(rows, folder / "other.parquet", use_deprecated_int96_timestamps=True)
    file = DataFile(f"day={DAY}/other.parquet", 0, 1, DAY)
    (row,) = read_files(str(tmp_path), EXPIRED, [file]).to_pylist()
    assert (row["last_beat_time"], row["day"], row["broker_name"]) == (at, DAY, "X")


def test_a_footer_with_a_name_that_is_no_text_is_named(tmp_path: Path) -> None:
    """The file is named, whoever reads it."""
    file = write(warehouse_at(tmp_path), NUMBERS, DAY, {"n": 1})
    path = Path(table_path(str(tmp_path), NUMBERS), file.path)
    path.write_bytes(path.read_bytes().replace(b"text", b"\xe2ext"))
    with pytest.raises(TamperedError, match=file.path):
        described(str(tmp_path), NUMBERS, file.path, DAY)


def test_files_are_asked_together_while_they_are_small_and_few() -> None:
    """In their order; one that is large alone is a group of its own, and no group has more than may be."""
    files = [DataFile(str(number), size, 1, None) for number, size in enumerate([1, 2, 9, 1, 1, 1, 1])]
    groups = groups_of(files, 4, 3)
    assert [[file.size for file in group] for group in groups] == [[1, 2], [9], [1, 1, 1], [1]]
    assert [*groups_of([], 4)] == []
