"""A pack: what is carried forward, what goes through the core, and what it reads for that."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Profile
from namesrv_core.replay.loop import OrderError
from namesrv_day.arrow.rows import rows_of, table_of
from namesrv_day.replay.pack import merged_outcomes
from schemas import gold
from tests.day.lives import MIDNIGHT_MS, NAMESRV, Life, Line, by_seq, joined, told_apart
from tests.day.test_pack_roads import query, registration
from tests.examples import first_quick

STARTED: tuple[float, Line] = (-7_200, {"kind": "namesrv", "event": "started"})
HOUR_S, APART_S, FIRST_HOUR = 3_600, 30, MIDNIGHT_MS // 3_600_000
"""Brokers come two hours before midnight and beat twice a minute until four; what packs do is looked at after midnight."""


def beats(line: Line, first_s: float = -7_000, until_s: float = 4 * HOUR_S) -> list[tuple[float, Line]]:
    """Return a beat again and again."""
    return [(first_s + APART_S * n, line) for n in range(round((until_s - first_s) / APART_S))]


def two_days(profile: Profile, *told: tuple[float, Line]) -> tuple[Life, dict[str, list[dict[str, Any]]]]:
    """Return a name server's life replayed on the quiet road, and what it wrote after midnight."""
    life = Life([STARTED, *told], Namesrv(profile))
    plain = life.replayed(road=False)
    parts = life.replayed_parts(road=True, cuts_s=[0], packs=1)
    assert told_apart(plain, joined(parts)) == {}
    return life, {name: list(rows_of(rows)) for name, rows in parts[-1].items()}


def counters(life: Life) -> dict[str, int]:
    """Return what the one pack after midnight counted."""
    ((found,),) = life.outputs[1:]
    return found.counters


@pytest.mark.parametrize("profile", [V4_9_7, V5_4_0], ids=lambda profile: profile.name)
def test_who_only_beats_is_carried_forward_and_not_read(profile: Profile) -> None:
    """Its rows are those of the day before, but for its beats, which are counted; the core takes nothing."""
    life, after = two_days(profile, *beats(registration("one", "1:1", "TUV")))
    assert counters(life) == {"units": 2, "events": 0, "quiet_units": 1, "loud_units": 0}
    assert life.reads[1] == []
    (live,) = after["broker_live_history"]
    assert (live["first_update_time"], live["last_update_time"]) == (
        live["valid_from"],
        (MIDNIGHT_MS + 14_360_000) * 1_000,
    )
    assert [row["refreshes"] for row in after["refreshes_hourly"]] == [120, 120, 120, 119]
    assert {row["day"] for rows in after.values() for row in rows if "day" in row} == {dt.date(2026, 1, 3)}


def test_only_what_is_eventful_is_read() -> None:
    """Somebody else's beats are not, nor what its own hours say already."""
    wiped = (1.5 * HOUR_S, {"kind": "admin", "code": 205, "broker_name": "one", "response_code": 0})
    life, after = two_days(V4_9_7, *beats(registration("one", "1:1")), *beats(registration("two", "2:1")), wiped)
    assert [of.to_pylist() for of in life.reads[1]] == [[{"broker_addr": "1:1", "period": FIRST_HOUR + 1}]]
    assert counters(life)["quiet_units"] == 1
    assert counters(life)["events"] == 120 + 1 + 3
    assert [(row["broker_name"], row["perm"]) for row in after["topic_queue_history"] if row["closed_by"]] == [
        ("one", 6)
    ] * 2


WITHOUT_T = (-30.0, {"kind": "admin", "code": 216, "topic": "T", "response_code": 0})


@pytest.mark.parametrize(("profile", "loud"), [(V4_9_7, 0), (V5_4_0, 1)], ids=["4.9.7", "5.4.0"])
def test_a_missing_topic_is_brought_back_by_the_first_registration(profile: Profile, loud: int) -> None:
    """5.x writes what its broker name lacks although nothing is new; so that a unit that looks quiet is none."""
    told = [
        *beats(registration("one", "1:1", "TU"), -7_000, -45),
        WITHOUT_T,
        *beats(registration("one", "1:1", "TU"), 15),
    ]
    life, after = two_days(profile, *told)
    assert counters(life)["loud_units"] == loud
    assert sorted(row["topic"] for row in after["topic_queue_history"]) == (["T", "U"] if loud else ["U"])


@pytest.mark.parametrize(
    "later",
    [
        registration("one", "1:1", data_version={"timestamp": MIDNIGHT_MS, "counter": 2}),
        registration("one", "1:1", channel_id="another"),
        registration("one", "1:1", data_version=None),
        query("one", "1:1", data_version={"timestamp": MIDNIGHT_MS, "counter": 2}),
    ],
    ids=["another version", "another connection", "no version", "asks for another version"],
)
@pytest.mark.parametrize("profile", first_quick(V5_4_0, V4_9_7), ids=lambda profile: profile.name)
def test_who_does_more_than_beat_is_replayed_event_by_event(profile: Profile, later: Line) -> None:
    """One beat of many is enough, and no other unit is drawn in."""
    told = [*beats(registration("one", "1:1")), *beats(later, 5, HOUR_S), *beats(registration("two", "2:1"))]
    life, _ = two_days(profile, *told)
    assert (counters(life)["loud_units"], counters(life)["quiet_units"]) == (1, 1)
    [beaten] = life.reads[1]
    assert set(beaten["broker_addr"].to_pylist()) == {"1:1"}
    assert sorted(beaten["period"].to_pylist()) == [*range(FIRST_HOUR, FIRST_HOUR + 24)]


@pytest.mark.parametrize("refused", [registration("one", "1:1", refusal="busy"), query("one", "1:1", response_code=2)])
def test_who_is_refused_all_day_is_not_carried_forward(refused: Line) -> None:
    """Its lease ends two minutes after the last beat that was taken, however often it speaks."""
    _, after = two_days(V4_9_7, *beats(registration("one", "1:1"), until_s=0), *beats(refused, 1))
    (gone,) = after["broker_live_history"]
    assert 120_000_000 < gone["valid_to"] - gone["last_update_time"] <= 130_000_000


def test_a_run_that_is_none_has_its_unit_replayed_event_by_event() -> None:
    """The unit has some other news, so that nobody tries it; the core refuses the run in which a version changes."""
    wiped = (30, {"kind": "admin", "code": 205, "broker_name": "one", "response_code": 0})
    newer = registration("one", "1:1", "TUV", data_version={"timestamp": MIDNIGHT_MS, "counter": 2})
    told = [*beats(registration("one", "1:1"), until_s=2.5 * HOUR_S), wiped, *beats(newer, 2.5 * HOUR_S)]
    life, after = two_days(V4_9_7, *told)
    assert counters(life)["loud_units"] == 1
    assert sorted(row["topic"] for row in after["topic_queue_history"] if row["closed_by"] is None) == ["T", "U", "V"]


def test_a_scan_that_died_takes_nobody_down_the_day_after() -> None:
    """4.x: at two brokers of one connection it ends for good, and no row says so; the day's context does."""
    told = [
        *beats(registration("one", "1:1", channel_id="1:1#1"), until_s=-6_000),
        *beats(registration("uno", "1:2", channel_id="1:1#1"), -6_999, until_s=-6_000),
        *beats(registration("two", "2:1"), until_s=600),
    ]
    life, after = two_days(V4_9_7, *told, *beats(registration("three", "3:1")))
    assert sorted(row["broker_addr"] for row in after["broker_live_history"] if row["closed_by"] is None) == [
        "2:1",
        "3:1",
    ]
    assert counters(life)["quiet_units"] == 0


@pytest.mark.parametrize("profile", [V4_9_7, V5_4_0], ids=lambda profile: profile.name)
def test_a_log_without_connections_ends_brokers_by_their_leases(profile: Profile) -> None:
    """That a connection was not written down is no reason for a scan to die; nothing ties the brokers together either."""
    told = [
        *beats(registration("one", "1:1", channel_id=None), until_s=-6_000),
        *beats(registration("two", "2:1", channel_id=None), until_s=600),
        *beats(registration("three", "3:1", channel_id=None)),
    ]
    life, after = two_days(profile, *told)
    gone = {row["broker_addr"] for row in after["broker_live_history"] if row["closed_by"] is not None}
    assert gone == {"2:1"}
    assert {row["channel_id"] for row in after["broker_live_history"]} == {None}
    assert [row["outcome"] for row in after["event_outcomes"] if row["operation"] == "scan"] == ["expired"]
    assert counters(life)["quiet_units"] > 0


def test_an_event_that_comes_twice_is_an_error() -> None:
    """Nothing says which of the two was first."""
    life = Life([STARTED, *beats(registration("one", "1:1"), until_s=-6_000)], Namesrv(V4_9_7))
    life.rows["registrations"].append(life.rows["registrations"][-1])
    with pytest.raises(OrderError, match=f"at {NAMESRV}: events must be strictly increasing"):
        life.replayed(road=False)


def outcome(event_id: str, outcome: str, changes: int, detail: str | None = None, *sent: str) -> dict[str, Any]:
    """Return a row of event_outcomes as one of the units has it; `sent`: whom it has notified."""
    told = [{"to": to, "min_broker_id": 0, "min_broker_addr": "1:1"} for to in sent] or None
    said = {
        "operation": "delete_topic",
        "outcome": outcome,
        "changes": changes,
        "detail": detail,
        "notifications": told,
    }
    return {"seq": 5, "event_id": event_id, "effect_time": 5, "topic": "T", **said}


def merged(*rows: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return what is left of rows, each from a pack of its own: outcome, changes, detail, and who was notified."""
    parts = [table_of([row], gold.EVENT_OUTCOMES, namesrv_id=NAMESRV, day=dt.date(2026, 1, 3)) for row in rows]
    return [
        (
            row["event_id"],
            row["outcome"],
            row["changes"],
            row["detail"],
            None if row["notifications"] is None else [sent["to"] for sent in row["notifications"]],
        )
        for row in by_seq(merged_outcomes(parts))
    ]


def test_an_event_that_concerns_all_units_is_one_row() -> None:
    """It is what it was where it changed most; changes are added up, and everyone is told once."""
    rows = [
        outcome("a", "no_effect", 0),
        outcome("a", "applied", 2, None, "3:1", "2:1"),
        outcome("a", "applied", 1, None, "1:1"),
    ]
    assert merged(*rows) == [("a", "applied", 3, None, ["1:1", "2:1", "3:1"])]


def test_counts_of_units_are_added_up_and_reasons_are_kept() -> None:
    """A detail of one unit alone stays what it is, number or not."""
    counted = [outcome("a", "expired", 2, "2"), outcome("a", "expired", 1, "10"), outcome("a", "no_effect", 0)]
    reasons = [outcome("b", "applied", 1, "an exception"), outcome("b", "applied", 1, "another")]
    assert merged(*counted, *reasons, outcome("c", "applied", 1, "007")) == [
        ("a", "expired", 3, "12", None),
        ("b", "applied", 2, "another", None),
        ("c", "applied", 1, "007", None),
    ]


def test_a_scan_names_all_that_went_with_it_whatever_packs_they_were_in() -> None:
    """First the first by name, who stands in the columns of the broker; an event that names its own keeps that."""
    gone = [[{"broker_name": name, "broker_addr": f"{name}:1", "cluster_name": f"C{name}"}] for name in "ba"]
    parts = [{**outcome("s", "expired", 3), "operation": "scan", "brokers_gone": of} for of in (*gone, None)]
    tables = [table_of([row], gold.EVENT_OUTCOMES, namesrv_id=NAMESRV, day=dt.date(2026, 1, 3)) for row in parts]
    (row,) = merged_outcomes(tables).to_pylist()
    assert [row[name] for name in ("broker_name", "broker_addr", "cluster_name")] == ["a", "a:1", "Ca"]
    assert [broker["broker_name"] for broker in row["brokers_gone"]] == ["a", "b"]
    kept = {**outcome("k", "applied", 1), "broker_name": "own", "broker_addr": "own:1", "cluster_name": "Cown"}
    (row,) = merged_outcomes([table_of([kept], gold.EVENT_OUTCOMES, namesrv_id=NAMESRV)]).to_pylist()
    assert (row["broker_name"], row["brokers_gone"]) == ("own", None)


@pytest.mark.parametrize("profile", [V4_9_7, V5_4_0], ids=lambda profile: profile.name)
def test_scans_and_closes_say_who_went_with_them(profile: Profile) -> None:
    """A live entry and its place in the group are one broker; a close with which nobody goes has none."""
    told = [
        *beats(registration("one", "1:1"), until_s=-60),
        *beats(registration("two", "2:1"), until_s=600),
        (600, {"kind": "channel", "event": "close", "channel_id": "2:1#1"}),
        (601, {"kind": "channel", "event": "close", "channel_id": "9:9#1"}),
        *beats(registration("three", "3:1")),
    ]
    _, after = two_days(profile, *told)
    gone = {
        (row["operation"], broker["broker_name"], row["broker_addr"])
        for row in after["event_outcomes"]
        for broker in row["brokers_gone"] or [{"broker_name": None}]
    }
    assert gone == {("scan", "one", "1:1"), ("channel_close", "two", "2:1"), ("channel_close", None, None)}


def test_no_outcomes_are_no_rows() -> None:
    """A day on which nothing happened."""
    assert merged_outcomes([table_of([], gold.EVENT_OUTCOMES)]).num_rows == 0
