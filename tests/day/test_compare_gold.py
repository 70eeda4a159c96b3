"""How two warehouses are compared by content."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from namesrv_day.arrow import table_of
from schemas import gold
from tests.compare_gold import compare, main, tables_of

DAY = dt.date(2026, 3, 1)
AT = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)


def change(topic: str, seq: int, cause: str = "e") -> dict[str, object]:
    return {"namesrv_id": "n", "topic": topic, "seq": seq, "effect_time": AT, "caused_by": cause, "day": DAY}


def changes(*rows: dict[str, object]) -> dict[str, pa.Table]:
    return {"route_changes": table_of(rows, gold.ROUTE_CHANGES, change="appeared")}


def test_equal_rows_count_as_often_as_they_are_there() -> None:
    """Neither order nor batches matter; a row that is there twice and once differs once."""
    one, two = change("T", 1), change("U", 2)
    (same,) = compare(changes(one, two, one), changes(two, one, one))
    assert (same.is_equal, same.both) == (True, 3)
    (found,) = compare(changes(one, one), changes(one))
    assert (found.both, found.only_left, found.only_right) == (1, 1, 0)


def test_rows_with_the_same_key_are_shown_as_changed() -> None:
    """What else is on one side only is shown whole."""
    (found,) = compare(changes(change("T", 1), change("U", 2)), changes(change("T", 1, "other"), change("V", 2)))
    shown = [[row and (row["topic"], row["caused_by"]) for row in pair] for pair in found.rows]
    assert shown == [[("T", "e"), ("T", "other")], [("U", "e"), None], [None, ("V", "e")]]
    assert found.key_of(found.rows[0][0] or {}) == {"day": str(DAY), "namesrv_id": "n", "topic": "T", "seq": 1}
    (ignored,) = compare(changes(change("T", 1)), changes(change("T", 1, "other")), ignore=["route_changes.caused_by"])
    assert ignored.is_equal


def test_types_of_the_same_values_make_no_difference() -> None:
    """Bytes and their hex digits, narrow and wide numbers, instants in another unit, maps in another order."""
    one = {"id": b"\xab\x01", "n": 1, "at": AT, "m": [("a", 1), ("b", 2)], "s": {"x": None}}
    other = {"id": "ab01", "n": 1, "at": AT, "m": [("b", 2), ("a", 1)], "s": {"x": None}}
    types = [("m", pa.map_(pa.string(), pa.int64())), ("s", pa.struct([("x", pa.int32())]))]
    wide = [("id", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us", "UTC")), *types]
    narrow = [("id", pa.binary()), ("n", pa.int16()), ("at", pa.timestamp("ms", "UTC")), *types]
    sides = [{"t": pa.Table.from_pylist([row], pa.schema(of))} for row, of in ((one, narrow), (other, wide))]
    assert [difference.is_equal for difference in compare(*sides)] == [True]


def test_a_column_or_table_of_one_side_is_a_difference() -> None:
    """Unless the table has no rows."""
    left, right = changes(change("T", 1)), {"findings": gold.FINDINGS.schema.empty_table()}
    assert {d.table: d.is_equal for d in compare(left, right)} == {"findings": True, "route_changes": False}
    (found,) = compare(left, {"route_changes": left["route_changes"].drop_columns(["caused_by"])})
    assert found.columns == ("caused_by only left",)


@pytest.mark.slow
def test_the_last_published_versions_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a run wrote that is not published, and what is another in every run, is not seen."""
    for name, rows in {"old": [1], "new": [1, 2]}.items():
        for version, seq in enumerate(rows):
            table = changes(change("T", seq))["route_changes"]
            path = tmp_path / name / "gold" / "route_changes"
            write_deltalake(path, table, partition_by=["day"], mode="append" if version else "error")
        slices = [{"table": "route_changes", "day": DAY, "namesrv_id": "n", "digest": f"1-{name}-0"}]
        lists = {"days": [DAY], "ingest_runs": [name], "sources": ["s"], "inputs": [], "outputs": slices}
        maps = {"versions": [("route_changes", 0)], "digests": [], "counts": [("events", 1)], "seconds": []}
        run = {"run_id": name, "layout": len(name), "started_time": AT, "finished_time": AT, "status": "published"}
        row = {**run, **lists, **maps, "gate": "passed", "code_version": name, "config_sha256": name, "report": "{}"}
        write_deltalake(tmp_path / name / "gold" / "runs", table_of([row], gold.RUNS))
    assert tables_of(tmp_path / "new")["route_changes"].num_rows == 1
    assert main([str(tmp_path / "old"), str(tmp_path / "new")]) == 0
    (tmp_path / "new" / "gold" / "runs").rename(tmp_path / "new" / "gold" / "gone")
    assert main([str(tmp_path / "old"), str(tmp_path / "new"), "--without", "runs"]) == 1
    assert "1 of 21 tables differ: route_changes" in capsys.readouterr().out
