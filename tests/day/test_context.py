"""What a day hands on beside its rows: whether scans go on at all, when they tick, and what is not known."""

from __future__ import annotations

import datetime as dt

import pytest

from namesrv_core import V4_9_7, Namesrv, NamesrvConfig
from namesrv_core.machine.schedule import START_BEFORE_FIRST_ACCEPT_NS
from namesrv_day.arrow.rows import table_of
from namesrv_day.day.context import NamesrvDay, Ticks, known_until, namesrv_day
from namesrv_day.settle.settle import settle
from schemas import gold
from tests.day.settle_given import DAY, NAMESRV, Given, Row, asked_to, ended, life, registered, seq_at

YESTERDAY, TOMORROW = DAY - dt.timedelta(days=1), DAY + dt.timedelta(days=1)
MS = 1_000_000


def day_of(given: Given, namesrv: Namesrv | None = None) -> NamesrvDay:
    """Return the day, of whose scans nothing is known."""
    return namesrv_day(given.input, namesrv or Namesrv(V4_9_7), Ticks(), _until(given))


def _until(given: Given) -> int:
    hours = given.input.today["hours"]["last_us"].to_pylist()
    return known_until(given.input, max(hours, default=None))


def test_a_day_is_known_until_its_last_event() -> None:
    """Beats, answers and all facts count, in whole microseconds."""
    rows = {"registrations": [registered(7_000, "a")], "namesrv_events": [life(6_000, "b", "clock_went_back")]}
    assert _until(Given(rows)) == seq_at(7_000) + 999
    rows["channel_events"] = [ended(8_000.001, "c", "late_close", "namesrv")]
    assert _until(Given(rows)) == seq_at(8_000.001) + 999


def test_a_day_after_which_something_is_recorded_is_known_to_its_end() -> None:
    """What is not recorded on it did not happen then; and without either nothing is known."""
    rows = {"registrations": [registered(7_000, "a")]}
    assert _until(Given(rows, going_on=True)) == seq_at(0, TOMORROW)
    assert _until(Given({})) == seq_at(0)


def test_a_start_sets_the_schedule() -> None:
    """The first scan runs five seconds after it was set, half a second before the first connection, then every ten."""
    given = Given({"namesrv_events": [life(1_000, "a", "started")]})
    assert day_of(given).schedule.first_tick(seq_at(1_000), 0) == seq_at(6_000) - START_BEFORE_FIRST_ACCEPT_NS
    assert day_of(given).schedule.first_tick(seq_at(6_000), 0) == seq_at(15_500)


def test_the_phase_of_scans_is_handed_on_by_process() -> None:
    """What closes told on a day before holds on; a process that starts has one of its own."""
    begun = life(1_000, "a", "observed_from", day=YESTERDAY)
    rows: dict[str, list[Row]] = {"registrations": [registered(7_000, "b")]}
    said: Row = {"setting": "scan_phase_us", "value": "1234567", "source": "inferred", "restart_value": "1234567"}
    said |= {"answers_for": 3, "answers_against": 0, "evidence": ["x"]}
    said |= {"from_seq": begun["seq"], "process_seq": begun["seq"]}
    before = {"settings_before": table_of([said], gold.NAMESRV_SETTINGS, namesrv_id=NAMESRV, day=YESTERDAY)}
    settled = settle(Given(rows, earlier={"namesrv_events": [begun]}, **before).input)
    assert settled.context.schedule.first_tick(seq_at(0), 0) == seq_at(1_234.567) - 1
    rows["namesrv_events"] = [life(60_000, "c", "started")]
    settled = settle(Given(rows, earlier={"namesrv_events": [begun]}, **before).input)
    assert settled.context.schedule.first_tick(seq_at(60_000), 0) == seq_at(65_000) - START_BEFORE_FIRST_ACCEPT_NS


def test_a_server_of_which_no_start_is_recorded_scans_since_it_was_first_seen() -> None:
    """An event log need not say when it started."""
    given = Given({"registrations": [registered(7_000, "a")]}, first_seen_seq=seq_at(7_000))
    assert day_of(given).schedule.first_tick(seq_at(7_000), 0) == seq_at(12_000)
    assert day_of(Given({})).schedule.first_tick(seq_at(7_000), 0) is None


@pytest.mark.parametrize(
    ("outcomes", "is_halted"),
    [([], False), (["scan_failed"], True), (["scan_failed", "started"], False), (["started", "scan_failed"], True)],
)
def test_a_scan_that_died_stays_dead_until_the_next_start(outcomes: list[str], *, is_halted: bool) -> None:
    """Whatever day it died on."""
    rows = [{"seq": number, "event_id": f"{number}", "outcome": outcome} for number, outcome in enumerate(outcomes)]
    given = Given({"registrations": [registered(7_000, "a")]}, carried={gold.EVENT_OUTCOMES: rows[::-1]})
    assert day_of(given).scan_halted == is_halted


def test_a_recording_that_begins_in_mid_life_has_an_unknown_past() -> None:
    """Since its first packet; on later days as long as something is carried on as unknown."""
    seen = {"namesrv_events": [life(2_000, "a", "observed_from")]}
    assert day_of(Given(seen)).unknown_from_ms == seq_at(2_000) // MS
    assert day_of(Given(seen)).has_unknown_past
    later = Given(
        {"registrations": [registered(7_000, "c")]},
        earlier={"namesrv_events": [{**seen["namesrv_events"][0], "day": YESTERDAY, "seq": 1}]},
    )
    assert not day_of(later).has_unknown_past
    fact = {"what": "known", "about": "topic_queue", "any_one": True, "any_other": True, "number": 1}
    carried = Given({"registrations": [registered(7_000, "c")]}, carried={gold.PAST_KNOWLEDGE: [fact]})
    assert day_of(carried).past_is_carried
    assert day_of(carried).has_unknown_past


def test_a_start_leaves_nothing_unknown_but_the_order_configurations_in_its_file() -> None:
    """They show in answers only with orderMessageEnable."""
    given = Given({"namesrv_events": [life(2_000, "a", "started")]})
    assert day_of(given).unknown_from_ms is None
    ordered = Namesrv(V4_9_7, NamesrvConfig(order_message_enable=True))
    assert day_of(given, ordered).unknown_from_ms == seq_at(2_000) // MS


def test_a_gap_in_the_recording_makes_its_day_unknown() -> None:
    """Its day, and no other."""
    gap = life(3_000, "b", "recording_gap", properties="until_ms=9")
    start = life(2_000, "a", "started", day=YESTERDAY)
    assert day_of(Given({"namesrv_events": [gap]}, earlier={"namesrv_events": [start]})).has_gap
    rows = {"admin_events": [asked_to(1, "c", 205, broker_name="x")]}
    assert not day_of(Given(rows, earlier={"namesrv_events": [start, {**gap, "day": YESTERDAY}]})).has_unknown_past


def test_a_configured_period_holds_for_its_process() -> None:
    """A start with another period ticks with that from then on."""
    rows: list[Row] = [
        life(1_000, "a", "started"),
        life(1_001, "b", "identified", version=493),
        life(1_002, "c", "configured", properties="scanNotActiveBrokerInterval=7000"),
        life(60_000, "d", "started"),
        life(60_002, "e", "configured", properties="scanNotActiveBrokerInterval=3000"),
    ]
    schedule = settle(Given({"namesrv_events": rows}).input).context.schedule
    assert schedule.first_tick(seq_at(5_501), 0) == seq_at(12_500)
    assert schedule.first_tick(seq_at(64_501), 0) == seq_at(67_500)
