"""What a day's answers and closes say about settings: read as they are, and which registrations leave something out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from namesrv_core.inference.settings import Known, Value
from namesrv_day.settle.evidence import scans, votes
from namesrv_day.settle.settings import known_settings, settings_of
from namesrv_day.settle.settle import settle
from schemas import gold
from tests.day.settle_given import Given, Row, answered, asked_to, ended, life, registered, row, seq_at

START = [life(1_000, "start", "started"), life(1_001, "version", "identified", version=493)]
ROUTE = json.dumps({"queueDatas": [], "brokerDatas": []})
ORDERED = json.dumps({"orderTopicConf": "broker-a:4"})


def cast(given: Given, known: Known | None = None) -> dict[str, list[tuple[Value, int]]]:
    """Return what is voted for, by setting, with the number of votes."""
    found: dict[str, list[tuple[Value, int]]] = {}
    for vote in votes(given.input, known or known_settings(given.input)):
        found.setdefault(vote.name, []).append((vote.value, vote.answers))
    return found


def on(rows: dict[str, list[Row]], **given: Any) -> Given:
    return Given({**rows, "namesrv_events": [*START, *rows.get("namesrv_events", ())]}, **given)


def order_conf(ms: float, code: int, **values: Any) -> Row:
    """Return an order configuration of T, put (100) or deleted (102)."""
    said: Row = {
        "namespace": "ORDER_TOPIC_CONFIG",
        "config_key": "T",
        "config_value": "broker-a:4" if code == 100 else None,
    }
    return asked_to(ms, f"conf-{ms}", code, **{**said, **values})


def test_a_quiet_day_says_nothing() -> None:
    """And no single beat is read for it."""
    given = on({"registrations": [registered(2_000, "a")]})
    assert cast(given) == {}
    assert given.reads == []


def test_routes_with_an_order_configuration_say_that_it_is_put_into_routes() -> None:
    """And those without one, of a topic that has one, that it is not; of others and of refused answers nothing."""
    answers = [
        answered(3_000, "a", 105, "T", ROUTE),
        answered(5_000, "b", 105, "T", ROUTE),
        answered(5_001, "c", 105, "U", ROUTE),
        answered(5_002, "d", 105, "T", None, response_code=17),
        answered(7_000, "e", 105, "T", ROUTE),
        answered(7_001, "f", 105, "V", ORDERED),
        answered(7_002, "g", 105, None, ROUTE),
    ]
    admin = [
        order_conf(4_000, 100),
        order_conf(4_001, 100, config_key="U", namespace="OTHER"),
        order_conf(4_002, 100, config_key="U", response_code=1),
        order_conf(4_003, 100, config_key=None),
        order_conf(6_000, 102),
    ]
    given = on({"route_observations": answers, "admin_events": admin})
    assert sorted(cast(given)["order_message_enable"]) == [(False, 1), (True, 1)]


def test_order_configurations_of_the_day_before_count() -> None:
    """As long as they hold."""
    given = on({"route_observations": [answered(3_000, "a", 105, "T", ROUTE), answered(9_000, "b", 105, "T", ROUTE)]})
    assert cast(given) == {}
    kept = {"namespace": "ORDER_TOPIC_CONFIG", "config_key": "T", "config_value": "broker-a:4"}
    rows = {"route_observations": [answered(3_000, "a", 105, "T", ROUTE), answered(9_000, "b", 105, "T", ROUTE)]}
    given = on({**rows, "admin_events": [order_conf(4_000, 102)]}, carried={gold.KV_CONFIG_HISTORY: [kept]})
    assert cast(given) == {"order_message_enable": [(False, 1)]}


def test_an_open_setting_only_is_looked_for() -> None:
    """What the server says of itself needs no evidence."""
    rows = {"route_observations": [answered(7_001, "f", 105, "V", ORDERED)]}
    said = life(1_002, "said", "configured", properties="orderMessageEnable=true")
    assert cast(on(rows)) == {"order_message_enable": [(True, 1)]}
    assert cast(on({**rows, "namesrv_events": [said]})) == {}
    assert cast(on(rows, given={"order_message_enable": True})) == {}


def group(addrs: dict[str, str], perm: int = 4) -> str:
    """Return a route as it is sent, of a group that allows acting masters."""
    data = {"brokerName": "broker-a", "brokerAddrs": addrs, "enableActingMaster": True}
    queue = {"brokerName": "broker-a", "perm": perm, "readQueueNums": 4, "writeQueueNums": 4}
    return json.dumps({"brokerDatas": [data], "queueDatas": [queue]}, separators=(",", ":"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "found"),
    [
        (group({"0": "10.0.0.2:10911"}), [(True, 1)]),
        (group({"1": "10.0.0.2:10911"}), [(False, 1)]),
        (group({"0": "10.0.0.2:10911"}, perm=6), []),
        (group({"0": "10.0.0.9:10911"}), []),
    ],
)
def test_a_slave_that_stands_as_master_speaks_for_acting_masters(body: str, found: list[tuple[Value, int]]) -> None:
    """Who is a slave its registration tells, or the rows that the day begins with."""
    slave = registered(2_000, "a", broker_id=1, enable_acting_master=True)
    answers = [answered(3_000, "b", 105, "T", body)]
    expected = {"support_acting_master": found} if found else {}
    assert cast(on({"registrations": [slave], "route_observations": answers})) == expected
    kept = {"broker_name": "broker-a", "broker_addr": "10.0.0.2:10911", "broker_id": 1, "enable_acting_master": True}
    assert cast(on({"route_observations": answers}, carried={gold.BROKER_ADDR_HISTORY: [kept]})) == expected
    # A refused registration, or one that allows no acting master, makes no member.
    for said in ({"refusal": "x"}, {"enable_acting_master": False}):
        given = on({"registrations": [{**slave, **said}], "route_observations": answers})
        assert cast(given) == ({} if found == [(True, 1)] else expected)


def test_lists_that_are_refused_are_switched_off() -> None:
    """206 has a switch of its own; other refusals say nothing."""
    answers = [
        answered(2_000, "a", 206, None, "{}"),
        answered(2_001, "b", 206, None, None, response_code=1, remark="disable"),
        answered(2_002, "c", 224, "C", None, response_code=1, remark="disable"),
        answered(2_003, "d", 311, None, None, response_code=1, remark="broken"),
        answered(2_004, "e", 313, None, None, response_code=1, remark="disable"),
    ]
    found = cast(on({"route_observations": answers}))
    assert sorted(found["enable_all_topic_list"]) == [(False, 1), (True, 1)]
    assert found["enable_topic_list"] == [(False, 2)]


def test_silent_connections_speak_of_the_idle_limit() -> None:
    """Closed when the default one ended: for it; used after it: for another; closed late or by the timer: for nothing."""
    ends = [
        ended(200_000, "a", "idle", "namesrv", silent_ms=120_060),
        ended(200_001, "b", "idle", "namesrv", silent_ms=130_000),
        ended(200_002, "c", "idle", "timer", silent_ms=120_000),
        ended(200_003, "d", "late_close", "namesrv", silent_ms=300_010),
        ended(200_004, "e", "late_close", "namesrv", silent_ms=300_020),
    ]
    beats = [registered(2_000, "r")]
    given = on({"registrations": beats, "channel_events": ends})
    assert cast(given) == {"channel_max_idle_ms": [(120_000, 1)]}
    assert cast(on({"channel_events": ends})) == {}, "a stranger's connection"
    outlasted = life(300_000, "f", "idle_limit_outlasted")
    used = on({"registrations": beats, "channel_events": ends, "namesrv_events": [outlasted]})
    assert sorted(cast(used)["channel_max_idle_ms"], key=str) == [(120_000, 1), (300_000, 1)]


def scans_on(given: Given) -> tuple[dict[str, list[tuple[Value, int]]], list[int]]:
    """Return what is voted for of scans, by setting, and the closes that are theirs, in milliseconds."""
    found: dict[str, list[tuple[Value, int]]] = {}
    told = scans(given.input, known_settings(given.input), given.input.today["channel_events"])
    for vote in told.votes:
        found.setdefault(vote.name, []).append((vote.value, vote.answers))
    return found, [(seq - seq_at(0)) // 1_000_000 for seq in told.closes]


def expiring(number: int, beat_ms: int, lease_ms: int = 10_000) -> Row:
    """Return a registration of a broker of its own, over a connection of its own."""
    named: Row = {"broker_name": f"b{number}", "broker_addr": f"10.0.1.{number}:10911", "channel_id": f"c{number}#1"}
    return registered(beat_ms, f"r{number}-{beat_ms}", heartbeat_timeout_ms=lease_ms, **named)


def scanned(number: int, ms: float, **values: Any) -> Row:
    return ended(ms, f"close-{number}-{ms}", "close", "namesrv", **{"channel_id": f"c{number}#1", **values})


def test_closes_of_expired_brokers_tell_when_scans_run() -> None:
    """Period and phase; the other connections that one scan closes stand close behind the first."""
    beats = [expiring(1, 5_000), expiring(2, 5_001), expiring(3, 30_000)]
    closes = [scanned(1, 16_000), scanned(2, 16_050), scanned(3, 43_001)]
    assert scans_on(on({"registrations": beats, "channel_events": closes})) == (
        {"scan_period_ms": [(3_000, 2)], "scan_phase_us": [(1_000_000, 2)]},
        [16_000, 43_001],
    )
    known = [life(1_002, "configured", "configured", properties="scanNotActiveBrokerInterval=3000")]
    found, _ = scans_on(on({"registrations": beats, "channel_events": closes, "namesrv_events": known}))
    assert found == {"scan_phase_us": [(1_000_000, 2)]}


@pytest.mark.parametrize(
    ("beats", "closes"),
    [
        ([expiring(1, 2_000)], [scanned(1, 12_000)]),
        ([expiring(1, 2_000), expiring(1, 7_000)], [scanned(1, 16_000)]),
        ([expiring(1, 2_000), {**expiring(1, 2_001), "channel_id": "other#1"}], [scanned(1, 16_000)]),
        ([{**expiring(1, 2_000), "refusal": "a test"}], [scanned(1, 16_000)]),
        ([expiring(1, 2_000)], [scanned(1, 16_000, channel_id="stranger#1"), scanned(1, 17_000, channel_id=None)]),
        ([expiring(1, 2_000)], [ended(15_999, "idle", "idle", "timer", channel_id="c1#1"), scanned(1, 16_000)]),
        ([expiring(1, 2_000)], [{**scanned(1, 16_000), "closed_by": "client"}]),
    ],
    ids=["to the end", "renewed", "moved", "refused", "a stranger's", "idle", "by its client"],
)
def test_closes_of_all_others_tell_nothing(beats: list[Row], closes: list[Row]) -> None:
    """No lease on the connection had ended, or it was not the scan that found it."""
    assert scans_on(on({"registrations": beats, "channel_events": closes})) == ({}, [])


def test_a_process_that_stops_closes_what_it_has() -> None:
    """Whatever the leases are."""
    stop = [life(15_999, "stop", "stopped")]
    rows = {"registrations": [expiring(1, 2_000)], "channel_events": [scanned(1, 16_000)], "namesrv_events": stop}
    assert scans_on(on(rows)) == ({}, [])


def test_light_heartbeats_renew_a_lease_in_the_middle_of_a_bucket() -> None:
    """The broker was closed once and beat again soon: which of its beats was the last before is read one by one."""
    broker: Row = {"cluster_name": "C", "broker_name": "b1", "broker_addr": "10.0.1.1:10911", "code": 904}
    beats = [row(ms, f"h{ms}", **broker) for ms in (4_000, 6_000, 17_000, 19_000)]
    later = {**expiring(1, 17_500), "channel_id": "again#1"}
    rows = {"registrations": [expiring(1, 2_000), later], "heartbeats": beats}
    given = on({**rows, "channel_events": [scanned(1, 16_500)]})
    assert scans_on(given) == ({"scan_phase_us": [(1_500_000, 1)]}, [16_500])
    assert given.reads == [("heartbeats", False), ("registrations", False)]
    assert scans_on(on({**rows, "channel_events": [scanned(1, 15_900)]})) == ({}, [])


def test_leases_of_the_day_before_count() -> None:
    """The broker was heard for the last time before midnight."""
    kept = {**expiring(1, -9_000), "last_update_time": seq_at(-9_000) // 1_000, "heartbeat_timeout_ms": 10_000}
    given = on({"channel_events": [scanned(1, 2_500)]}, carried={gold.BROKER_LIVE_HISTORY: [kept]})
    assert scans_on(given) == ({"scan_phase_us": [(2_500_000, 1)]}, [2_500])


def test_closes_that_contradict_each_other_are_weighed() -> None:
    """The phase of most is taken, and what speaks against it is counted; they are never added up."""
    at_ms = [16_000, 21_002, 22_700, 26_003, 31_500]
    beats = [expiring(number, ms - 12_000) for number, ms in enumerate(at_ms)]
    closes = [scanned(number, ms) for number, ms in enumerate(at_ms)]
    given = on({"registrations": beats, "channel_events": closes})
    [period, phase] = [s for s in settings_of(settle(given.input).settings) if s.name.startswith("scan")]
    assert (period.value, period.source.value) == (5_000, "inferred")
    assert (phase.value, phase.source.value, phase.answers_for, phase.answers_against) == (1_000_000, "inferred", 3, 2)
    ticks = settle(given.input).context.schedule
    assert ticks.first_tick(seq_at(22_000), 0) == seq_at(26_003) - 1


def test_a_notification_is_sent_with_the_option_only() -> None:
    """905, which the server sends itself."""
    given = on({"namesrv_events": [life(5_000, "a", "min_broker_id_notified")]})
    assert cast(given) == {"notify_min_broker_id_changed": [(True, 1)]}


DELETION = "delete_topic_with_broker_registration"
WITH, WITHOUT = group({"0": "10.0.0.2:10911"}, perm=6), group({}, perm=6).replace("broker-a", "broker-b")
BEATS = [registered(10_000, "r1", "TU"), registered(20_000, "r2", "T")]


def asked_for_u(ms: float, body: str | None, code: int = 0) -> Row:
    """Return the answer to a question for the route of U, which the second registration leaves out."""
    asked: Row = {"response_code": code, "request_seq": seq_at(ms - 1)}
    return answered(ms, f"a{ms}", 105, "U", body, **asked)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (asked_for_u(25_000, WITH), [(False, 1)]),
        (asked_for_u(25_000, WITHOUT), [(True, 1)]),
        (asked_for_u(25_000, None, 17), [(True, 1)]),
        (asked_for_u(500_000, WITH), [(False, 1)]),
        (asked_for_u(500_000, WITHOUT), []),
        (asked_for_u(15_000, WITH), []),
        (asked_for_u(20_000.5, WITH), []),
        (answered(25_000, "a", 105, "T", WITH, request_seq=seq_at(24_999)), []),
        (answered(25_000, "a", 106, "U", WITH, request_seq=seq_at(24_999)), []),
    ],
    ids=[
        "stands",
        "gone",
        "no topic",
        "stands late",
        "gone when the lease was",
        "before",
        "under way",
        "of T",
        "no route",
    ],
)
def test_routes_of_topics_that_were_left_out_tell_whether_they_are_deleted(
    answer: Row, found: list[tuple[Value, int]]
) -> None:
    """The broker stands in them, or it does not although nothing else took it out."""
    given = on({"registrations": BEATS, "route_observations": [answer]})
    assert cast(given) == ({DELETION: found} if found else {})


@pytest.mark.parametrize(
    "rows",
    [
        {"registrations": [registered(22_000, "r3", "TU")]},
        {"registrations": [{**registered(22_000, "r3", "TU"), "broker_id": 1, "broker_addr": "10.0.0.3:10911"}]},
        {"channel_events": [ended(15_000, "e")]},
        {"channel_events": [ended(22_000, "e")]},
        {"unregistrations": [row(22_000, "u", broker_name="broker-a", broker_addr="10.0.0.2:10911", broker_id=0)]},
        {"admin_events": [asked_to(22_000, "d", 216, topic="U")]},
        {"admin_events": [asked_to(22_000, "d", 217, topic="U")]},
        {"namesrv_events": [life(15_000, "again", "started")]},
        {"namesrv_events": [life(22_000, "gap", "recording_gap")]},
    ],
    ids=["again", "a slave's", "closed before", "closed", "unregistered", "deleted", "put", "restart", "gap"],
)
def test_what_something_else_may_have_done_tells_nothing_of_deletion(rows: dict[str, list[Row]]) -> None:
    """Neither that the broker is gone from the route, nor that it stands there."""
    beats = [*BEATS, *rows.get("registrations", ())]
    answers = [asked_for_u(25_000, WITH), asked_for_u(25_001, WITHOUT)]
    assert cast(on({**rows, "registrations": beats, "route_observations": answers})) == {}


@pytest.mark.parametrize(
    "beats",
    [
        [BEATS[0], {**BEATS[1], "refusal": "x"}],
        [BEATS[0], {**BEATS[1], "broker_name": "b"}],
        [{**beat, "broker_id": 1} for beat in BEATS],
        BEATS[::-1],
        [BEATS[0], registered(20_000, "r2", "TUV")],
    ],
    ids=["refused", "another name's", "slave", "more", "all"],
)
def test_registrations_that_leave_out_nothing_are_no_question(beats: list[Row]) -> None:
    """What distinct tables a broker name registered, and when, is enough: no single beat is read."""
    ordered = [
        {**beat, "seq": at["seq"], "effect_time": at["effect_time"]} for beat, at in zip(beats, BEATS, strict=True)
    ]
    given = on({"registrations": ordered, "route_observations": [asked_for_u(25_000, WITHOUT)]})
    assert cast(given) == {}
    assert given.reads == []


def test_a_lease_that_ended_between_two_registrations_may_have_taken_the_topic() -> None:
    """Beats of the time in between tell, light ones too; without them only a route with the broker says something."""
    late = [registered(10_000, "r1", "TU"), registered(200_000, "r2", "T")]
    answers = [asked_for_u(210_000, WITHOUT)]
    assert cast(on({"registrations": late, "route_observations": answers})) == {}
    light = [
        row(ms, f"h{ms}", broker_addr="10.0.0.2:10911", broker_name="broker-a", code=904) for ms in (100_000, 190_000)
    ]
    heard = on({"registrations": late, "heartbeats": light, "route_observations": answers})
    assert cast(heard) == {DELETION: [(True, 1)]}
    short = [{**beat, "heartbeat_timeout_ms": 30_000} for beat in late]
    assert cast(on({"registrations": short, "heartbeats": light, "route_observations": answers})) == {}


def test_votes_go_to_the_process_that_they_are_about() -> None:
    """Each process has its own configuration."""
    answers = [answered(ms, f"{ms}", 206, None, "{}") for ms in (2_000, 3_000, 70_000)]
    restart = life(60_000, "restart", "started")
    given = on({"route_observations": answers, "namesrv_events": [restart]})
    found = votes(given.input, known_settings(given.input))
    assert {(v.life_seq, v.answers, v.evidence) for v in found} == {
        (seq_at(1_000), 2, ("2000", "3000")),
        (seq_at(60_000), 1, ("70000",)),
    }
