"""Any run may die anywhere: what is published stays published, and the next run goes on from it."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pytest

from jobs.store.check import check
from jobs.store.maintain import maintain
from jobs.store.warehouse import Warehouse
from schemas import gold
from tests.boundaries import CrashError, Dying
from tests.store.tiny import (
    DAY,
    EXPIRED,
    HEARTBEATS,
    NOW,
    ONE,
    beat,
    ingest,
    opened,
    publish,
    put,
    removal,
    warehouse_at,
)

DAYS = [DAY + dt.timedelta(days=number) for number in range(4)]
STEPS = ("heartbeats", "sources", "expired_brokers", "route_changes", "ledger")
POINTS = [f"{step}:{when}" for step in STEPS for when in ("before", "after")]


def run(warehouse: Warehouse, day: dt.date, number: int) -> set[dt.date]:
    """Read a beat of a day, write the run's number into both gold tables on each day with beats that no run covers, and publish."""
    warehouse.start_from_published()
    ingest(warehouse, day, beat(number, run=warehouse.run_id))
    covered = warehouse.ledger().covered
    days = {day for source in warehouse.recorded() if source.ingest_run not in covered for day in source.days}
    for each in sorted(days):
        put(warehouse, EXPIRED, each, removal(f"{number}"))
        put(warehouse, gold.ROUTE_CHANGES, each, {"namesrv_id": ONE, "topic": f"{number}"})
    warehouse.commit()
    publish(warehouse, days)
    return days


def published(path: Path) -> dict[str, set[tuple[dt.date, str]]]:
    """Return what readers see of the gold tables: the runs' numbers by day."""
    warehouse = warehouse_at(path)
    columns = {EXPIRED: "broker_name", gold.ROUTE_CHANGES: "topic"}
    found = {table: warehouse.published_rows(table, columns=["day", name]) for table, name in columns.items()}
    return {
        table.name: set(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        for table, rows in found.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_runs_that_die_anywhere_leave_what_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Most of twenty runs die, some compact, somebody optimizes: readers see the last published run of each day, all the time.

    A beat is in the table once its run has noted its file, whether that run was published or not.
    """
    chance, dying = random.Random(seed), Dying(monkeypatch)
    expected: dict[dt.date, str] = {}
    beats: list[int] = []
    for number in range(20):
        day, point = chance.choice(DAYS), chance.choice(["", "", *POINTS])
        warehouse = warehouse_at(tmp_path, f"run-{number:02}", NOW + dt.timedelta(hours=number))
        dying.point = point
        days: set[dt.date] = set()
        try:
            days = run(warehouse, day, number)
        except CrashError:
            if point == "ledger:after":
                last = warehouse_at(tmp_path).ledger().last
                days = set(last.days) if last is not None and last.run_id == warehouse.run_id else days
        dying.point = ""
        expected |= dict.fromkeys(days, f"{number}")
        if point not in ("heartbeats:before", "heartbeats:after", "sources:before"):
            beats.append(number)
        if chance.random() < 0.1 and warehouse_at(tmp_path).files(EXPIRED):
            opened(tmp_path, EXPIRED).optimize.compact()
        if chance.random() < 0.1:
            maintain(warehouse_at(tmp_path, f"care-{number}", NOW + dt.timedelta(days=500)))
        assert published(tmp_path) == {name: set(expected.items()) for name in ("expired_brokers", "route_changes")}
        seen = warehouse_at(tmp_path).rows(HEARTBEATS, columns=["seq"]).column("seq").to_pylist()
        assert sorted(seen) == beats
    assert check(warehouse_at(tmp_path)).wrong == []
