"""How a name server was configured, as far as is known without looking at answers."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from namesrv_core.inference.settings import Known, Life, Setting, Source, Statement, Votes, in_hindsight, settle
from namesrv_day.arrow import empty, table_of
from namesrv_day.settle import is_open, known_settings, namesrv_on, settings_of, settings_table
from schemas import bronze, gold
from tests.day.settle_given import DAY, NAMESRV, Given, asked_to, life, registered, seq_at

YESTERDAY, TOMORROW = DAY - dt.timedelta(days=1), DAY + dt.timedelta(days=1)
START = life(1_000, "start", "started")
IDENTIFIED = life(1_001, "version", "identified", version=493)


def setting(known: Known, name: str) -> Setting:
    (found,) = [s for s in settle(known) if s.name == name]
    return found


def written(known: Known, day: dt.date) -> pa.Table:
    return settings_table(known, NAMESRV, day, empty(bronze.ADDRESSES))


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
    """And one of which nothing tells the start, since ever. A further recorder begins no process."""
    first, further, start = (
        life(ms, f"{ms}", kind) for ms, kind in ((5_000, "observed_from"), (7_000, "observed_from"), (6_000, "started"))
    )
    for facts, begun in (
        ([first], [5_000]),
        ([first, further], [5_000]),
        ([start, further], [6_000]),
        ([first, start], [5_000, 6_000]),
    ):
        seen = known_settings(Given({"namesrv_events": facts}).input)
        assert seen.lives == [Life(seq_at(ms)) for ms in begun]
    assert known_settings(Given({"registrations": [registered(5_000, "a")]}).input).lives == [Life(0)]


def test_what_the_server_says_and_is_told_are_statements() -> None:
    """Answers about its configuration, and changes that it accepted: of one without an answer nobody knows."""
    changes = [
        asked_to(3_000, "b", 318, config_value="orderMessageEnable=true"),
        asked_to(3_001, "c", 318, config_value="orderMessageEnable=false", response_code=1),
        asked_to(3_002, "d", 318, config_value="orderMessageEnable=false", response_code=None),
        asked_to(3_003, "e", 318, config_value="orderMessageEnable=false", one_way=True),
        asked_to(3_004, "f", 205, broker_name="x"),
    ]
    said = life(2_000, "a", "configured", properties="enableTopicList=false")
    known = known_settings(Given({"namesrv_events": [START, said], "admin_events": changes}).input)
    assert known.statements == [
        Statement(seq_at(2_000), "a", {"enable_topic_list": False}, changes=False),
        Statement(seq_at(3_000), "b", {"order_message_enable": True}, changes=True),
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

    rows = written(known, TOMORROW)
    before = known_settings(Given({"namesrv_events": [START]}, settings_later=rows).input)
    assert setting(before, "order_message_enable") == in_hindsight(setting(known, "order_message_enable"))
    assert not is_open(before, "version")


def test_hindsight_is_what_the_first_of_the_later_days_found_of_a_start() -> None:
    """Defaults and later changes are nobody's finding about the start; of those who show it, the first alone is known."""
    life_of = [Life(seq_at(1_000), "5.4.0", "v")]
    found = [Known(life_of, votes=[Votes(seq_at(1_000), "order_message_enable", True, n, (f"{n}",))]) for n in (3, 5)]
    change = Statement(seq_at(2_000), "c", {"enable_topic_list": False}, changes=True)
    days = [(Known(life_of, [change]), 1), (found[0], 2), (found[1], 3)]
    rows = pa.concat_tables([written(known, DAY + dt.timedelta(days=n)) for known, n in reversed(days)])
    known = known_settings(Given({"namesrv_events": [START]}, settings_later=rows).input)
    assert {name: (s.evidence, s.answers_for) for (name, _), s in known.hindsight.items()} == {
        "version": (("v",), 0),
        "order_message_enable": (("3",), 0),
    }


def test_what_held_last_of_a_setting_that_changed_is_carried_on() -> None:
    """The change of a running process goes on; the name server of the next day is as it became."""
    change = Statement(seq_at(2_000), "c", {"order_message_enable": True}, changes=True)
    rows = written(Known([Life(seq_at(1_000), "5.4.0", "v")], [change]), DAY)
    known = known_settings(Given({}, day=TOMORROW, settings_before=rows).input)
    assert known.before["order_message_enable"].source is Source.CHANGED
    assert namesrv_on(known, TOMORROW).config.order_message_enable
    assert not namesrv_on(Known([Life(seq_at(1_000), "5.4.0", "v")], [change]), DAY).config.order_message_enable
