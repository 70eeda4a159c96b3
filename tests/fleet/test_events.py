"""Beats of a fleet: the same however they are made, in an order of their own, and silent only where that was planned."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import bronze
from schemas.times import day_start_us
from tests.examples import examples
from tests.fleet.fleets import DAY, NEXT, TROUBLED, beats_on, events_of, fleet_like, sha256_of
from tools.fleet.fleet import Fleet
from tools.fleet.plan import plan_of

HEARTBEATS, REGISTRATIONS = bronze.HEARTBEATS, bronze.REGISTRATIONS
FOUR = Fleet(
    DAY,
    brokers=7,
    namesrvs=3,
    topics=3,
    beats_per_minute=1,
    churn=0.6,
    outages=0.1,
    outage_s=(20, 600),
    partitions=5,
    restarts=4,
    registrations=0.05,
    jitter_ms=20_000,
)
FIVE = Fleet(
    DAY,
    brokers=11,
    namesrvs=2,
    version="5.4.0",
    form="light",
    beats_per_minute=12,
    outages=0.1,
    outage_s=(5, 120),
    restarts=2,
    churn=0.3,
    shared_topics=True,
    seed=7,
)


@pytest.mark.parametrize(
    ("fleet", "beats", "heartbeats", "registrations"),
    [
        (
            FOUR,
            600,
            "1a01156fd613e47d1e8d882bf6e5de7c7b54b6ae9b04853e7b2dd9cb07870aa5",
            "4fd4621856bbb57537f0ac92b4a137a82626745cfca6eb4d0573f679ae152fc5",
        ),
        (
            FIVE,
            200,
            "2c5b02683bb356f4ecab6045f43cb3c4aecd8632758bb4c91db515400cc3ea78",
            "3f98f5e2487dcf55fde1c043b4259199b8c35e0eb39978a8dba8af4a4ab69b97",
        ),
    ],
    ids=["4.9.7", "5.4.0"],
)
def test_a_fleet_keeps_its_events(fleet: Fleet, beats: int, heartbeats: str, registrations: str) -> None:
    """Options and seed say what happens, for good: these are digests of rows."""
    first = beats_on(fleet, NEXT).start
    made = events_of(fleet, NEXT, 1, [range(first, first + beats)])
    assert sha256_of(made[HEARTBEATS]) == heartbeats
    assert sha256_of(made[REGISTRATIONS]) == registrations


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(ends=st.sets(st.integers(1, 1439), max_size=6), seed=st.integers(0, 50))
def test_events_depend_on_options_and_seed_alone(ends: set[int], seed: int) -> None:
    """However a day is cut, also within hours and holes, its rows are the same; another seed gives others."""
    fleet = fleet_like(TROUBLED, churn=0.5, registrations=0.05, outages=0.3, seed=seed)
    day = beats_on(fleet, NEXT)
    cuts = itertools.pairwise([day.start, *(day.start + end for end in sorted(ends)), day.stop])
    whole = events_of(fleet, NEXT, 1, [day])
    assert events_of(fleet, NEXT, 1, [range(*cut) for cut in cuts]) == whole
    other = events_of(fleet_like(fleet, seed=seed + 1), NEXT, 1, [day])
    assert whole[HEARTBEATS] != other[HEARTBEATS]
    assert not set(whole[REGISTRATIONS]["event_id"].to_pylist()) & set(other[REGISTRATIONS]["event_id"].to_pylist())


def together(fleet: Fleet, namesrvs: Sequence[int]) -> pa.Table:
    """Return what the heartbeats and registrations of the first day at some name servers have in common."""
    names = ["namesrv_id", "seq", "event_id", "effect_time", "broker_name", "source_offset"]
    tables = [table for n in namesrvs for table in events_of(fleet, DAY, n, [beats_on(fleet, DAY)]).values()]
    return pa.concat_tables(table.select(names) for table in tables)


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(
    st.builds(
        fleet_like,
        st.sampled_from([FOUR, FIVE, TROUBLED]),
        seed=st.integers(),
        brokers=st.integers(1, 9),
        namesrvs=st.just(2),
        beats_per_minute=st.sampled_from([1, 2, 5]),
        jitter_ms=st.sampled_from([None, 1, 1_000]),
        timeout_ms=st.none(),
        outages=st.sampled_from([0.0, 0.5, 1.0]),
        partitions=st.sampled_from([0, 24]),
        restarts=st.sampled_from([0, 3, 24]),
        outage_s=st.sampled_from([(1, 2), (30, 900), (2_000, 2_000)]),
    )
)
def test_positions_are_unique_and_only_holes_are_silent(fleet: Fleet) -> None:
    """No two events of a name server share a position, an id or a line; beats and lost beats add up to the plan."""
    rows = together(fleet, [0, 1])
    day = beats_on(fleet, DAY)
    hours = range(24)
    lost = sum(
        int((holes.k_to - holes.k_from).sum()) for holes in (plan_of(fleet, n, DAY, hours).holes for n in range(2))
    )
    assert len(rows) == 2 * fleet.brokers * len(day) - lost
    assert len(pc.unique(rows["event_id"])) == len(rows)
    for of_one in ("seq", "source_offset"):
        assert len(rows.group_by(["namesrv_id", of_one]).aggregate([])) == len(rows)
    begin, end = (day_start_us(of) * 1_000 for of in (DAY, NEXT))
    assert begin <= pc.min(rows["seq"]).as_py() <= pc.max(rows["seq"]).as_py() < end


def test_brokers_register_when_they_have_to() -> None:
    """First of all, after each hole, and with each change of their topics; otherwise they only ask."""
    fleet = fleet_like(TROUBLED, churn=1.0, partitions=0, restarts=0, outages=0.2)
    plan = plan_of(fleet, 0, DAY, range(24))
    rows = events_of(fleet, DAY, 0, [beats_on(fleet, DAY)])[REGISTRATIONS]
    # `source_offset` numbers the beats of a day, round by round.
    found = {divmod(offset - 3, fleet.brokers) for offset in rows["source_offset"].to_pylist()}
    everybody = range(fleet.brokers)
    back = set(zip(plan.holes.k_to.tolist(), plan.holes.b.tolist(), strict=True))
    changes = {(int(k), b) for b, k in enumerate(plan.versions.k_change)}
    lost = {(k, b) for k, b in changes if plan.k_from[k // 60, b] <= k < plan.k_to[k // 60, b]}
    assert found == {(0, b) for b in everybody} | back | changes - lost
