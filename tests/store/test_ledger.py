"""The ledger: what published runs say together, as known now or then, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jobs.errors import LayoutError, NothingPublishedError, TamperedError
from jobs.store.check import check
from jobs.store.ledger import HALTED, as_rows, differing, finished_after, require_same
from jobs.store.places import table_path
from jobs.store.published import LAYOUT, run_id_in_force
from namesrv_day.arrow import Digest, Slice
from schemas import gold
from tests.store.tiny import DAY, EXPIRED, NEXT, NOW, ONE, TWO, beat, ingest, publish, put, removal, warehouse_at, write

MINUTE = dt.timedelta(minutes=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse of three nights: one of the first day, one of the second, and one that recomputes the first."""
    tmp_path = tmp_path_factory.mktemp("three") / "w"
    for number, day in ((1, DAY), (2, NEXT), (3, DAY)):
        warehouse = warehouse_at(tmp_path, f"run-{number}")
        warehouse.start_from_published()
        ingest(warehouse, day, beat(number, ONE), beat(10 + number, TWO))
        put(warehouse, EXPIRED, day, removal(f"of {number}"))
        warehouse.commit()
        counts = {HALTED: 1} if number == 2 else {"outcome.started": 1, "outcome.stopped": 0}
        publish(
            warehouse,
            [day],
            counts=counts if number < 3 else {},
            digests={"expired_brokers": str(Digest(number, 2, 3))},
        )
    refused = warehouse_at(tmp_path, "run-4")
    refused.note_run([NEXT], {"status": "refused", "gate": "a rule"})
    return tmp_path


@pytest.fixture
def three_nights(made: Path, tmp_path: Path) -> Path:
    """Give a copy of it, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "w"))


@pytest.mark.slow
def test_the_ledger_says_what_published_runs_say_together(three_nights: Path) -> None:
    """The last one, in their order; covered readings, days, and days on which a scan failed; refused runs say nothing."""
    ledger = warehouse_at(three_nights).ledger()
    assert ledger.covered == {"run-1", "run-2", "run-3"}
    assert (set(ledger.days), set(ledger.halting_days)) == ({DAY, NEXT}, {NEXT})
    last = ledger.last
    assert last is not None
    assert (last.run_id, last.days, last.digests, last.report) == (
        "run-3",
        [DAY],
        {"expired_brokers": Digest(3, 2, 3)},
        {},
    )
    assert last.versions == {"heartbeats": 2, "sources": 2, "expired_brokers": 2}
    assert last.finished_time.tzinfo is not None


@pytest.mark.slow
def test_a_run_names_the_one_that_it_builds_on(three_nights: Path) -> None:
    """Its parent is the last published run; times are in order whatever the clock says."""
    rows = sorted(warehouse_at(three_nights).rows(gold.RUNS).to_pylist(), key=lambda row: str(row["run_id"]))
    assert [row["parent_run"] for row in rows] == [None, "run-1", "run-2", "run-3"]
    assert [row["layout"] for row in rows] == [LAYOUT] * 4
    assert [row["finished_time"] for row in rows] == sorted(row["finished_time"] for row in rows)
    assert rows[3]["gate"] == "a rule"


def test_runs_are_in_order_whatever_the_clock_says() -> None:
    """A run that ends, by the clock, before the one before it stands right behind that in the ledger."""
    noon = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)
    assert finished_after(None, noon) == noon
    assert finished_after(noon, noon + MINUTE) == noon + MINUTE
    assert finished_after(noon, noon - MINUTE) == noon + dt.timedelta(microseconds=1)


@pytest.mark.slow
def test_a_day_is_as_the_last_run_left_it(three_nights: Path) -> None:
    """Bronze as read and gold as written; of some days, or as an earlier run knew it."""
    warehouse = warehouse_at(three_nights)
    found = warehouse.slices_in_force()
    assert {(cut.table, cut.day, cut.namesrv_id) for cut in found} == {
        *(("heartbeats", day, name) for day in (DAY, NEXT) for name in (ONE, TWO)),
        *(("expired_brokers", day, ONE) for day in (DAY, NEXT)),
    }
    assert found[Slice("heartbeats", DAY, ONE)].rows == 2
    assert set(warehouse.slices_in_force([NEXT])) == {cut for cut in found if cut.day == NEXT}
    assert warehouse.slices_in_force([]) == {}
    first = warehouse.published_run("run-1")
    earlier = warehouse.slices_in_force(known_at=first)
    assert {cut.day for cut in earlier} == {DAY}
    assert earlier[Slice("expired_brokers", DAY, ONE)] != found[Slice("expired_brokers", DAY, ONE)]


def test_slices_from_which_a_run_started_are_not_in_force(tmp_path: Path) -> None:
    """A gold slice among the inputs of another day is what was read, not what was written."""
    warehouse = warehouse_at(tmp_path)
    read = as_rows(
        {Slice("expired_brokers", DAY, ONE): Digest(7, 7, 7), Slice("heartbeats", NEXT, None): Digest(1, 1, 1)}
    )
    publish(warehouse, [DAY, NEXT], inputs=read, outputs=[])
    assert warehouse.slices_in_force() == {Slice("heartbeats", NEXT, None): Digest(1, 1, 1)}


def test_a_run_is_found_by_its_name_or_by_when_it_was_known(three_nights: Path) -> None:
    """Refused runs are not published; before the first there is none."""
    warehouse = warehouse_at(three_nights)
    second = warehouse.published_run("run-2")
    assert second.days == [NEXT]
    known = partial(run_id_in_force, warehouse.path, warehouse.ledger().runs)
    assert known("run-2") == known(second.finished_time) == "run-2"
    assert known(None) == known(NOW.replace(year=2100)) == "run-3"
    for at in (NOW.replace(year=2000), "run-4"):
        with pytest.raises(
            NothingPublishedError, match=r"gold/runs: no run had been published by .*; the last one is run-3"
        ):
            known(at)


def test_what_differs_is_said_slice_by_slice() -> None:
    """In the order of days; what is missing has the digest of no rows. The error names the first, and how many more."""
    one, other, missing = Slice("a", NEXT, ONE), Slice("b", DAY, None), Slice("c", NEXT, ONE)
    found, expected = {one: Digest(1, 2, 3), other: Digest(1, 1, 1)}, {one: Digest(1, 2, 3), missing: Digest(2, 2, 2)}
    sentences = differing(found, expected)
    assert [sentence.split(":")[0] for sentence in sentences] == [
        f"b of {DAY} (no name server)",
        f"c of {NEXT} ({ONE.split(':')[0]}",
    ]
    assert "its rows have digest 0-0000000000000000-0000000000000000, the ledger says 2-" in sentences[1]
    with pytest.raises(
        TamperedError, match=rf"^b of {DAY} .* \(1 more partitions differ\)\. Nothing was published.* from a backup"
    ):
        require_same(found, expected)
    require_same(found, found)
    require_same({one: Digest()}, {})


@pytest.mark.parametrize(
    ("layout", "words"),
    [(None, "layout 1, of an older"), (2, "layout 2, of an older"), (LAYOUT + 1, "of a newer version")],
)
def test_another_layout_is_refused(tmp_path: Path, layout: int | None, words: str) -> None:
    """A ledger without the layout's number is of the oldest version; nothing is read into such a warehouse."""
    warehouse = warehouse_at(tmp_path)
    row = {"run_id": "1", "status": "published", "layout": layout, "finished_time": NOW, "days": [DAY]}
    file = write(warehouse, gold.RUNS, None, row)
    if layout is None:
        path = Path(table_path(warehouse.path, gold.RUNS)) / file.path
        pq.write_table(pq.read_table(path).drop_columns("layout"), path)
    warehouse.change(gold.RUNS, [file])
    with pytest.raises(LayoutError, match=words):
        warehouse.ledger()


# -- check -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_intact_warehouse_passes_the_check(three_nights: Path) -> None:
    """Every slice of every table is as published; rows that came since are no part of that."""
    ingest(warehouse_at(three_nights, "read"), DAY, beat(99))
    checked = check(warehouse_at(three_nights))
    assert (checked.run_id, checked.wrong, checked.tables, checked.slices) == ("run-3", [], 3, 6)


def test_nothing_published_is_nothing_to_check(tmp_path: Path) -> None:
    """The error says where the ledger would be."""
    with pytest.raises(NothingPublishedError, match="gold/runs: no run with status 'published'"):
        check(warehouse_at(tmp_path))


def test_the_row_of_a_run_can_say_everything(tmp_path: Path) -> None:
    """Maps, slices and reports come back as they were given."""
    warehouse = warehouse_at(tmp_path)
    said = {
        "counts": {"frames": 3},
        "seconds": {"ingest": 0.5},
        "report": json.dumps({"expired_brokers": {}}),
        "sources": ["a"],
    }
    publish(warehouse, [DAY], **said)
    last = warehouse.ledger().last
    assert last is not None
    assert (last.counts, last.report, last.config_sha256) == (
        {"frames": 3},
        {"expired_brokers": {}},
        warehouse.conf.sha256,
    )
    (row,) = warehouse.rows(gold.RUNS).to_pylist()
    assert (row["seconds"], row["sources"], row["started_time"]) == ([("ingest", 0.5)], ["a"], NOW)
