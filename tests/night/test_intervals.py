"""Intervals as any engine reads them: each once, whatever the nights; and as they were known when a day ended."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from jobs.night.replaying import files_of
from jobs.store import intervals, maintain
from jobs.store.check import check
from jobs.store.maintain import maintain as maintained
from schemas import gold
from schemas.table import Table
from tests.ingest.given import BEAT, DAY, FIRST, Line, at, broker, warehouse_at, write
from tests.night.nights import digests, night, restatements, rows
from tests.night.test_late import IDENTIFIED, LONG, STARTED, in_order

pytestmark = pytest.mark.slow

QUEUES = gold.TOPIC_QUEUE_HISTORY
DAYS = [FIRST + n * DAY for n in range(4)]
WIPED, GIVEN = ({"kind": "admin", "code": code, "broker_name": "broker-b", "response_code": 0} for code in (205, 327))
MORE = broker("a", "TU", 2) | LONG
MORE["topics"][1] |= {"read_queue_nums": 16}
BY_DAY: list[list[Line]] = [
    [
        *(at(0.5, STARTED), at(0.6, IDENTIFIED)),
        *(at(1, broker("a", "TU", 1) | LONG), at(2, broker("b", "TV", 1) | LONG), at(10, WIPED)),
    ],
    [at(26, BEAT), at(30, MORE)],
    [at(49, BEAT), at(60, GIVEN)],
    [at(74, BEAT), at(80, broker("c", "TX", 1) | LONG)],
]
"""On the first day the write permission of broker-b is taken, which leaves V without any; on the third it is given back.

On the second day a topic of broker-a gets more queues; the fourth adds broker-c.
"""
PASSING = [at(3, broker("d", "TD", 1))]
"""A broker of the first day, whose short lease a scan ends on that day: its queues are not there any more on the next."""


class Daily(NamedTuple):
    """The warehouse after each of four nights, and what it had of each table of intervals on the day of the night."""

    after: list[Path]
    of_day: list[dict[str, list[str]]]


@pytest.fixture(scope="module")
def daily(tmp_path_factory: pytest.TempPathFactory) -> Daily:
    folder = tmp_path_factory.mktemp("daily")
    path, found = folder / "w", Daily([], [])
    for number, lines in enumerate(BY_DAY):
        night(path, write(folder / f"{number}.jsonl", lines))
        found.after.append(Path(shutil.copytree(path, folder / f"after-{number}")))
        found.of_day.append(of_days(path)[number])
    return found


def on_days(path: Path, table: Table) -> pa.Table:
    """Return what intervals were on each published day, as it was known when the day ended, with the `day`."""
    opened, found = warehouse_at(path), []
    for day in sorted(opened.ledger().days):
        rows = files_of(opened, [table, gold.LAST_HEARTBEATS], [day], published=True).on(table, day)
        found.append(rows.append_column("day", pa.repeat(pa.scalar(day), rows.num_rows)))
    return pa.concat_tables(found)


def of_days(path: Path) -> list[dict[str, list[str]]]:
    told = {table.name: on_days(path, table).to_pylist() for table in gold.INTERVAL_TABLES}
    return [
        {name: sorted(repr(row) for row in found if row["day"] == day) for name, found in told.items()} for day in DAYS
    ]


def run(path: Path, *days: Sequence[Line]) -> Path:
    """Run a night for each of some logs; return the warehouse."""
    for number, lines in enumerate(days):
        night(path, write(path.parent / f"{path.name}-{number}-{len(lines)}.jsonl", list(lines)))
    return path


def open_files(path: Path, table: Table = QUEUES) -> set[str]:
    return {file.path for file in warehouse_at(path).published_files(table) if file.closed is None}


def test_every_reader_sees_each_interval_once(daily: Daily) -> None:
    """Four nights: as many rows as there were intervals, open ones without an end, for Delta's own reader and DuckDB's."""
    path = daily.after[3]
    delta = DeltaTable(str(path / "gold" / QUEUES.name))
    read = delta.to_pyarrow_table()
    files = [f"{path}/gold/{QUEUES.name}/{name}" for name in delta.get_add_actions(flatten=True)["path"].to_pylist()]
    counts = "count(*), count(DISTINCT (topic, broker_name, opened_at)), count(*) FILTER (valid_to IS NULL)"
    [plain] = duckdb.connect().sql(f"SELECT {counts} FROM read_parquet({files})").fetchall()
    # T and twice U of broker-a, T and V of broker-b thrice, T and X of broker-c
    assert read.num_rows == 11
    assert plain == (11, 11, 6)
    assert sorted(row["closed_month"] or "" for row in read.to_pylist()) == [""] * 6 + [f"{FIRST:%Y-%m}"] * 5
    assert "day" not in read.column_names


def test_a_day_is_what_it_was_when_it_was_the_last(daily: Daily) -> None:
    """Whatever came later: the rows of each day are those of a warehouse that has read no further."""
    assert of_days(daily.after[3]) == daily.of_day
    of_day = [row for row in on_days(daily.after[3], QUEUES).to_pylist() if row["day"] == DAYS[1]]
    # On the second day nothing tells that the permission is given back, which is a day off.
    still = [row for row in of_day if row["broker_name"] == "broker-b" and row["valid_to"] is None]
    assert [row["perm"] for row in still] == [4, 4]
    assert all(row["closed_by"] is None and row["closed_at"] is None for row in still)


def stored(path: Path, table: Table, **where: str) -> list[dict[str, Any]]:
    """Return rows of a table as Delta's own reader has them, whatever a run pins."""
    read: pa.Table = DeltaTable(str(path / table.layer / table.name)).to_pyarrow_table()
    return [row for row in read.to_pylist() if all(row[name] == value for name, value in where.items())]


def lasting(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the one row of the topic that was orphaned, and that of the finding of it."""
    [orphan] = stored(path, gold.ORPHANED_TOPICS, reason="no_writable_queue")
    [finding] = stored(path, gold.FINDINGS, code="NO_WRITABLE_QUEUE")
    return orphan, finding


def test_what_is_told_for_three_days_is_one_row(daily: Daily, tmp_path: Path) -> None:
    """Open on the first two days, with the same columns, closed once on the third; what follows leaves it as it is."""
    seen, files = [lasting(path) for path in daily.after], [open_files(path, gold.FINDINGS) for path in daily.after]
    assert seen[0] == seen[1], "nothing is carried from day to day"
    assert files[0] == files[1], "nor written again"
    assert seen[2] == seen[3]
    ended = ({"valid_to", "closed_by", "closed_month"}, {"to_time", "ended_on", "closed_month", "evidence"})
    for first, last, changed in zip(seen[0], seen[2], ended, strict=True):
        assert {name for name in first if first[name] != last[name]} == changed
        assert {first[name] for name in changed - {"evidence"}} == {None}
        assert last["closed_month"] == f"{DAYS[2]:%Y-%m}"
    orphan, finding = seen[2]
    assert (finding["told_on"], finding["ended_on"]) == (DAYS[0], DAYS[2])
    assert (finding["from_time"], finding["to_time"]) == (orphan["valid_from"], orphan["valid_to"])
    assert finding["evidence"] == [orphan["opened_by"], orphan["closed_by"]]
    assert seen[0][1]["evidence"] == finding["evidence"][: finding["begun_with"]]
    path = Path(shutil.copytree(daily.after[3], tmp_path / "w"))
    assert {row["ended_on"] for row in stored(path, gold.FINDINGS, code="SINGLE_BROKER_TOPIC")} == {None}

    whole = digests(path, gold.INTERVAL_TABLES)
    assert night(path, write(tmp_path / "again.jsonl", BY_DAY[0])).status == "nothing_to_do"
    assert night(path, first=DAYS[1], last=DAYS[2]).days == [day.isoformat() for day in DAYS[1:3]]
    assert digests(path, gold.INTERVAL_TABLES) == whole
    assert check(warehouse_at(path)).wrong == []


def test_a_late_event_restates_what_is_told_for_days(
    daily: Daily, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the first day broker-b has one topic more, so that two are orphaned: as if all had been read at once.

    Merged months are taken apart for it.
    """
    monkeypatch.setattr(maintain, "_CROWD", 1)
    path, late = Path(shutil.copytree(daily.after[2], tmp_path / "w")), [at(5, broker("b", "TVY", 2) | LONG)]
    [before] = stored(path, gold.FINDINGS, code="NO_WRITABLE_QUEUE")
    maintained(warehouse_at(path))
    night(path, write(tmp_path / "late.jsonl", late))
    orphans = stored(path, gold.ORPHANED_TOPICS, reason="no_writable_queue")
    assert sorted(row["topic"] for row in orphans) == ["V", "Y"]
    [after] = stored(path, gold.FINDINGS, code="NO_WRITABLE_QUEUE")
    assert before["topics"] == 1
    assert (after["topics"], after["told_on"], after["ended_on"]) == (2, DAYS[0], DAYS[2])
    lines = in_order(*BY_DAY[:3], late)
    assert digests(path, gold.INTERVAL_TABLES) == digests(run(tmp_path / "again", lines), gold.INTERVAL_TABLES)
    assert {DAYS[0], DAYS[2]} <= {row["day"] for row in restatements(path)}
    assert check(warehouse_at(path)).wrong == []


def test_a_night_writes_what_it_changes(daily: Daily, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A late beat leaves all files of queues as they are; who came and went long ago, those of open ones.

    Maintenance puts what closed in a month together; a day of it is replaced, and what closed on others stays.
    """
    monkeypatch.setattr(maintain, "_CROWD", 2)
    path = Path(shutil.copytree(daily.after[2], tmp_path / "w"))
    beat, late = [at(31, BEAT)], [at(29, broker("a", "TUX", 2) | LONG)]
    before = open_files(path)
    assert night(path, write(tmp_path / "beat.jsonl", beat)).days == [day.isoformat() for day in DAYS[1:3]]
    assert open_files(path) == before
    run(path, PASSING)
    assert open_files(path) == before
    maintained(warehouse_at(path))
    [merged] = [file for file in warehouse_at(path).files(QUEUES) if file.closed is not None]
    assert "compacted" in merged.path
    run(path, late)
    assert "X" in {row["topic"] for row in rows(path, QUEUES)}
    assert check(warehouse_at(path)).wrong == []


def test_large_tables_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many open intervals a change of one broker rewrites the file that has its name, and no other."""
    monkeypatch.setattr(intervals, "_ROWS_A_FILE", 4)
    names = "abcdefgh"
    first = [at(0.5, STARTED), at(0.6, IDENTIFIED), *(at(1, broker(name, "TU", 1) | LONG) for name in names)]
    path = run(tmp_path / "w", first)
    before = open_files(path)
    assert len(before) > 2
    run(tmp_path / "w", [at(26, broker("a", "TUW", 2) | LONG)])
    assert len(open_files(path) - before) == len(before - open_files(path)) == 1
    assert len(rows(path, QUEUES)) == 17
