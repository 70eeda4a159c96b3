"""What of a day is replayed, and in which pieces."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from namesrv_core import V4_9_7, V5_4_0, Namesrv, NamesrvConfig, Profile
from namesrv_core.machine.schedule import STALL_NS
from namesrv_day.arrow.rows import rows_of
from namesrv_day.day.context import NamesrvDay
from namesrv_day.day.day_events import BEATS, Frames, day_events
from namesrv_day.plan.plan import Plan, may_be_quiet, planned, raw_beats, raw_filter, runs, uneventful
from tests.day.plan_rows import (
    DAY_S,
    FIRST_PERIOD,
    HOUR_S,
    VERSION,
    Row,
    beats,
    context,
    frames,
    hours,
    live,
    opened,
    others,
    row,
    us,
)
from tests.examples import examples

LIVE = "broker_live_history"
ALL_DAY = beats(10, DAY_S - 20)
TWO: Row = {"broker_name": "two", "broker_addr": "2:1"}
WHOLE_DAY = list(range(-1, 24))
SILENT_TWO = live(DAY_S - 60, channel_id="2:1#1", **TWO)
"""A second broker, whose lease goes on at the end of the day."""


def plan_of(
    *rows: Row, day: NamesrvDay | None = None, packs: int = 4, quiet_road: bool = True, **open_rows: pa.Table
) -> Plan:
    """Return the plan of a day with these events, with one broker that beat last just before midnight."""
    state = {LIVE: live()} | open_rows
    day = context() if day is None else day
    return planned(others(*rows), hours(*rows, live=state[LIVE]), state, day, packs, quiet_road=quiet_road)


def eventful_hours(plan: Plan, unit: str = "a:1:1") -> list[int]:
    """Return the hours of the day in which something happens to a unit."""
    of_unit = plan.eventful.filter(pc.field("unit") == unit)["period"].to_pylist()
    return sorted(period - FIRST_PERIOD for period in of_unit)


def quiet_units(plan: Plan) -> set[str]:
    """Return the units without any news."""
    return set(plan.nodes.filter(plan.nodes["is_quiet"])["unit"].to_pylist())


def both(one: pa.Table, other: pa.Table) -> pa.Table:
    """Return the open rows of two brokers."""
    return pa.concat_tables([one, other])


def test_a_broker_that_only_beats_is_quiet() -> None:
    """Nothing is replayed of it; what belongs to nobody and KV entries are never quiet."""
    plan = plan_of(*ALL_DAY)
    assert list(rows_of(plan.eventful)) == []
    assert quiet_units(plan) == {"a:1:1"}
    assert {(n["node"], n["unit"], n["is_quiet"]) for n in rows_of(plan.nodes)} == {
        ("a:1:1", "a:1:1", True),
        ("n:one", "a:1:1", True),
        ("c:1:1#1", "a:1:1", True),
        ("kv", "kv", False),
        ("elsewhere", "elsewhere", False),
    }


def test_registrations_beat_like_queries() -> None:
    """Old brokers register every 30 s, and say the same each time."""
    assert quiet_units(plan_of(*beats(10, DAY_S - 20, table="registrations"))) == {"a:1:1"}
    assert quiet_units(plan_of(*beats(10, DAY_S - 20, 60), *beats(40, DAY_S - 20, 60, "registrations"))) == {"a:1:1"}


SILENCES = [
    pytest.param(beats(10, 3 * HOUR_S + 600), beats(3 * HOUR_S + 760, DAY_S - 20), [3], id="in an hour"),
    pytest.param(beats(10, 4 * HOUR_S - 80), beats(4 * HOUR_S + 60, DAY_S - 20), [4], id="from one hour to the next"),
    pytest.param(beats(10, 4 * HOUR_S - 130), beats(4 * HOUR_S + 10, DAY_S - 20), [3, 4], id="across an hour's end"),
    pytest.param(beats(10, 4 * HOUR_S - 80), beats(4 * HOUR_S + 39, DAY_S - 20), [], id="no longer than the lease"),
    pytest.param([], beats(101, DAY_S - 20), [0], id="at first"),
    pytest.param([], beats(100, DAY_S - 20), [], id="at first, but no longer than the lease"),
    pytest.param(beats(10, DAY_S - 200), [], [23], id="at last"),
    pytest.param(beats(0, DAY_S - 120), [], [], id="at last, but no longer than the lease"),
    pytest.param(beats(10, 7 * HOUR_S), [], [7], id="for good"),
    pytest.param([], [], [0], id="all day"),
]


@pytest.mark.parametrize(("before", "after", "found"), SILENCES)
def test_a_silence_is_eventful(before: list[Row], after: list[Row], found: list[int]) -> None:
    """Where a lease may have ended, and until a scan has come for it, event by event."""
    plan = plan_of(*before, *after)
    assert eventful_hours(plan) == found
    assert quiet_units(plan) == (set() if found else {"a:1:1"})


def test_the_end_of_what_is_known_is_no_silence() -> None:
    """Nobody knows whether a lease ended after the last event."""
    for until_s, found in ((3_720, []), (3_721, [1])):
        assert eventful_hours(plan_of(*beats(0, 3_600), day=context(until_s=until_s))) == found


def test_beats_of_who_is_not_there_are_eventful() -> None:
    """A first beat may be refused, or change something."""
    assert eventful_hours(plan_of(*ALL_DAY, **{LIVE: live().slice(0, 0)})) == list(range(24))
    assert eventful_hours(plan_of(*ALL_DAY, row("registrations", 5), **{LIVE: live().slice(0, 0)})) == [0]


OTHERS = [
    pytest.param(row("unregistrations", 5 * HOUR_S + 10), [5], id="in the middle"),
    pytest.param(row("unregistrations", 5 * HOUR_S + 1), [4, 5], id="just after an hour began"),
    pytest.param(row("unregistrations", 6 * HOUR_S - 1), [5, 6], id="just before it ends"),
    pytest.param(row("unregistrations", 5 * HOUR_S + 10, lag_us=20_000_000), [4, 5], id="under way for long"),
    pytest.param(row("channel_events", 5 * HOUR_S + 10), [5], id="a close"),
    pytest.param(row("namesrv_events", 5 * HOUR_S + 10, kind="started"), [5], id="a start"),
    pytest.param(row("admin_events", 5 * HOUR_S + 10, code=205, broker_name="one"), [5], id="a permission"),
    pytest.param(row("admin_events", 5 * HOUR_S + 10, code=216), [5], id="no topic deleted"),
    pytest.param(row("admin_events", 5 * HOUR_S + 10, code=100), [], id="a KV entry"),
    pytest.param(row("channel_events", 5 * HOUR_S + 10, channel_id="9:9#1", remote_addr="9:9"), [], id="a client"),
]


@pytest.mark.parametrize(("event", "found"), OTHERS)
def test_any_other_event_is_eventful(event: Row, found: list[int]) -> None:
    """For the units that it concerns, and with what may have been under way at the same time."""
    plan = plan_of(*ALL_DAY, event)
    assert eventful_hours(plan) == found
    assert quiet_units(plan) == (set() if found else {"a:1:1"})


def test_a_topics_deletion_disturbs_those_who_have_it() -> None:
    """It is given to all who are not quiet, but wakes nobody else."""
    queues = opened("topic_queue_history", {"topic": "T"}, {**TWO, "topic": "U"})
    state = {LIVE: both(live(), SILENT_TWO), "topic_queue_history": queues}
    deletion = row("admin_events", 5 * HOUR_S + 10, code=216, topic="T")
    plan = plan_of(*ALL_DAY, *beats(DAY_S - 50, DAY_S - 20, **TWO), deletion, **state)
    assert (eventful_hours(plan), eventful_hours(plan, "a:2:1")) == ([5], [])
    assert quiet_units(plan) == {"a:2:1"}


@pytest.mark.parametrize(
    ("namesrv", "asks_ms", "apart_s", "is_quiet"),
    [
        (Namesrv(V4_9_7), 30_000, 15, True),
        (Namesrv(V5_4_0), 30_000, 15, True),
        (Namesrv(V5_4_0), 30_000, 25, False),
        (Namesrv(V5_4_0), 300_000, 60, True),
        (Namesrv(V5_4_0), 300_000, 110, False),
        (Namesrv(V5_4_0), 1_500, 1, False),
        (Namesrv(V5_4_0), -1, 15, False),
        (Namesrv(V5_4_0), 2**62, 15, False),
    ],
)
def test_slots_prove_what_they_are_narrow_enough_for(
    namesrv: Namesrv,
    asks_ms: int,
    apart_s: int,
    is_quiet: bool,  # noqa: FBT001  the expected answer
) -> None:
    """A beat in every slot, of half the lease at most; whoever asks for more than two minutes has slots for two minutes."""
    told = [*beats(5, HOUR_S, apart_s), row("registrations", 6, heartbeat_timeout_ms=asks_ms)]
    granted = live(last_s=0, heartbeat_timeout_ms=asks_ms if namesrv.profile.own_heartbeat_timeout else 120_000)
    plan = plan_of(*told, day=context(namesrv, until_s=HOUR_S), **{LIVE: granted})
    assert (eventful_hours(plan) == []) is is_quiet


def test_slots_that_were_too_wide_prove_nothing() -> None:
    """However the beats were condensed: one in every minute does not keep a lease of 30 s."""
    told = hours(*beats(10, DAY_S - 20, 60))
    state = {LIVE: live(heartbeat_timeout_ms=30_000)}
    assert set(range(24)) <= set(eventful_hours(planned(others(), told, state, context(), 4)))


def test_one_address_in_two_clusters_has_two_leases_in_5x() -> None:
    """4.x keys the live entry with the address alone: a beat of either renews it."""
    told = [*beats(10, DAY_S - 20, 60), *beats(40, DAY_S - 20, 60, cluster_name="D")]
    silent = [*beats(10, DAY_S - 20, 60), *beats(40, HOUR_S, 60, cluster_name="D")]
    in_both = {LIVE: both(live(), live(cluster_name="D"))}
    for profile, rows, found in (
        (V4_9_7, told, []),
        (V4_9_7, silent, []),
        (V5_4_0, told, []),
        (V5_4_0, silent, [1]),
    ):
        assert eventful_hours(plan_of(*rows, day=context(Namesrv(profile)), **in_both)) == found


# -- who takes part ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("day", "may_be"),
    [
        (context(), True),
        (context(Namesrv(V5_4_0)), True),
        (context(unknown_from_ms=1), False),
        (context(past_is_carried=True), False),
        (context(has_gap=True), False),
        (context(scan_halted=True), False),
        (context(Namesrv(V4_9_7, later=((9, Namesrv(V5_4_0)),))), False),
        (context(Namesrv(V5_4_0, NamesrvConfig(delete_topic_with_broker_registration=True))), False),
    ],
)
def test_some_days_are_replayed_whole(
    day: NamesrvDay,
    may_be: bool,  # noqa: FBT001  the expected answer
) -> None:
    """Where a beat may do more than renew a lease, or nobody scans."""
    assert may_be_quiet(day, hours(*ALL_DAY)) is may_be
    plan = plan_of(*ALL_DAY, day=day)
    assert eventful_hours(plan, "whole" if day.has_unknown_past else "a:1:1") == ([] if may_be else WHOLE_DAY)
    assert bool(quiet_units(plan)) is may_be


def test_a_name_server_that_stood_still_is_replayed_whole() -> None:
    """What was under way meanwhile may have raced with anything; one beat shows it."""
    late = row("heartbeats", 45, lag_us=STALL_NS // 1_000, **TWO)
    plan = plan_of(*ALL_DAY, late)
    assert (eventful_hours(plan), eventful_hours(plan, "a:2:1")) == (WHOLE_DAY, WHOLE_DAY)


def test_nobody_need_take_the_quiet_road() -> None:
    """It is a choice; without it, all of the day is eventful for those who were heard of."""
    plan = plan_of(*beats(10, 5_000), row("channel_events", 9), quiet_road=False, day=context(until_s=7_200))
    assert (eventful_hours(plan), quiet_units(plan)) == ([-1, 0, 1], set())
    assert eventful_hours(plan, "elsewhere") == []


def test_with_an_unknown_past_everything_is_one_unit() -> None:
    """In one pack: an answer shows rows of many brokers."""
    plan = plan_of(*ALL_DAY, *beats(10, 100, **TWO), day=context(unknown_from_ms=1))
    assert set(plan.nodes["unit"].to_pylist()) == {"whole"}
    assert set(plan.nodes["pack"].to_pylist()) == {plan.packs[0][0]}
    assert eventful_hours(plan, "whole") == WHOLE_DAY


# -- packs -------------------------------------------------------------------------------------------------------------


def fleet(*counts: int) -> list[Row]:
    """Return so many beats, one a second, of brokers whom nobody knows: all are replayed."""
    return [
        beat
        for n, count in enumerate(counts)
        for beat in beats(100 + 0.1 * n, 99.9 + count, 1, broker_name=f"b{n}", broker_addr=f"{n}:1")
    ]


def weights_of(plan: Plan) -> list[int]:
    """Return what the packs weigh, in their order."""
    return [weight for _, weight in plan.packs]


def test_packs_are_neighbours_of_about_equal_weight() -> None:
    """The heaviest comes first; there are no more packs than asked for, and none is empty."""
    plan = plan_of(*fleet(500, 200, 180, 100, 10), packs=2, **{LIVE: live().slice(0, 0)})
    # Two nodes each, and one each for KV entries and what belongs to nobody.
    assert weights_of(plan) == [502, 202 + 182 + 102 + 12 + 1 + 1]
    pack_of = {node["unit"]: node["pack"] for node in rows_of(plan.nodes)}
    assert {pack_of[f"a:{n}:1"] for n in (1, 2, 3, 4)} == {1 - pack_of["a:0:1"]}
    assert all(pack_of[node["unit"]] == node["pack"] for node in rows_of(plan.nodes))
    assert len(plan_of(packs=8, **{LIVE: live().slice(0, 0)}).packs) == 2


def test_a_pack_is_hardly_heavier_than_its_share() -> None:
    """By less than its heaviest unit; all units of a pack follow each other by name."""
    counts = [70, 5, 90, 5, 5, 60, 5, 100, 5, 30]
    plan = plan_of(*fleet(*counts), packs=3, **{LIVE: live().slice(0, 0)})
    assert max(weights_of(plan)) < sum(weights_of(plan)) / 3 + max(counts)
    pack_of = {node["unit"]: node["pack"] for node in rows_of(plan.nodes)}
    in_order = [pack_of[unit] for unit in sorted(pack_of)]
    assert in_order == sorted(in_order)
    assert len(set(in_order)) == 3


def test_what_is_carried_forward_weighs_little() -> None:
    """Rows of topics weigh as much as events where they are replayed, and little where they are not."""
    topics = opened("topic_queue_history", *({"topic": f"T{n}"} for n in range(160)))
    quiet = plan_of(*ALL_DAY, packs=1, topic_queue_history=topics)
    loud = plan_of(*ALL_DAY, row("channel_events", 30), packs=1, topic_queue_history=topics)
    nodes = 5
    assert weights_of(quiet) == [nodes + 160 // 16]
    assert weights_of(loud) == [nodes + 160 + 1 + 120]


# -- what a pack reads -------------------------------------------------------------------------------------------------

NODES = pa.table(
    {
        "node": ["a:1:1", "a", "n:one", "c:1:4000#1", "a:2:1", "n:two"],
        "unit": ["u", "u", "u", "u", "v", "v"],
    }
)
"""A unit has nodes of names and connections, too; beats without an address have a node of their own."""
EVENTFUL = pa.table({"unit": ["u", "w"], "period": [FIRST_PERIOD + 1, FIRST_PERIOD]})
OF_HOUR = [
    row("heartbeats", HOUR_S),
    row("heartbeats", HOUR_S + 1, broker_addr=None),
    row("registrations", 2 * HOUR_S - 1),
]
NOT_OF_HOUR = [
    row("heartbeats", HOUR_S - 1),
    row("heartbeats", 2 * HOUR_S),
    row("heartbeats", HOUR_S + 2, **TWO),
    row("heartbeats", HOUR_S + 3, broker_addr="3:1"),
]


def single(*rows: Row) -> pa.Table:
    """Return single beats as they are read."""
    return day_events(frames(*rows), tables=BEATS)


def test_beats_of_eventful_hours_are_found() -> None:
    """Those of the units' addresses, or without any, and of their periods."""
    found = raw_beats(single(*OF_HOUR, *NOT_OF_HOUR), NODES, EVENTFUL)
    assert sorted(found["event_id"].to_pylist()) == sorted(beat["event_id"] for beat in OF_HOUR)
    assert set(found["unit"].to_pylist()) == {"u"}
    assert raw_beats(single(*OF_HOUR), NODES, EVENTFUL.slice(1)).num_rows == 0


def test_a_reader_is_told_the_addresses_of_eventful_hours() -> None:
    """The beats of others, nearly all, need not be read; those without an address may be anybody's."""
    asked = raw_filter(NODES, EVENTFUL).to_pylist()
    assert [(of["broker_addr"], of["period"]) for of in asked] == [("1:1", FIRST_PERIOD + 1), (None, FIRST_PERIOD + 1)]
    assert raw_filter(NODES.slice(4), EVENTFUL).num_rows == 0


def runs_of(*rows: Row, namesrv: Namesrv | None = None, eventful: pa.Table = EVENTFUL) -> list[dict[str, Any]]:
    """Return the runs of what the eventful periods leave."""
    profile = (Namesrv(V4_9_7) if namesrv is None else namesrv).profile
    return list(rows_of(runs(uneventful(hours(*rows), NODES, eventful), profile).sort_by("seq")))


def test_periods_in_between_are_runs() -> None:
    """One for each distinct beat and bucket, from its first to its last; others and eventful periods have none."""
    found = runs_of(*beats(10, 3 * HOUR_S - 20), row("heartbeats", 5, **(TWO | {"broker_addr": "3:1"})))
    assert [(r["seq"], r["effect_us"]) for r in found] == [
        (us(10) * 1_000, us(HOUR_S - 20)),
        (us(2 * HOUR_S + 10) * 1_000, us(3 * HOUR_S - 20)),
    ]
    for run in found:
        assert (run["kind"], run["unit"], run["is_run"]) == ("heartbeats", "u", True)
        assert (run["broker_addr"], run["data_version"]) == ("1:1", VERSION)
        assert (run["received_us"], run["arrival_us"]) == (None, None)


def test_a_run_says_all_that_its_beats_say() -> None:
    """What a registration says is needed to try it."""
    said: Row = {"broker_id": 2, "ha_server_addr": "h", "enable_acting_master": True, "heartbeat_timeout_ms": 9_000}
    said |= {"zone_name": "z", "topic_config_digest": "d", "filter_servers": ["f"], "data_version": None}
    (found,) = runs_of(row("registrations", 1, **said))
    assert {name: found[name] for name in said} == said


def test_all_beats_of_a_live_entry_renew_its_lease() -> None:
    """Runs of one bucket last until the last beat in it, whatever that says; in 5.x a cluster has leases of its own."""
    told = [*beats(10, 600), *beats(40, 1_200, table="registrations"), row("heartbeats", 1_500, cluster_name="D")]
    assert {run["effect_us"] for run in runs_of(*told)} == {us(1_500)}
    assert [run["effect_us"] for run in runs_of(*told, namesrv=Namesrv(V5_4_0))] == [us(1_180), us(1_180), us(1_500)]


def test_hours_are_eventful_or_not() -> None:
    """Between them, what is replayed one by one and what is left add up to all beats."""
    rows = [*beats(10, 3 * HOUR_S - 20), *OF_HOUR, *NOT_OF_HOUR]
    left = uneventful(hours(*rows), NODES, EVENTFUL)
    read = raw_beats(single(*rows), NODES, EVENTFUL)
    outside = [beat for beat in rows if beat["broker_addr"] == "3:1"]
    assert sum(left["beats"].to_pylist()) + read.num_rows + len(outside) == len(rows)


# -- any beats at all --------------------------------------------------------------------------------------------------


def ended_leases(at_s: list[float], lease_s: float, until_s: float) -> list[float]:
    """Return when leases end before the next beat, or before the end."""
    return [at + lease_s for at, then in zip(at_s, [*at_s[1:], until_s], strict=True) if then - at > lease_s]


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=80),
    st.sampled_from([20, 45, 90, 120]),
    st.sampled_from([V4_9_7, V5_4_0]),
    st.sampled_from(["heartbeats", "registrations"]),
)
def test_no_lease_ends_in_an_uneventful_hour(gaps: list[int], lease_s: int, profile: Profile, table: str) -> None:
    """However beats lie: where a lease ends, single events are replayed until a scan has come; so is a unit with one."""
    at_s = [0.5 + sum(gaps[:n]) for n in range(len(gaps) + 1)]
    lease_s = lease_s if profile.own_heartbeat_timeout else 120
    asks: Row = {} if table == "heartbeats" else {"heartbeat_timeout_ms": lease_s * 1_000}
    state: Frames = {LIVE: live(last_s=0, heartbeat_timeout_ms=lease_s * 1_000)}
    told = hours(*(row(table, at, **asks) for at in at_s), live=state[LIVE])
    until_s = at_s[-1] + 1_000
    plan = planned(others(), told, state, context(Namesrv(profile), until_s=until_s), 2)
    found = set(eventful_hours(plan))
    ends = ended_leases([0, *at_s], lease_s, until_s)
    scans = [at + profile.scan_period_ms / 1_000 for at in ends]
    assert {int(at // HOUR_S) for at in (*ends, *scans)} <= found
    assert bool(quiet_units(plan)) is not bool(found)
