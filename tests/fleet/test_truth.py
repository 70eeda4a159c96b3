"""The truth about planted holes: between which beats they are, and what a scan must and may make of them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from namesrv_day.arrow.rows import conformed, rows_of
from tests.fleet.fleets import DAY, TROUBLED, beats_on, events_of, fleet_like
from tools.fleet.fleet import Fleet
from tools.fleet.holes import HOLES
from tools.fleet.plan import plan_of
from tools.fleet.truth import holes_from

BUSY = fleet_like(TROUBLED, outages=0.6, outage_s=(20, 400), partitions=12, restarts=6)
FIVE = fleet_like(BUSY, version="5.4.0", form="light", beats_per_minute=4, timeout_ms=50_000)


def holes_of(fleet: Fleet) -> list[dict]:
    """Return the truth about a fleet's first day at its second name server."""
    found = holes_from(fleet, 1, plan_of(fleet, 1, DAY, range(24)).holes)
    return list(rows_of(conformed(found, HOLES)))


@pytest.mark.parametrize("fleet", [BUSY, FIVE], ids=["4.9.7", "5.4.0"])
def test_a_hole_lies_between_two_beats_of_its_broker(fleet: Fleet) -> None:
    """The last beat before it and the first one after follow each other, and the second one is a registration."""
    made = events_of(fleet, DAY, 1, [beats_on(fleet, DAY)])
    beats, registrations = (rows.select(["effect_time", "broker_addr"]) for rows in made.values())
    heard = pa.concat_tables([beats, registrations]).sort_by("effect_time")
    of_brokers = {
        addr: heard.filter(pc.field("broker_addr") == addr)["effect_time"].cast(pa.int64()).to_pylist()
        for addr in pc.unique(heard["broker_addr"]).to_pylist()
    }
    registered = {(row["broker_addr"], row["effect_time"]) for row in rows_of(registrations)}
    holes = holes_of(fleet)
    assert {hole["kind"] for hole in holes} == {"outage", "partition", "restart"}
    for hole in holes:
        of_broker = of_brokers[hole["broker_addr"]]
        assert of_broker[of_broker.index(hole["last_beat_time"]) + 1] == hole["first_beat_time"]
        assert hole["last_beat_time"] < hole["hole_from"] < hole["hole_to"] <= hole["first_beat_time"]
        assert (hole["broker_addr"], hole["first_beat_time"]) in registered
        rounds = (hole["first_beat_time"] - hole["last_beat_time"]) / fleet.interval_us
        assert abs(rounds - hole["lost_beats"] - 1) < 1


@pytest.mark.slow
@pytest.mark.parametrize("fleet", [BUSY, FIVE], ids=["4.9.7", "5.4.0"])
def test_removals_are_those_of_a_scan_at_any_phase(fleet: Fleet) -> None:
    """A tick removes who was last heard of before its lease; some phase of the ticks sees each possible number of removals."""
    period_ms = fleet.profile.scan_period_ms
    seen = set()
    for hole in holes_of(fleet):
        lease_end_ms = hole["last_beat_time"] // 1_000 + fleet.lease_ms
        # Whatever the phase, the first tick after the lease is one of these.
        ticks_us = [(lease_end_ms + 1 + phase_ms) * 1_000 for phase_ms in range(period_ms)]
        removed = [hole["kind"] != "restart" and tick_us <= hole["first_beat_time"] for tick_us in ticks_us]
        seen.add((hole["kind"], hole["expiries_min"], hole["expiries_max"]))
        assert hole["expiries_max"] == max(removed)
        assert hole["expiries_min"] <= min(removed)
        assert hole["expiries_min"] == min(removed) or hole["first_beat_time"] - ticks_us[-1] <= 1_000
        assert (hole["lease_end_time"], hole["lease_ms"]) == (lease_end_ms * 1_000, fleet.lease_ms)
        assert hole["removal_due_time"] == ticks_us[-1] + 1_000
    assert seen >= {("outage", 0, 0), ("outage", 1, 1), ("restart", 0, 0)}


def test_an_outage_between_two_beats_is_none() -> None:
    """It loses no beat: nobody notices it, and it is not in the truth."""
    fleet = fleet_like(TROUBLED, outages=1.0, outage_s=(1, 2), restarts=0, partitions=0)
    planted = plan_of(fleet, 1, DAY, range(24)).holes
    assert len(planted.h) == 24 * fleet.brokers
    assert len(holes_of(fleet)) == int((planted.k_to > planted.k_from).sum()) < len(planted.h)
