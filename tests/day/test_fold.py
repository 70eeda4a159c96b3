"""Beats folded into runs: what is taken beat by beat, and what the runs of all else say."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Profile
from namesrv_core.machine.schedule import STALL_NS
from namesrv_day.arrow import rows_of, with_columns
from namesrv_day.context import NamesrvDay
from namesrv_day.events import Frames
from namesrv_day.hours import PERIODS, Folded, folded
from tests.day.plan_rows import (
    DAY_S,
    FIRST_PERIOD,
    HOUR_S,
    VERSION,
    Row,
    beats,
    context,
    hours,
    live,
    opened,
    others,
    row,
    us,
)
from tests.examples import examples

LIVE, REPORTED = "broker_live_history", "data_version_history"
ALL_DAY = beats(10, DAY_S - 20)
TWO: Row = {"broker_name": "two", "broker_addr": "2:1"}
WHOLE_DAY = list(range(24))


def entry(last_s: float = -20, **values: Any) -> pa.Table:
    """Return the live entry of a broker that registered the version with which `plan_rows.beats` come."""
    return live(last_s, data_version=VERSION, **values)


STATE = {LIVE: entry(), REPORTED: opened(REPORTED, {"data_version": VERSION})}
"""One broker, which beat last just before midnight."""
STATE_OF_TWO = {
    LIVE: pa.concat_tables([entry(), entry(channel_id="2:1#1", **TWO)]),
    REPORTED: opened(REPORTED, {"data_version": VERSION}, {"data_version": VERSION, **TWO}),
}


def fold(*rows: Row, day: NamesrvDay | None = None, broken: pa.Table | None = None, **open_rows: pa.Table) -> Folded:
    """Return the beats of a day with these events, folded. In 4.x live entries have no cluster."""
    state: Frames = STATE | open_rows
    day = context() if day is None else day
    if not day.namesrv.profile.live_key_has_cluster:
        nobody = pa.nulls(state[LIVE].num_rows, pa.string())
        state = {**state, LIVE: with_columns(state[LIVE], cluster_name=nobody)}
    return folded(hours(*rows, live=state[LIVE]), others(*rows), state, day, broken)


def single_hours(found: Folded, addr: str | None = "1:1") -> list[int]:
    """Return the hours of the day in which the beats of an address are taken one by one."""
    of = found.singles.to_pylist()
    return sorted(one["period"] - FIRST_PERIOD for one in of if one["broker_addr"] == addr)


@pytest.mark.parametrize("profile", [V4_9_7, V5_4_0], ids=lambda profile: profile.name)
@pytest.mark.parametrize(
    "told",
    [
        ALL_DAY,
        beats(10, DAY_S - 20, table="registrations"),
        [*beats(10, DAY_S - 20, 60), *beats(40, DAY_S - 20, 60, "registrations")],
    ],
    ids=["queries", "registrations", "both"],
)
def test_a_day_of_equal_beats_is_one_run(profile: Profile, told: list[Row]) -> None:
    """Of each thing that a broker says again and again; each lasts until the last beat of all."""
    found = fold(*told, day=context(Namesrv(profile)))
    assert found.singles.num_rows == 0
    runs = list(rows_of(found.runs))
    assert [run["kind"] for run in runs] == sorted({one["table"] for one in told})
    assert {run["effect_us"] for run in runs} == {max(one["effect_time"] for one in told)}
    assert {run["seq"] for run in runs} == {
        min(one["seq"] for one in told if one["table"] == kind) for kind in {one["table"] for one in told}
    }
    assert sum(found.hours["beats"].to_pylist()) == len(told)


@pytest.mark.parametrize(
    ("profile", "beat", "first"),
    [
        (V4_9_7, row("heartbeats", 9), False),
        (V4_9_7, row("heartbeats", 9, data_version=None), True),
        (V4_9_7, row("heartbeats", 9, data_version={**VERSION, "counter": 2}), True),
        (V4_9_7, row("heartbeats", 9, data_version={**VERSION, "state_version": 5}), True),
        (V4_9_7, row("heartbeats", 9, broker_addr="3:1"), True),
        (V4_9_7, row("heartbeats", 9, code=904, data_version=None), True),
        (V5_4_0, row("heartbeats", 9, code=904, data_version=None), False),
        (V5_4_0, row("heartbeats", 9, cluster_name="D"), True),
        (V4_9_7, row("heartbeats", 9, response_code=2), True),
        (V4_9_7, row("registrations", 9), False),
        (V4_9_7, row("registrations", 9, channel_id="another"), True),
        (V4_9_7, row("registrations", 9, ha_server_addr="h"), True),
        (V4_9_7, row("registrations", 9, broker_name="other"), True),
    ],
)
def test_what_does_not_plainly_renew_a_lease_is_taken_by_itself(profile: Profile, beat: Row, *, first: bool) -> None:
    """Plain is what names a live entry, and what it registered and its broker reported last."""
    day = context(Namesrv(profile), until_s=60)
    assert single_hours(fold(beat, day=day), beat["broker_addr"]) == ([0] if first else [])


SILENCES = [
    pytest.param(beats(10, 3 * HOUR_S + 600), beats(3 * HOUR_S + 760, DAY_S - 20), [3], id="in an hour"),
    pytest.param(beats(10, 4 * HOUR_S - 80), beats(4 * HOUR_S + 60, DAY_S - 20), [4], id="from one hour to the next"),
    pytest.param(beats(10, 4 * HOUR_S - 130), beats(4 * HOUR_S + 10, DAY_S - 20), [3, 4], id="across an hour's end"),
    pytest.param(beats(10, 4 * HOUR_S - 80), beats(4 * HOUR_S + 39, DAY_S - 20), [], id="no longer than the lease"),
    pytest.param([], beats(101, DAY_S - 20), [0], id="at first"),
    pytest.param([], beats(100, DAY_S - 20), [], id="at first, but no longer than the lease"),
    pytest.param(beats(10, DAY_S - 200), [], [23], id="at last"),
    pytest.param(beats(0, DAY_S - 120), [], [], id="at last, but no longer than the lease"),
]


@pytest.mark.parametrize(("before", "after", "found"), SILENCES)
def test_beats_beside_a_silence_are_taken_one_by_one(before: list[Row], after: list[Row], found: list[int]) -> None:
    """Where a lease may have ended, and until a scan has come for it."""
    assert single_hours(fold(*before, *after)) == found


def test_the_end_of_what_is_known_is_no_silence() -> None:
    """Nobody knows whether a lease ended after the last event."""
    for until_s, found in ((3_720, []), (3_721, [1])):
        assert single_hours(fold(*beats(0, 3_600), day=context(until_s=until_s))) == found


OTHERS = [
    pytest.param(row("unregistrations", 5 * HOUR_S + 10), [5], id="in the middle"),
    pytest.param(row("unregistrations", 5 * HOUR_S + 1), [4, 5], id="just after an hour began"),
    pytest.param(row("unregistrations", 6 * HOUR_S - 1), [5, 6], id="just before it ends"),
    pytest.param(row("unregistrations", 5 * HOUR_S + 10, lag_us=20_000_000), [4, 5], id="under way for long"),
    pytest.param(row("channel_events", 5 * HOUR_S + 10), [5], id="a close"),
    pytest.param(
        row("channel_events", 5 * HOUR_S + 10, channel_id="9:9#1", remote_addr="1:1"), [5], id="of its address"
    ),
    pytest.param(row("namesrv_events", 5 * HOUR_S + 10, kind="started"), [5], id="a start"),
    pytest.param(row("admin_events", 5 * HOUR_S + 10, code=205, broker_name="one"), [5], id="a permission"),
    pytest.param(row("admin_events", 5 * HOUR_S + 10, code=205, broker_name="two"), [], id="somebody else's"),
    pytest.param(row("admin_events", 5 * HOUR_S + 10, code=100), [], id="a KV entry"),
    pytest.param(row("channel_events", 5 * HOUR_S + 10, channel_id="9:9#1", remote_addr="9:9"), [], id="a client"),
    pytest.param(row("admin_events", 5 * HOUR_S + 10, code=216, topic="T"), [5], id="a topic of its own deleted"),
    pytest.param(row("admin_events", 5 * HOUR_S + 10, code=216, topic="U"), [], id="another topic deleted"),
]


@pytest.mark.parametrize(("event", "found"), OTHERS)
def test_beats_beside_another_event_are_taken_one_by_one(event: Row, found: list[int]) -> None:
    """Of those whom it concerns, with what may have been under way at the same time; runs end there and begin again."""
    queues = opened("topic_queue_history", {"topic": "T"}, {**TWO, "topic": "U"})
    folds = fold(*ALL_DAY, event, topic_queue_history=queues)
    assert single_hours(folds) == found
    assert folds.runs.num_rows == (2 if found else 1)
    assert sum(folds.hours["beats"].to_pylist()) == len(ALL_DAY) - 120 * len(found)


def test_what_was_under_way_while_the_name_server_stood_still_is_taken_one_by_one() -> None:
    """It may have raced with anything; one beat shows it."""
    late = row("heartbeats", 45, lag_us=STALL_NS // 1_000, **TWO)
    found = fold(*ALL_DAY, late, **STATE_OF_TWO)
    assert (single_hours(found), single_hours(found, "2:1")) == ([0], [0])


@pytest.mark.parametrize(
    ("day", "found"),
    [
        (context(Namesrv(V5_4_0)), []),
        (context(unknown_from_ms=1), []),
        (context(past_is_carried=True), []),
        (context(has_gap=True), []),
        (context(Namesrv(V4_9_7, later=((us(9 * HOUR_S + 60) * 1_000, Namesrv(V5_4_0)),))), [9]),
    ],
)
def test_whoever_beats_is_taken_beat_by_beat(day: NamesrvDay, found: list[int]) -> None:
    """Where the same beat may do something else; that something of the past is unknown is no reason."""
    assert single_hours(fold(*ALL_DAY, day=day)) == found


def test_what_was_no_run_is_taken_one_by_one() -> None:
    """Who replayed the runs has seen it; an address that is NULL is one."""
    broken = pa.table({"broker_addr": ["1:1", None], "period": [FIRST_PERIOD + 7, FIRST_PERIOD + 8]}, schema=PERIODS)
    found = fold(*ALL_DAY, broken=broken)
    assert single_hours(found) == [7]
    assert sorted(run["seq"] for run in rows_of(found.runs)) == [us(10) * 1_000, us(8 * HOUR_S + 10) * 1_000]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("namesrv", "asks_ms", "apart_s", "is_run"),
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
    is_run: bool,  # noqa: FBT001  the expected answer
) -> None:
    """A beat in every slot, of half the lease at most; whoever asks for more than two minutes has slots for two minutes."""
    told = [*beats(5, HOUR_S, apart_s), row("registrations", 6, heartbeat_timeout_ms=asks_ms)]
    granted = entry(last_s=0, heartbeat_timeout_ms=asks_ms if namesrv.profile.own_heartbeat_timeout else 120_000)
    found = fold(*told, day=context(namesrv, until_s=HOUR_S), **{LIVE: granted})
    assert (0 not in single_hours(found)) is is_run


def test_slots_that_were_too_wide_prove_nothing() -> None:
    """However the beats were condensed: one in every minute does not keep a lease of 30 s."""
    told = hours(*beats(10, DAY_S - 20, 60))
    found = folded(told, others(), STATE | {LIVE: entry(heartbeat_timeout_ms=30_000)}, context())
    assert single_hours(found) == WHOLE_DAY


@pytest.mark.slow
def test_one_address_in_two_clusters_has_two_leases_in_5x() -> None:
    """4.x keys the live entry with the address alone: a beat of either renews it."""
    told = [*beats(10, DAY_S - 20, 60), *beats(40, DAY_S - 20, 60, cluster_name="D")]
    silent = [*beats(10, DAY_S - 20, 60), *beats(40, HOUR_S, 60, cluster_name="D")]
    reported = opened(REPORTED, {"data_version": VERSION}, {"data_version": VERSION, "cluster_name": "D"})
    in_both = pa.concat_tables([entry(), entry(cluster_name="D")])
    for profile, rows, found in ((V4_9_7, told, []), (V4_9_7, silent, []), (V5_4_0, told, []), (V5_4_0, silent, [1])):
        state = {LIVE: in_both if profile is V5_4_0 else entry(), REPORTED: reported}
        assert single_hours(fold(*rows, day=context(Namesrv(profile)), **state)) == found


def test_a_run_says_all_that_its_beats_say() -> None:
    """What a registration says is needed to take it."""
    said: Row = {"broker_id": 2, "enable_acting_master": True, "zone_name": "z", "topic_config_digest": "d"}
    said |= {"filter_servers": ["f"], "data_version": VERSION, "channel_id": "1:1#1"}
    (found,) = rows_of(fold(row("registrations", 1, **said), day=context(until_s=60)).runs)
    assert {name: found[name] for name in said} == said
    assert (found["is_run"], found["received_us"], found["arrival_us"]) == (True, None, None)


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
def test_no_lease_ends_in_the_middle_of_a_run(gaps: list[int], lease_s: int, profile: Profile, table: str) -> None:
    """However beats lie: runs end where a lease ends, and begin again when a scan has come."""
    at_s = [0.5 + sum(gaps[:n]) for n in range(len(gaps) + 1)]
    lease_s = lease_s if profile.own_heartbeat_timeout else 120
    asks: Row = {} if table == "heartbeats" else {"heartbeat_timeout_ms": lease_s * 1_000}
    state = {LIVE: entry(last_s=0, heartbeat_timeout_ms=lease_s * 1_000)}
    until_s = at_s[-1] + 1_000
    found = fold(*(row(table, at, **asks) for at in at_s), day=context(Namesrv(profile), until_s=until_s), **state)
    spans = [(run["seq"] // 1_000, run["effect_us"]) for run in rows_of(found.runs)]
    for end in ended_leases([0, *at_s], lease_s, until_s):
        scanned = us(end + profile.scan_period_ms / 1_000)
        assert not any(first <= scanned and us(end) <= last for first, last in spans)
    singles = {one["period"] for one in found.singles.to_pylist()}
    taken = sum(us(at) // (HOUR_S * 1_000_000) in singles for at in at_s)
    assert taken + (pc.sum(found.hours["beats"]).as_py() or 0) == len(at_s)


def test_a_broker_that_reconnects_every_minute_is_replayed_beat_by_beat() -> None:
    """All day: what the statement holds grows with the events, not with the connections times the events, or it never ends."""
    minutes = range(60, DAY_S - 60, 60)
    told = [row("registrations", s, channel_id=f"1:1#{s}", data_version=VERSION) for s in minutes]
    lost = [row("channel_events", s + 30, channel_id=f"1:1#{s}", remote_addr="1:1") for s in minutes]
    found = fold(*told, *lost)
    assert found.runs.num_rows == 0
    assert single_hours(found) == WHOLE_DAY
