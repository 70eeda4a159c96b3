"""Beats of a fleet: the same however they are made, in an order of their own, and silent only where that was planned."""

from __future__ import annotations

import hashlib
import itertools
from bisect import bisect
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from namesrv_day.arrow.rows import rows_of
from schemas import bronze
from schemas.times import day_start_us
from tests.examples import examples
from tests.fleet.fleets import DAY, NEXT, TROUBLED, beats_on, events_of, fleet_like, sha256_of
from tools.fleet.events import namesrv_events_from, tables_of, topic_configs_from
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
            "2fe51beea21edd67b5e5771c9b1a67b10d28ffb3a409ea40f0770719e0b77308",
            "4fd4621856bbb57537f0ac92b4a137a82626745cfca6eb4d0573f679ae152fc5",
        ),
        (
            FIVE,
            200,
            "41a34c4c2305db798caa57898045c5829d466004fb68717a5564a03d03195af8",
            "3f98f5e2487dcf55fde1c043b4259199b8c35e0eb39978a8dba8af4a4ab69b97",
        ),
    ],
    ids=["4.9.7", "5.4.0"],
)
def test_a_fleet_keeps_its_events(fleet: Fleet, beats: int, heartbeats: str, registrations: str) -> None:
    """Options and seed say what happens, for good: these are digests of rows that another program made of the same options."""
    first = beats_on(fleet, NEXT).start
    made = events_of(fleet, NEXT, 1, [range(first, first + beats)])
    assert sha256_of(with_ids_of_then(fleet, made[HEARTBEATS])) == heartbeats
    assert sha256_of(made[REGISTRATIONS]) == registrations


def with_ids_of_then(fleet: Fleet, rows: pa.Table) -> pa.Table:
    """Return heartbeats of name server 1 with the ids that they had when these were stored, and without what replaced them."""
    first, ids = beats_on(fleet, NEXT).start, []
    for row in rows_of(rows):
        b = int(row["broker_name"].removeprefix("broker-"))
        k = first + (row["source_offset"] - 3 - b) // fleet.brokers
        ids.append(hashlib.md5(f"{fleet.seed}/1/{b}/{k}".encode(), usedforsecurity=False).hexdigest())
    at = rows.schema.get_field_index("event_id")
    return rows.set_column(at, "event_id", pa.array(ids)).drop_columns(["nth", "stated_id"])


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


def test_rows_come_in_the_order_of_their_positions() -> None:
    """Whoever writes them one after the other writes a sorted file."""
    for rows in events_of(fleet_like(FIVE, registrations=0.5), DAY, 0, [range(5_000)]).values():
        assert len(rows) > 1_000
        assert (np.diff(rows["seq"].to_numpy()) > 0).all()


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


def test_what_a_broker_says_changes_with_its_topics() -> None:
    """From the day's change on, its version counts one more, was made then, and its topic table is another one."""
    fleet = fleet_like(TROUBLED, churn=1.0, partitions=0, restarts=0, outages=0.0, brokers=1, form="register")
    plan = plan_of(fleet, 0, NEXT, range(24, 48))
    rows = events_of(fleet, NEXT, 0, [beats_on(fleet, NEXT)])[REGISTRATIONS]
    said = [(row["data_version"], row["topic_config_digest"]) for row in rows_of(rows)]
    at = int(plan.versions.k_change[0]) - beats_on(fleet, NEXT).start
    before, after = said[0], said[-1]
    assert said == [before] * at + [after] * (len(said) - at)
    made_ms = (day_start_us(DAY) + int(plan.versions.k_change[0]) * fleet.interval_us) // 1_000
    assert after == ({"state_version": 0, "timestamp": made_ms, "counter": 2}, fleet.topic_table(0, 2).digest)
    assert before[0]["counter"] == 1
    assert day_start_us(DAY) // 1_000 < before[0]["timestamp"] < day_start_us(NEXT) // 1_000


def test_a_connection_lasts_as_long_as_the_process() -> None:
    """After each restart of the name server every broker has another channel, also on later days; outages end none."""
    fleet = fleet_like(TROUBLED, restarts=12, outages=0.5, namesrvs=1)
    lives = rows_of(namesrv_events_from(fleet, NEXT, "run"))
    started = [row["effect_time"] for row in lives if row["kind"] == "started"]
    rows = events_of(fleet, NEXT, 0, [beats_on(fleet, NEXT)])
    channels = defaultdict(set)
    for row in (row for table in rows.values() for row in rows_of(table)):
        channels[bisect(started, row["effect_time"]), row["broker_name"]].add(row["channel_id"])
    assert len(started) > 5
    assert {len(of) for of in channels.values()} == {1}
    assert len({channel for of in channels.values() for channel in of}) == len(channels)


def test_the_life_of_a_name_server() -> None:
    """It starts with the fleet and says its version; a restart is its stop, its start and its version once more."""
    fleet = fleet_like(TROUBLED, restarts=24, namesrvs=1, version="5.4.0")
    rows = list(rows_of(namesrv_events_from(fleet, DAY, "run")))
    begin_us = day_start_us(DAY)
    first, said, *others = rows
    assert [(row["kind"], row["seq"], row["version"]) for row in (first, said)] == [
        ("started", begin_us * 1_000, None),
        ("identified", begin_us * 1_000 + 1, 493),
    ]
    assert first == {
        **dict.fromkeys(bronze.NAMESRV_EVENTS.column_names),
        "namesrv_id": "10.255.0.1:9876",
        "namesrv_addr": "10.255.0.1:9876",
        "seq": begin_us * 1_000,
        "event_id": first["event_id"],
        "event_time": begin_us,
        "effect_time": begin_us,
        "kind": "started",
        "evidence": "planned by the fleet simulator",
        "source_file": "fleet-20260101-0",
        "source_offset": 1,
        "ingest_run": "run",
        "day": DAY,
    }
    assert [row["kind"] for row in others] == ["stopped", "started", "identified"] * 24
    assert [row["seq"] for row in rows] == sorted({row["seq"] for row in rows})
    assert len({row["event_id"] for row in rows}) == len(rows)


def test_topic_tables_are_somebodys_or_everybodys() -> None:
    """Each broker has its own topics, or all have the same; a change adds a queue to the last; without topics all are equal."""
    assert tables_of(TROUBLED, [0, 3]) == [(0, 0), (1, 3)]
    shared = fleet_like(TROUBLED, shared_topics=True)
    assert tables_of(shared, [0, 3]) == [(-1, 0), (-1, 3)]
    assert tables_of(fleet_like(TROUBLED, topics=0), [0, 3]) == [(-1, 0), (-1, 0)]
    own, common = rows_of(topic_configs_from([TROUBLED.topic_table(1, 3), shared.topic_table(-1, 0)], "run"))
    assert [(topic["topic"], topic["read_queue_nums"]) for topic in own["topics"]] == [
        ("b00001-topic-00000", 8),
        ("b00001-topic-00001", 8),
        ("b00001-topic-00002", 11),
    ]
    assert common["topics"][0]["topic"] == "topic-00000"
    assert (own["topic_count"], own["mappings"], own["ingest_run"]) == (3, [], "run")
