"""A day's replay: what goes through the core, what it reads for that, and what stays as it was."""

from __future__ import annotations

from typing import Any

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Profile
from namesrv_core.replay.loop import OrderError
from namesrv_day.arrow import rows_of
from tests.day.lives import MIDNIGHT_MS, NAMESRV, Life, Line, joined, told_apart
from tests.day.test_scenes import query, registration
from tests.examples import first_quick

STARTED: tuple[float, Line] = (-7_200, {"kind": "namesrv", "event": "started"})
HOUR_S, APART_S, FIRST_HOUR = 3_600, 30, MIDNIGHT_MS // 3_600_000
"""Brokers come two hours before midnight and beat twice a minute until four; what is replayed is looked at after midnight."""


def beats(line: Line, first_s: float = -7_000, until_s: float = 4 * HOUR_S) -> list[tuple[float, Line]]:
    return [(first_s + APART_S * n, line) for n in range(round((until_s - first_s) / APART_S))]


def two_days(profile: Profile, *told: tuple[float, Line]) -> tuple[Life, dict[str, list[dict[str, Any]]]]:
    """Return a name server's life replayed with runs, and what it wrote after midnight: the same as without."""
    life = Life([STARTED, *told], Namesrv(profile))
    plain = life.replayed(folds=False)
    parts = life.replayed_parts(cuts_s=[0])
    assert told_apart(plain, joined(parts)) == {}
    return life, {name: list(rows_of(rows)) for name, rows in parts[-1].items()}


def taken(life: Life) -> tuple[int, int]:
    """Return how many events the core took after midnight, and how often it was begun."""
    (found,) = life.outputs[1:]
    return found.events, found.readings


def single_hours(life: Life) -> dict[str, list[int]]:
    """Return the hours after midnight of which single beats were read last, by address."""
    found: dict[str, list[int]] = {}
    for of in life.reads[1][-1].sort_by("period").to_pylist() if life.reads[1] else ():
        found.setdefault(of["broker_addr"], []).append(of["period"] - FIRST_HOUR)
    return found


@pytest.mark.parametrize("profile", first_quick(V5_4_0, V4_9_7), ids=lambda profile: profile.name)
def test_who_only_beats_is_one_event(profile: Profile) -> None:
    """Its rows are those of the day before, but for its beats, which are counted; none of them is read."""
    life, after = two_days(profile, *beats(registration("one", "1:1", "TUV")))
    assert (taken(life), life.reads[1]) == ((1, 1), [])
    (live,) = after["broker_live_history"]
    assert (live["first_update_time"], live["last_update_time"]) == (
        live["valid_from"],
        (MIDNIGHT_MS + 14_360_000) * 1_000,
    )


@pytest.mark.slow
def test_single_beats_are_read_where_something_happens() -> None:
    """Somebody else's beats are not, nor those of other hours."""
    wiped = (1.5 * HOUR_S, {"kind": "admin", "code": 205, "broker_name": "one", "response_code": 0})
    life, after = two_days(V4_9_7, *beats(registration("one", "1:1")), *beats(registration("two", "2:1")), wiped)
    assert single_hours(life) == {"1:1": [1]}
    assert taken(life) == (120 + 1 + 3, 1)
    assert [(row["broker_name"], row["perm"]) for row in after["topic_queue_history"] if row["closed_by"]] == [
        ("one", 6)
    ] * 2


WITHOUT_T = (-30.0, {"kind": "admin", "code": 216, "topic": "T", "response_code": 0})


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "readings"), [(V4_9_7, 1), (V5_4_0, 2)], ids=["4.9.7", "5.4.0"])
def test_a_missing_topic_is_brought_back_by_the_first_registration(profile: Profile, readings: int) -> None:
    """5.x writes what its broker name lacks although nothing is new: the first of the run is taken by itself."""
    told = [
        *beats(registration("one", "1:1", "TU"), -7_000, -45),
        WITHOUT_T,
        *beats(registration("one", "1:1", "TU"), 15),
    ]
    life, after = two_days(profile, *told)
    assert taken(life)[1] == readings
    assert sorted(row["topic"] for row in after["topic_queue_history"]) == (["T", "U"] if readings > 1 else ["U"])


@pytest.mark.parametrize(
    "later",
    first_quick(
        registration("one", "1:1", data_version={"timestamp": MIDNIGHT_MS, "counter": 2}),
        registration("one", "1:1", channel_id="another"),
        registration("one", "1:1", data_version=None),
        query("one", "1:1", data_version={"timestamp": MIDNIGHT_MS, "counter": 2}),
    ),
    ids=["another version", "another connection", "no version", "asks for another version"],
)
@pytest.mark.parametrize("profile", first_quick(V5_4_0, V4_9_7), ids=lambda profile: profile.name)
def test_who_does_more_than_beat_is_replayed_beat_by_beat(profile: Profile, later: Line) -> None:
    """Where it does, and nobody else."""
    told = [*beats(registration("one", "1:1")), *beats(later, 5, HOUR_S), *beats(registration("two", "2:1"))]
    life, _ = two_days(profile, *told)
    assert single_hours(life).keys() == {"1:1"}
    assert 0 in single_hours(life)["1:1"]
    assert 3 not in single_hours(life)["1:1"]
    assert taken(life)[1] <= 2


@pytest.mark.parametrize(
    "refused", first_quick(registration("one", "1:1", refusal="busy"), query("one", "1:1", response_code=2))
)
def test_who_is_refused_all_day_is_not_carried_forward(refused: Line) -> None:
    """Its lease ends two minutes after the last beat that was taken, however often it speaks."""
    _, after = two_days(V4_9_7, *beats(registration("one", "1:1"), until_s=0), *beats(refused, 1))
    (gone,) = after["broker_live_history"]
    assert 120_000_000 < gone["valid_to"] - gone["last_update_time"] <= 130_000_000


@pytest.mark.slow
def test_news_in_the_middle_of_the_day_are_taken_by_themselves() -> None:
    """A version that changes at half past two: in that hour beats are single, before and after it they are runs."""
    wiped = (30, {"kind": "admin", "code": 205, "broker_name": "one", "response_code": 0})
    newer = registration("one", "1:1", "TUV", data_version={"timestamp": MIDNIGHT_MS, "counter": 2})
    told = [*beats(registration("one", "1:1"), until_s=2.5 * HOUR_S), wiped, *beats(newer, 2.5 * HOUR_S)]
    life, after = two_days(V4_9_7, *told)
    assert (single_hours(life), taken(life)[1]) == ({"1:1": [0, 2]}, 1)
    assert sorted(row["topic"] for row in after["topic_queue_history"] if row["closed_by"] is None) == ["T", "U", "V"]


@pytest.mark.slow
def test_a_change_in_the_middle_of_a_run_parts_it() -> None:
    """Another broker takes the address over: nothing that names the first one says so, and its registrations bring it back."""
    told = [
        *beats(registration("one", "1:1")),
        (1.5 * HOUR_S, registration("one", "1:9", "TUV", data_version={"timestamp": MIDNIGHT_MS, "counter": 9})),
    ]
    life, after = two_days(V4_9_7, *told)
    assert 1 in single_hours(life)["1:1"]
    assert 3 not in single_hours(life)["1:1"]
    members = [row["broker_addr"] for row in after["broker_addr_history"]]
    assert sorted(members) == ["1:1", "1:1", "1:9"]


@pytest.mark.slow
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
    assert taken(life)[1] == 1


@pytest.mark.parametrize("profile", first_quick(V5_4_0, V4_9_7), ids=lambda profile: profile.name)
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
    assert taken(life)[1] == 1


def test_an_event_that_comes_twice_is_an_error() -> None:
    """Nothing says which of the two was first."""
    life = Life([STARTED, *beats(registration("one", "1:1"), until_s=-6_000)], Namesrv(V4_9_7))
    life.rows["registrations"].append(life.rows["registrations"][-1])
    with pytest.raises(OrderError, match=f"at {NAMESRV}: events must be strictly increasing"):
        life.replayed(folds=False)


@pytest.mark.parametrize("profile", first_quick(V5_4_0, V4_9_7), ids=lambda profile: profile.name)
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


@pytest.mark.parametrize("profile", first_quick(V5_4_0, V4_9_7), ids=lambda profile: profile.name)
def test_who_has_no_entry_is_one_outcome(profile: Profile) -> None:
    """All its heartbeats are counted in the row of the first; they renew nothing, and are no run."""
    life = Life(beats(query("one", "1:1"), 60), Namesrv(profile), begins_unseen=True)
    plain, found = life.replayed(folds=False), life.replayed()
    (last,) = {
        row["number"] for tables in (plain, found) for row in rows_of(tables["past_knowledge"]) if row["what"] == "beat"
    }
    assert last == MIDNIGHT_MS + 14_370_000
    for tables in (plain, found):
        tables["past_knowledge"] = tables["past_knowledge"].drop_columns("number")
    assert told_apart(plain, found) == {}
    assert [(one.events, one.readings) for one in life.outputs] == [(478, 2)]
    (outcome,) = rows_of(found["event_outcomes"])
    assert (outcome["outcome"], outcome["events"]) == ("unknown_broker", 478)
    assert (outcome["effect_time"], outcome["last_time"]) == (
        (MIDNIGHT_MS + 60_000) * 1_000,
        (MIDNIGHT_MS + 14_370_000) * 1_000,
    )


@pytest.mark.parametrize("profile", first_quick(V5_4_0, V4_9_7), ids=lambda profile: profile.name)
def test_an_entry_parts_the_heartbeats_without_one(profile: Profile) -> None:
    """Before it comes and after it has gone they have a row each; those between renew its lease."""
    told = [
        *beats(query("one", "1:1"), 60),
        (HOUR_S + 65, registration("one", "1:1")),
        (2 * HOUR_S + 65, {"kind": "channel", "event": "close", "channel_id": "1:1#1"}),
    ]
    life = Life(told, Namesrv(profile), begins_unseen=True)
    plain, found = life.replayed(folds=False), life.replayed()
    for tables in (plain, found):
        tables["past_knowledge"] = tables["past_knowledge"].drop_columns("number")
    assert told_apart(plain, found) == {}
    unknown = [row["events"] for row in rows_of(found["event_outcomes"]) if row["outcome"] == "unknown_broker"]
    assert sorted(unknown) == [121, 237]
