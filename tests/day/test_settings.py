"""How a name server was configured, as far as is known without looking at answers."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from namesrv_core.inference.settings import Known, Life, Setting, Source, Statement, Votes
from namesrv_core.inference.settle import settle
from namesrv_day.arrow.rows import table_of
from namesrv_day.settle.settings import (
    is_open,
    known_settings,
    namesrv_on,
    settings_of,
    settings_table,
    under_idle_limit,
)
from schemas import gold
from tests.day.settle_given import DAY, NAMESRV, Given, asked_to, ended, life, registered, seq_at

YESTERDAY, TOMORROW = DAY - dt.timedelta(days=1), DAY + dt.timedelta(days=1)
START = life(1_000, "start", "started")
IDENTIFIED = life(1_001, "version", "identified", version=493)


def setting(known: Known, name: str) -> Setting:
    (found,) = [s for s in settle(known) if s.name == name]
    return found


def written(known: Known, day: dt.date) -> pa.Table:
    return settings_table(known, NAMESRV, day)


def test_processes_are_told_by_their_starts_and_versions_by_their_first_answers() -> None:
    """What was identified before the second start is the first one's, and a later answer changes nothing."""
    facts = [
        START,
        IDENTIFIED,
        life(2_000, "again", "identified", version=407),
        life(60_000, "restart", "started"),
        life(60_001, "other", "identified", version=407),
    ]
    known = known_settings(Given({"namesrv_events": facts}).input)
    assert known.lives == [Life(seq_at(1_000), "5.4.0", "version"), Life(seq_at(60_000), "4.9.7", "other")]


def test_a_recording_that_begins_in_mid_life_has_a_process_since_it_was_first_seen() -> None:
    """And one of which nothing tells the start, since ever."""
    seen = known_settings(Given({"namesrv_events": [life(5_000, "a", "observed_from")]}).input)
    assert seen.lives == [Life(seq_at(5_000))]
    assert known_settings(Given({"registrations": [registered(5_000, "a")]}).input).lives == [Life(0)]


def test_what_the_server_says_and_is_told_are_statements() -> None:
    """Answers about its configuration, and changes that it accepted, or (of these nobody knows) may have."""
    changes = [
        asked_to(3_000, "b", 318, config_value="orderMessageEnable=true"),
        asked_to(3_001, "c", 318, config_value="orderMessageEnable=false", response_code=1),
        asked_to(3_002, "d", 318, config_value="orderMessageEnable=false", response_code=None),
        asked_to(3_003, "e", 318, config_value="orderMessageEnable=false", one_way=True),
        asked_to(3_004, "f", 205, broker_name="x"),
    ]
    said = life(2_000, "a", "configured", properties="enableTopicList=false")
    known = known_settings(Given({"namesrv_events": [START, said], "admin_events": changes}).input)
    told = {"orderMessageEnable": "true"}
    doubtful = {"orderMessageEnable": "false"}
    assert known.statements == [
        Statement(seq_at(2_000), "a", {"enable_topic_list": False}, changes=False, lines={"enableTopicList": "false"}),
        Statement(seq_at(3_000), "b", {"order_message_enable": True}, changes=True, lines=told),
        Statement(seq_at(3_002), "d", {}, changes=True, lines=doubtful, is_certain=False),
        Statement(seq_at(3_003), "e", {}, changes=True, lines=doubtful, is_certain=False),
    ]


@pytest.mark.parametrize(("versions", "expected"), [((485, 407), "5.3.6"), ((407,), "4.9.7"), ((), "4.9.7")])
def test_a_server_that_nobody_identified_is_of_its_newest_brokers_generation(
    versions: tuple[int, ...], expected: str
) -> None:
    """That is looked up only where nothing else tells."""
    beats = [registered(5_000 + n, f"{n}", request_version=version) for n, version in enumerate(versions)]
    given = Given({"namesrv_events": [START], "registrations": beats})
    version = setting(known_settings(given.input), "version")
    assert (version.value, version.source) == (expected, Source.DEFAULT)
    assert given.reads == [("registrations", True)]
    for told in (
        Given({"namesrv_events": [START, IDENTIFIED], "registrations": beats}),
        Given({"namesrv_events": [START], "registrations": beats}, given={"version": "5.4.0"}),
        Given({"registrations": beats}, settings_before=written(known_settings(given.input), YESTERDAY)),
    ):
        known_settings(told.input)
        assert told.reads == []


def test_settings_of_other_days_are_found_again() -> None:
    """What a day wrote is where the next one starts, and what an earlier one of the same process knows in hindsight."""
    votes = [Votes(seq_at(1_000), "order_message_enable", True, 3, ("a", "b", "c"))]
    known = Known([Life(seq_at(1_000), "5.4.0", "v")], votes=votes)
    rows = written(known, DAY)
    assert rows.schema == table_of((), gold.NAMESRV_SETTINGS).schema
    assert sorted(settings_of(rows)) == sorted(settle(known))

    after = known_settings(Given({}, day=TOMORROW, settings_before=rows).input)
    assert after.before == {s.name: s for s in settle(known)}
    assert after.lives == [Life(seq_at(1_000))]
    assert not is_open(after, "order_message_enable")
    assert is_open(after, "enable_topic_list")

    before = known_settings(Given({"namesrv_events": [START]}, settings_later=rows).input)
    assert setting(before, "order_message_enable") == setting(known, "order_message_enable")
    assert not is_open(before, "version")


def test_hindsight_is_what_the_first_of_the_later_days_found_of_a_start() -> None:
    """Defaults and later changes are nobody's finding about the start."""
    life_of = [Life(seq_at(1_000), "5.4.0", "v")]
    found = [Known(life_of, votes=[Votes(seq_at(1_000), "order_message_enable", True, n, ())]) for n in (3, 5)]
    change = Statement(seq_at(2_000), "c", {"enable_topic_list": False}, changes=True)
    days = [(Known(life_of, [change]), 1), (found[0], 2), (found[1], 3)]
    rows = pa.concat_tables([written(known, DAY + dt.timedelta(days=n)) for known, n in reversed(days)])
    known = known_settings(Given({"namesrv_events": [START]}, settings_later=rows).input)
    assert {name: s.answers_for for (name, _), s in known.hindsight.items()} == {
        "version": 1,
        "order_message_enable": 3,
    }


def test_what_held_last_of_a_setting_that_changed_is_carried_on() -> None:
    """The change of a running process goes on; the name server of the next day is as it became."""
    change = Statement(seq_at(2_000), "c", {"order_message_enable": True}, changes=True)
    rows = written(Known([Life(seq_at(1_000), "5.4.0", "v")], [change]), DAY)
    known = known_settings(Given({}, day=TOMORROW, settings_before=rows).input)
    assert known.before["order_message_enable"].source is Source.CHANGED
    assert namesrv_on(known, TOMORROW).config.order_message_enable
    assert not namesrv_on(Known([Life(seq_at(1_000), "5.4.0", "v")], [change]), DAY).config.order_message_enable


ENDS = [
    ended(120_000, "a", "idle", "timer", silent_ms=120_000, channel_id="c:1#500"),
    ended(120_000.001, "b", "close", "timer", silent_ms=120_000, channel_id="c:1#500"),
    ended(600_003, "c", "late_close", "namesrv", silent_ms=600_003, channel_id="c:1#500"),
    ended(700_000, "d", "close", "client", channel_id="c:2#600"),
]


@pytest.mark.parametrize(
    ("limit_ms", "ends"),
    [
        (120_000, [("idle", "timer"), ("close", "timer")]),
        (None, [("close", "namesrv")]),
        (600_000, [("idle", "namesrv")]),
        (300_000, [("close", "namesrv")]),
    ],
)
def test_a_longer_idle_limit_moves_the_end_of_a_connection(limit_ms: int | None, ends: list[tuple[str, str]]) -> None:
    """What the timer is said to have done did not happen, and the packet that came later was the end."""
    given = Given({"channel_events": ENDS[::-1]}).input
    known = Known([Life(400, "5.4.0", "v")], votes=[Votes(400, "channel_max_idle_ms", limit_ms, 1, ("a",))])
    found = under_idle_limit(given, namesrv_on(known, DAY), is_given=False).sort_by("seq")
    assert found.schema == given.today["channel_events"].schema
    assert list(zip(found["kind"].to_pylist(), found["closed_by"].to_pylist(), strict=True)) == [
        *ends,
        ("close", "client"),
    ]


CUT_OFF = [  # the last byte came 53 s before the broker's RST, and another connection ends in time
    ended(100_000, "e", "exception", "client", silent_ms=53_000, channel_id="c:1#500"),
    ended(100_000.001, "f", "close", "client", silent_ms=53_000, channel_id="c:1#500"),
    ended(100_001, "g", "close", "namesrv", silent_ms=30_040, channel_id="c:2#600"),
]


def limit_stated(limit_ms: int) -> Known:
    """Return what is known where the name server has said its idle limit."""
    stated = Statement(seq_at(2_000), "s", {"channel_max_idle_ms": limit_ms}, changes=False)
    return Known([Life(0, "5.4.0", "v")], [stated])


def test_under_a_shorter_idle_limit_a_connection_that_was_silent_for_longer_had_ended() -> None:
    """With the limit, without a packet: by the timer, though what is seen comes later; what comes in time stays."""
    given = Given({"channel_events": CUT_OFF}).input
    found = under_idle_limit(given, namesrv_on(limit_stated(30_000), DAY), is_given=False)
    assert found.schema == given.today["channel_events"].schema
    names = ("event_id", "kind", "closed_by", "silent_ms", "seq", "effect_time")
    ends = [tuple(row[name] for name in names) for row in found.to_pylist()]
    due = given.today["channel_events"].filter(pc.field("event_id") == "e")["effect_time"][0].as_py() - dt.timedelta(
        seconds=23
    )
    assert ends[:2] == [
        ("e", "idle", "timer", 30_000, seq_at(77_000), due),
        ("f", "close", "timer", 30_000, seq_at(77_000.001) + 1, due + dt.timedelta(microseconds=1)),
    ]
    assert [end[0] for end in ends[2:]] == ["g"]
    kept = under_idle_limit(given, namesrv_on(limit_stated(60_000), DAY), is_given=False)
    assert kept.select(names).to_pylist() == given.today["channel_events"].sort_by("seq").select(names).to_pylist()


@pytest.mark.parametrize(
    ("thaw_ms", "expected_ms"), [(99_900, [100_000] * 2), (90_000, [90_000] * 2), (76_000, [77_000] * 2)]
)
def test_a_frozen_name_server_closes_what_is_idle_when_it_has_thawed(thaw_ms: int, expected_ms: list[int]) -> None:
    """Its close then is the one; one that comes later found the connection closed."""
    waited = [registered(thaw_ms, "w", received_ms=70_000, channel_id="c:3#1", response_code=0)]
    waited.insert(0, registered(69_999, "b", channel_id="c:3#1", response_code=0))
    given = Given({"channel_events": CUT_OFF[:2], "registrations": waited}).input
    found = under_idle_limit(given, namesrv_on(limit_stated(30_000), DAY), is_given=False)
    assert [round((seq - seq_at(0)) / 1_000_000) for seq in found["seq"].to_pylist()] == expected_ms


def test_what_had_ended_on_the_day_before_ends_where_the_day_begins() -> None:
    """That day is told."""
    late = [ended(10_000, "e", "close", "client", silent_ms=53_000, channel_id="c:1#500")]
    found = under_idle_limit(
        Given({"channel_events": late}).input, namesrv_on(limit_stated(30_000), DAY), is_given=False
    )
    assert found["seq"].to_pylist() == [seq_at(0)]


def test_a_limit_that_is_given_is_the_one_with_which_captures_were_read() -> None:
    """Their ends are as they stand."""
    given = Given({"channel_events": ENDS}).input
    known = Known([Life(400, "5.4.0", "v")], given={"channel_max_idle_ms": 600_000})
    assert under_idle_limit(given, namesrv_on(known, DAY), is_given=True)["event_id"].to_pylist() == ["a", "b", "d"]


def test_a_connection_keeps_the_limit_with_which_it_was_opened() -> None:
    """The process that started later has a longer one: ends of connections to the one before stay as they are."""
    restart = seq_at(60_000)
    votes = [Votes(restart, "channel_max_idle_ms", 600_000, 1, ("a",))]
    known = Known([Life(seq_at(0), "5.4.0", "v"), Life(restart)], votes=votes)
    old = [{**row, "channel_id": f"c:1#{seq_at(1_000)}"} for row in ENDS[:3]]
    new = [{**row, "event_id": f"{row['event_id']}2", "channel_id": f"c:2#{seq_at(61_000)}"} for row in ENDS[:3]]
    given = Given({"channel_events": [*old, *new]}).input
    found = under_idle_limit(given, namesrv_on(known, DAY), is_given=False)
    assert sorted(found["event_id"].to_pylist()) == ["a", "b", "c2"]
