"""A night finds what was planted in a fleet, no more and no less."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from jobs.passes import InProcess
from namesrv_day.arrow import ask
from schemas import bronze, gold
from tests.fleet.fleets import DAY, TROUBLED, fleet_like
from tests.ingest.given import warehouse_at
from tests.night.nights import night
from tools.fleet.fleet import Fleet
from tools.fleet.simulate import LATE, ON_TIME, deliver, simulate
from tools.fleet.truth import holes_from

_BELONGS = """
e.namesrv_id = h.namesrv_id AND e.broker_addr = h.broker_addr AND e.cause = 'scan'
AND e.last_beat_time = date_trunc('milliseconds', h.last_beat_time) AND e.heartbeat_timeout_ms = h.lease_ms
AND e.removed_time > h.lease_end_time AND e.removed_time <= h.removal_due_time AND e.returned_time = h.first_beat_time
"""


def assert_truth_is_found(path: Path, fleet: Fleet) -> None:
    """Every hole longer than the lease is one removal at a tick that it allows; no other removal is claimed."""
    warehouse = warehouse_at(path, "reader")
    tables: dict[str, pa.Table] = {
        "holes": pa.concat_tables(holes_from(fleet, n, DAY) for n in range(fleet.namesrvs)),
        "expired": warehouse.published_rows(gold.EXPIRED_BROKERS),
    }
    counted = f"(SELECT count(*) FROM expired e WHERE {_BELONGS})"
    holes = ask(f"SELECT kind, expiries_min, expiries_max, {counted} AS found FROM holes h", tables)
    invented = ask(f"SELECT * FROM expired e WHERE NOT EXISTS (FROM holes h WHERE {_BELONGS})", tables)
    rows = holes.to_pylist()
    assert not [row for row in rows if not row["expiries_min"] <= row["found"] <= row["expiries_max"]]
    assert not invented.num_rows
    kinds = {(row["kind"], row["expiries_min"]) for row in rows}
    assert kinds >= {("outage", 0), ("outage", 1), ("partition", 1), ("restart", 0)}


@pytest.mark.slow
def test_removals_of_4x_are_the_planted_ones_when_events_come_late_and_twice(tmp_path: Path) -> None:
    """A night without the late events, then one with them and with repeated ones: the expiries are those of the plan."""
    fleet = fleet_like(TROUBLED, late=0.03, duplicates=0.03)
    events = deliver(warehouse_at(tmp_path, "on-time"), fleet, DAY, ON_TIME)
    first = night(tmp_path, passes=InProcess(2))
    late = deliver(warehouse_at(tmp_path, "late"), fleet, DAY, LATE)
    second = night(tmp_path, passes=InProcess(2))
    assert (first.status, second.status) == ("published", "published")
    beats = sum(second.tables[table.name] for table in (bronze.HEARTBEATS, bronze.REGISTRATIONS))
    assert 0.02 < (beats - events) / events < 0.04 < late / events
    assert_truth_is_found(tmp_path, fleet)


@pytest.mark.slow
def test_removals_of_5x_with_light_heartbeats_are_the_planted_ones(tmp_path: Path) -> None:
    """The lease is the brokers' own, and the first beat after a hole brings the broker back."""
    fleet = fleet_like(
        TROUBLED,
        version="5.4.0",
        form="light",
        beats_per_minute=4,
        timeout_ms=50_000,
        brokers=4,
        churn=0.5,
        outages=0.2,
        outage_s=(20, 120),
    )
    simulate(warehouse_at(tmp_path, "on-time"), fleet, [DAY])
    assert night(tmp_path, passes=InProcess(2)).status == "published"
    assert_truth_is_found(tmp_path, fleet)
