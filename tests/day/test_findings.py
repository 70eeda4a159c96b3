"""Findings one by one: literal rows in which the code fires, beside rows in which it just does not; and how they last.

What a whole day says, with all codes together, is in test_flags.py.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.night.judging import HELD, ends_otherwise
from namesrv_day.arrow.rows import table_of
from namesrv_day.flags.findings import About, Unsettled, findings
from schemas import bronze, gold
from schemas.findings import CATALOGUE
from schemas.table import Table
from tests.day.flag_rows import (
    DAY,
    NEXT_DAY,
    NS,
    Event,
    Row,
    alive,
    clock,
    event,
    live,
    member,
    news,
    outcome,
    queues,
    seq,
    still_so,
    tables,
)
from tests.situations import Language, Situation

ADDR, OTHER_ADDR = "10.0.0.1:10911", "10.0.0.2:10911"
UP, SECOND, DOWN = event("up", "08:00"), event("second", "09:00"), event("down", "10:00")


def found_in(
    rows: dict[Table, list[Row]], told: pa.Table | None = None, day: dt.date = DAY, until: dt.datetime | None = None
) -> pa.Table:
    """Return what begins and ends on a day of which nothing else is known, recorded `until` then, or else to its end.

    `told`: the same of days before, one after the other.
    """
    before = {} if told is None else {gold.FINDINGS.name: still_so(told)}
    end = until or clock("23:59:59.999999", day)
    return news(findings(tables(rows), {}, before, About(NS, day, seen_until=end)), day)


def of_code(found: pa.Table, code: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return the findings of one code, in order of time."""
    rows = sorted(found.to_pylist(), key=lambda row: (row["from_time"], row["subject"]))
    return [tuple(row[name] for name in columns) for row in rows if row["code"] == code]


def in_cluster(cluster: str, name: str, opened: Event, closed: Event | None = None) -> Row:
    return alive(opened, closed, cluster_name=cluster, broker_name=name)


def gone_at(addr: str, *ends: dt.datetime) -> list[Row]:
    """Return live entries that end at these times, each ten seconds after it began."""
    return [
        live(addr, (f"back {addr} {end:%H:%M:%S}", end - dt.timedelta(seconds=10)), (f"{addr} {end:%H:%M:%S}", end))
        for end in ends
    ]


def vanished(topic: str, by: Event) -> Row:
    when = {"seq": seq(by[1]), "effect_time": by[1], "caused_by": by[0], "day": DAY}
    sizes = {"groups_before": 1, "groups_after": 0, "length_before": 60, "length_after": 0}
    parts = [{"part": "queueDatas", "name": "broker-a", "text": None}]
    return {"namesrv_id": NS, "topic": topic, **when, "change": "vanished", "parts": parts, **sizes}


def orphan(reason: str, topic: str, opened: Event, closed: Event | None = None, **values: Any) -> Row:
    """Return an interval in which a topic could not be served as it looks."""
    ends = {} if closed is None else {"valid_to": closed[1], "closed_by": closed[0]}
    row = {
        "namesrv_id": NS,
        "day": DAY,
        "topic": topic,
        "reason": reason,
        "valid_from": opened[1],
        "opened_by": opened[0],
    }
    return row | ends | values


def reported(addr: str, opened: Event, before: int, now: int, *, older: bool) -> Row:
    """Return a data version with counter `now` after one with counter `before`."""
    versions: Row = {
        "data_version": {"state_version": 0, "timestamp": 5, "counter": now},
        "previous": {"state_version": 0, "timestamp": 5, "counter": before},
    }
    return alive(opened, broker_name="broker-a", broker_addr=addr, is_regression=older, **versions)


def expired(name: str, last_beat: str, removed: str, returned: str | None = None, **values: Any) -> Row:
    """Return a row of `expired_brokers`; the scan is known by its time."""
    broker = {"namesrv_id": NS, "cluster_name": "C", "broker_name": name, "broker_addr": f"{name}:1", "cause": "scan"}
    when = {"last_beat_time": clock(last_beat), "removed_time": clock(removed), "removed_by": f"scan {removed}"}
    back = {} if returned is None else {"returned_by": f"back of {name}", "returned_time": clock(returned)}
    lease = {"detection_lag_ms": 0, "heartbeat_timeout_ms": 120_000, "topics_lost": []}
    return {**broker, **when, **back, **lease, "day": DAY, **values}


LANGUAGE = Language(
    {
        "gone": (gold.BROKER_LIVE_HISTORY, gone_at),
        "in_cluster": (gold.CLUSTER_ADDR_HISTORY, in_cluster),
        "live": (gold.BROKER_LIVE_HISTORY, live),
        "member": (gold.BROKER_ADDR_HISTORY, member),
        "orphan": (gold.ORPHANED_TOPICS, orphan),
        "outcome": (gold.EVENT_OUTCOMES, outcome),
        "queues": (gold.TOPIC_QUEUE_HISTORY, queues),
        "reported": (gold.DATA_VERSION_HISTORY, reported),
        "vanished": (gold.ROUTE_CHANGES, lambda by, *topics: [vanished(topic, by) for topic in topics]),
    },
    {},
    DAY,
)
CASES = list(LANGUAGE.read(Path(__file__).with_name("findings.txt")))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.shows)
def test_a_finding_fires_where_it_should_and_only_there(case: Situation) -> None:
    """Severity, subject, span and evidence are those of the rows at fault; rows at the boundary stay unnamed."""
    (until,) = map(LANGUAGE.value, case.asked or ["-"])
    found = of_code(
        found_in(case.rows, until=until), case.name, "severity", "subject", "from_time", "to_time", "evidence"
    )
    wanted = [line.split(" | ") for line in case.found]
    assert found == [(*of[:2], *map(LANGUAGE.value, of[2:4]), of[4].split(", ")) for of in wanted]


def test_gaps_are_those_that_are_known_and_those_that_look_like_an_outage() -> None:
    """One that was recorded, and two waves in which every broker expired; never all silent at once, or one that stays: none."""
    gap = outcome(
        event("gap", "03:00:00"),
        "recording_gap",
        outcome="unrecorded",
        detail=str(seq(clock("03:10:00")) // 1_000_000),
        changes=0,
    )
    waves = [
        expired("a", "10:00:00", "10:02:05", "10:20:00"),
        expired("b", "10:00:20", "10:02:25", "10:20:10"),
        expired("a", "10:30:00", "10:32:05"),
        expired("b", "10:30:05", "10:32:15"),
        expired("a", "15:00:00", "15:02:05", "15:02:06"),  # back before b, whose lease is short, falls silent
        expired("b", "15:02:08", "15:02:17", "15:30:00"),
        expired("a", "20:00:00", "20:02:05"),  # b stays
    ]
    ends = {
        "a": ("10:02:05", "10:32:05", "15:02:05", "15:02:40", "20:02:05"),
        "b": ("10:02:25", "10:32:15", "15:02:17"),
    }
    begins = {
        "a": ("00:00:00", "10:20:00", "14:00:00", "15:02:06", "19:00:00"),
        "b": ("00:00:00", "10:20:10", "14:00:00"),
    }
    lives = [
        live(f"{name}:1", event(f"up {name}", up), event(f"scan {down}", down))
        for name in ("a", "b")
        for up, down in zip(begins[name], ends[name], strict=True)
    ]
    lives.append(live("b:1", event("up b", "19:00:00")))
    found = found_in({gold.EVENT_OUTCOMES: [gap], gold.EXPIRED_BROKERS: waves, gold.BROKER_LIVE_HISTORY: lives})
    rows = of_code(found, "LOG_GAP", "subject", "from_time", "to_time", "evidence", "detail")
    assert [row[:4] for row in rows] == [
        (NS, clock("03:00:00"), clock("03:10:00"), ["gap"]),
        (NS, clock("10:00:20"), clock("10:20:00"), ["scan 10:02:05", "scan 10:02:25"]),
        (NS, clock("10:30:05"), None, ["scan 10:32:05", "scan 10:32:15"]),
    ]
    assert rows[0][4].startswith("nothing was recorded for 600 s")
    assert rows[1][4].startswith("all 2 brokers fell silent and expired: an outage, or a gap in the log")


def test_a_clock_that_goes_back_is_a_finding_of_its_file() -> None:
    """With the first step in words; other facts about the name server's life are none."""
    rows: list[Row] = []
    for number, kind in enumerate(("clock_went_back", "clock_went_back", "started")):
        at = event(f"fact-{number}", f"01:00:0{number}")
        where = {"source_file": "file", "source_offset": 9 - number, "day": DAY}
        what = {"namesrv_id": NS, "event_id": at[0], "kind": kind, "evidence": f"step {number}", "seq": seq(at[1])}
        rows.append({**what, **where, "event_time": at[1], "effect_time": at[1]})
    found = found_in({bronze.NAMESRV_EVENTS: rows})
    assert of_code(found, "CLOCK_JUMP", "subject", "detail", "evidence") == [
        ("file", "2 steps back, the first: step 1", ["fact-0", "fact-1"])
    ]


def told_version(namesrv_id: str, at: Event, counter: int, stamp: str, *, seen: bool = True) -> Row:
    """Return a data version that a broker reported; its timestamp is the broker's clock."""
    version = {"state_version": 0, "timestamp": seq(clock(stamp)) // 1_000_000, "counter": counter}
    broker: Row = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": "a:1", "is_regression": False}
    return alive(at, namesrv_id=namesrv_id, data_version=version, beginning_seen=seen, **broker)


def test_a_version_from_more_than_a_minute_ahead_is_a_clock_that_disagrees() -> None:
    """One that was reported before the recording says nothing: nobody saw when it came."""
    rows = [
        told_version(NS, event("ahead", "01:00:00"), 1, "01:01:01"),
        told_version(NS, event("unseen", "01:30:00"), 2, "02:00:00", seen=False),
        told_version(NS, event("minute", "03:00:00"), 3, "03:01:00"),
    ]
    found = found_in({gold.DATA_VERSION_HISTORY: rows})
    assert of_code(found, "CLOCK_SKEW", "subject", "from_time", "to_time", "detail", "evidence") == [
        (
            *("broker-a a:1", clock("01:00:00"), clock("01:00:00")),
            "its data version is up to 61 s ahead of the clock with which it was recorded",
            ["ahead"],
        )
    ]


def test_brokers_that_fall_silent_together_are_one_finding() -> None:
    """With their number, the first few, and all topics they lost; one half a minute later has a cause of its own."""
    lost = {"topics_lost": ["T", "U"]}
    rows = [expired(f"b{number:02}", "10:00:00", "10:02:05", "10:20:00", **lost) for number in range(12)]
    rows += [
        expired("c", "10:00:30", "10:02:35", "10:21:00", **lost),
        expired("d", "10:01:01", "10:03:05", "10:22:00", **lost),
    ]
    found = found_in({gold.EXPIRED_BROKERS: rows})
    wave, alone = of_code(found, "EXPIRED_BROKER", "subject", "to_time", "detail", "evidence")
    assert wave[:2] == ("b00 b00:1 and 12 more", clock("10:21"))
    assert wave[2].endswith(
        "2 topics lost queues; 12 more like it: b01 b01:1, b02 b02:1, b03 b03:1, b04 b04:1, b05 b05:1, b06 b06:1, "
        "b07 b07:1, b08 b08:1, b09 b09:1 ... (2 topics in all)"
    )
    assert (wave[3][0], len(wave[3])) == ("scan 10:02:05", 15)
    assert alone[0] == "d d:1"


def test_evidence_of_many_is_bounded() -> None:
    """Twenty events prove a finding as well as a thousand; those of the first come first."""
    rows = [
        orphan("no_live_broker", f"T{n:03}", event(f"e{n:03}", "08:00"), event(f"x{n:03}", "09:00")) for n in range(100)
    ]
    ((evidence,),) = of_code(found_in({gold.ORPHANED_TOPICS: rows}), "ORPHAN_TOPIC", "evidence")
    assert (evidence[:3], len(evidence)) == (["e000", "x000", "e001"], 20)


@pytest.mark.slow
def test_a_group_without_master_is_told_once_and_ends_with_its_true_beginning() -> None:
    """Over three days: told on the first; the second says nothing; the third tells the end, and then of a new one."""
    slave = member("a", 1, OTHER_ADDR, UP)
    gone, back = event("gone", "20:00"), event("back", "01:00", dt.date(2026, 3, 3))
    again = event("again", "02:00", dt.date(2026, 3, 3))
    first = found_in({gold.BROKER_ADDR_HISTORY: [member("a", 0, ADDR, UP, gone), slave]})
    assert of_code(first, "NO_MASTER", "from_time", "to_time") == [(gone[1], None)]
    second = found_in({gold.BROKER_ADDR_HISTORY: [slave]}, first, NEXT_DAY)
    assert second.num_rows == 0
    master = member("a", 0, ADDR, back, again)
    third = found_in(
        {gold.BROKER_ADDR_HISTORY: [master, slave]}, pa.concat_tables([first, second]), dt.date(2026, 3, 3)
    )
    assert of_code(third, "NO_MASTER", "from_time", "to_time", "evidence") == [
        (gone[1], back[1], ["gone", "up", "back"]),
        (again[1], None, ["again"]),
    ]
    ended = pa.concat_tables([first, second, third])
    assert found_in({gold.BROKER_ADDR_HISTORY: [slave]}, ended, dt.date(2026, 3, 4)).num_rows == 0


def test_a_finding_is_known_again_by_the_event_that_began_it() -> None:
    """Topics of one event are one finding for as long as one of them is so; what another event did is another finding."""
    open_rows = [orphan("no_writable_queue", topic, UP) for topic in "TU"]
    first = found_in({gold.ORPHANED_TOPICS: open_rows})
    morning = event("morning", "01:00", NEXT_DAY)
    new = orphan("no_writable_queue", "T", event("again", "02:00", NEXT_DAY))
    second = found_in(
        {gold.ORPHANED_TOPICS: [orphan("no_writable_queue", "T", UP, morning), open_rows[1], new]}, first, NEXT_DAY
    )
    assert of_code(second, "NO_WRITABLE_QUEUE", "subject", "from_time", "to_time") == [
        ("T", clock("02:00", NEXT_DAY), None)
    ]
    third_day = dt.date(2026, 3, 3)
    noon = event("noon", "12:00", third_day)
    rows = [orphan("no_writable_queue", "U", UP, noon), new]
    third = found_in({gold.ORPHANED_TOPICS: rows}, pa.concat_tables([first, second]), third_day)
    assert of_code(third, "NO_WRITABLE_QUEUE", "subject", "from_time", "to_time", "evidence") == [
        ("T and 1 more", UP[1], noon[1], ["up", "noon"])
    ]


@pytest.mark.slow
def test_a_broker_that_is_away_is_waited_for() -> None:
    """It ends with its return, on whatever day; the other one of that scan holds it open; after a week nobody waits."""
    rows = [expired(name, "20:00", "20:02") for name in ("a", "b")]
    first = found_in({gold.EXPIRED_BROKERS: rows})
    assert of_code(first, "EXPIRED_BROKER", "subject", "to_time") == [("a a:1 and 1 more", None)]
    told = {gold.FINDINGS.name: first, gold.EXPIRED_BROKERS.name: table_of(rows, gold.EXPIRED_BROKERS)}

    def on(day: int, *lives: Row) -> list[tuple[Any, ...]]:
        about = About(NS, dt.date(2026, 3, day))
        found = news(findings(tables({gold.BROKER_LIVE_HISTORY: list(lives)}), {}, told, about), about.day)
        return of_code(found, "EXPIRED_BROKER", "subject", "from_time", "to_time", "evidence")

    a_back = live("a:1", event("a-back", "01:00", dt.date(2026, 3, 2)), broker_name="a")
    b_back = live("b:1", event("b-back", "02:00", dt.date(2026, 3, 4)), broker_name="b")
    ended = (
        "a a:1 and 1 more",
        clock("20:00"),
        clock("02:00", dt.date(2026, 3, 4)),
        ["scan 20:02", "a-back", "b-back"],
    )
    assert on(2, a_back) == []
    assert on(3, a_back) == []
    assert on(4, a_back, b_back) == [ended]
    assert on(8, a_back) == []
    assert [row[2] for row in on(9, a_back)] == [clock("00:00", dt.date(2026, 3, 9))]


def test_a_start_without_a_route_ends_with_the_first_one() -> None:
    """On the next day, if that is when brokers register again."""
    first = found_in({gold.EVENT_OUTCOMES: [outcome(event("start", "23:59:50"), "namesrv_started")]})
    assert of_code(first, "NS_COLD_START", "to_time", "detail") == [(None, "no route that day")]
    up = event("up", "00:00:10", NEXT_DAY)
    second = found_in({gold.TOPIC_QUEUE_HISTORY: [queues("T", "a", up)]}, first, NEXT_DAY)
    assert of_code(second, "NS_COLD_START", "from_time", "to_time", "evidence") == [
        (clock("23:59:50"), up[1], ["start", "up"])
    ]


def test_wiped_permission_ends_with_the_last_topic_that_has_it_back() -> None:
    """Told if it is still away when the day ends; that the event was a wipe is known on later days from the finding."""
    wipe, back = event("wipe", "12:00"), event("back", "03:00", NEXT_DAY)
    rows = [queues(topic, "a", wipe, perm=4) for topic in "TU"]
    wiped = {gold.TOPIC_QUEUE_HISTORY: rows, gold.EVENT_OUTCOMES: [outcome(wipe, "wipe_write_perm")]}
    first = found_in(wiped)
    assert of_code(first, "WRITE_PERM_LEFT_WIPED", "subject", "detail") == [
        ("a", "2 topics without write permission: T, U")
    ]
    one_back = [queues("T", "a", wipe, back, perm=4), rows[1]]
    assert (
        of_code(found_in({gold.TOPIC_QUEUE_HISTORY: one_back}, first, NEXT_DAY), "WRITE_PERM_LEFT_WIPED", "code") == []
    )
    all_back = [queues(topic, "a", wipe, back, perm=4) for topic in "TU"]
    second = found_in({gold.TOPIC_QUEUE_HISTORY: all_back}, first, NEXT_DAY)
    columns = ("from_time", "to_time", "evidence", "begun_with", "told_on", "ended_on")
    assert of_code(second, "WRITE_PERM_LEFT_WIPED", *columns) == [
        (wipe[1], back[1], ["wipe", "back"], 1, DAY, NEXT_DAY)
    ]


def test_what_a_cluster_is_told_of_is_told_again_for_what_is_new_in_it() -> None:
    """Topics on one broker name are one finding of the day on which they came; a later day tells of its own only."""
    cluster = [in_cluster("C", name, UP) for name in "ab"]
    old = [queues(topic, "a", UP) for topic in "TU"]
    first = found_in({gold.TOPIC_QUEUE_HISTORY: old, gold.CLUSTER_ADDR_HISTORY: cluster})
    new = queues("V", "b", event("new", "05:00", NEXT_DAY))
    second = found_in({gold.TOPIC_QUEUE_HISTORY: [*old, new], gold.CLUSTER_ADDR_HISTORY: cluster}, first, NEXT_DAY)
    details = of_code(pa.concat_tables([first, second]), "SINGLE_BROKER_TOPIC", "subject", "detail")
    assert details == [
        ("C", "2 topics on one broker name only, though the cluster has 2: T on a, U on a"),
        ("C", "1 topic on one broker name only, though the cluster has 2: V on b"),
    ]


@pytest.mark.slow
def test_a_topic_that_lost_its_other_broker_is_not_told_again_the_next_day() -> None:
    """The rows of the next day do not show the loss: what stands names the topic, or has more topics than it names."""
    cluster = [in_cluster("C", name, UP) for name in "ab"]
    topics = [f"T{number:02}" for number in range(12)]
    here = [queues(topic, "a", UP) for topic in topics]
    lost = [queues(topic, "b", UP, event("lost", "05:00", NEXT_DAY)) for topic in topics]
    both = [{**row, "valid_to": None, "closed_by": None, "closed_at": None} for row in lost]
    early = queues("U", "b", UP)
    first = found_in({gold.TOPIC_QUEUE_HISTORY: [*here, *both, early], gold.CLUSTER_ADDR_HISTORY: cluster})
    second = found_in(
        {gold.TOPIC_QUEUE_HISTORY: [*here, *lost, early], gold.CLUSTER_ADDR_HISTORY: cluster}, first, NEXT_DAY
    )
    assert of_code(second, "SINGLE_BROKER_TOPIC", "from_time", "topics") == [(clock("05:00", NEXT_DAY), 12)]
    told = pa.concat_tables([first, second])
    third_day = dt.date(2026, 3, 3)
    rows = {gold.TOPIC_QUEUE_HISTORY: [*here, early], gold.CLUSTER_ADDR_HISTORY: cluster}
    assert of_code(found_in(rows, told, third_day), "SINGLE_BROKER_TOPIC", "code") == []
    only_early = {gold.TOPIC_QUEUE_HISTORY: [early], gold.CLUSTER_ADDR_HISTORY: cluster}
    assert of_code(found_in(only_early, told, third_day), "SINGLE_BROKER_TOPIC", "from_time", "to_time") == [
        (clock("05:00", NEXT_DAY), clock("00:00", third_day))
    ]


def test_the_next_day_is_to_be_told_again_if_other_findings_stand() -> None:
    """A new one, one that is gone and one that touches more do; one that was over with its day does not."""
    alone = found_in({gold.ORPHANED_TOPICS: [orphan("no_live_broker", "T", UP)]})
    more = found_in({gold.ORPHANED_TOPICS: [orphan("no_live_broker", topic, UP) for topic in "TU"]})
    over = found_in(
        {gold.ORPHANED_TOPICS: [orphan("no_live_broker", "T", UP), orphan("no_live_broker", "V", SECOND, DOWN)]}
    )
    none = found_in({})
    held = {gold.FINDINGS: HELD[gold.FINDINGS]}

    def otherwise(new: pa.Table, old: pa.Table) -> bool:
        return ends_otherwise({gold.FINDINGS.name: new}, {gold.FINDINGS.name: old}, held)

    assert [otherwise(new, alone) for new in (none, more, over, alone)] == [True, True, False, False]
    assert otherwise(alone, none)


def test_what_nothing_has_touched_goes_on_unasked() -> None:
    """Without news in a code's history nothing is told of it, neither a new finding nor the end of one that stands as it is."""
    rows = {gold.BROKER_ADDR_HISTORY: [member("a", 1, ADDR, UP)], gold.BROKER_LIVE_HISTORY: [live(ADDR, UP)]}
    told = {gold.FINDINGS.name: found_in({gold.BROKER_ADDR_HISTORY: [member("b", 1, ADDR, UP)]})}
    of_day = tables(rows)
    no_news = {table.name: of_day[table.name].slice(0, 0) for table in gold.HISTORY_TABLES}
    found = findings(of_day, no_news, told, About(NS, NEXT_DAY))
    assert of_code(found, "NO_MASTER", "subject", "to_time", "told_on", "ended_on") == [("b", None, DAY, None)]
    found = findings(of_day, {}, told, About(NS, NEXT_DAY))
    assert of_code(found, "NO_MASTER", "subject", "to_time") == [("b", clock("00:00", NEXT_DAY)), ("a", None)]


def test_a_ghost_of_the_night_is_found_on_a_day_without_events() -> None:
    """Time alone makes an address a ghost; what was told of is not ended by a day on which nothing happened."""
    rows = {gold.BROKER_ADDR_HISTORY: [member("a", 0, ADDR, UP)]}
    first = found_in(rows)
    assert of_code(first, "GHOST_BROKER", "from_time", "to_time") == [(UP[1], None)]
    assert of_code(found_in(rows, first, NEXT_DAY), "GHOST_BROKER", "code") == []
    assert of_code(found_in(rows, first, NEXT_DAY, clock("00:01", NEXT_DAY)), "GHOST_BROKER", "code") == []


def test_plain_beats_and_answers_are_time_that_passes() -> None:
    """No outcome is behind either beginning: what is recorded last, a beat or an answer, says how long a thing has been so."""
    rows = {
        gold.BROKER_ADDR_HISTORY: [
            *(member("a", 0, ADDR, UP, SECOND), member("a", 0, OTHER_ADDR, SECOND, event("again", "09:00:30"))),
            member("a", 0, ADDR, event("again", "09:00:30")),
        ],
        gold.BROKER_LIVE_HISTORY: [live(ADDR, UP, event("again", "09:00:30"))],
        gold.EVENT_OUTCOMES: [outcome(event("again", "09:00:30"), "register_broker", broker_name="a")],
    }

    def told(until: str) -> list[list[tuple[Any, ...]]]:
        found = found_in(rows, until=clock(until))
        return [of_code(found, code, "from_time", "to_time") for code in ("DUAL_MASTER_CLAIM", "GHOST_BROKER")]

    dual, ghost = told("09:20")
    assert dual == [(SECOND[1], clock("09:00:30"))]
    assert ghost == [(clock("09:00:30"), None)]
    dual, ghost = told("09:02:29")
    assert dual == [(SECOND[1], None)]
    assert ghost == []


def test_what_ended_while_not_all_was_known_is_not_told() -> None:
    """An end in that time is left out, the ends before and after it are not."""
    rows = [orphan("no_live_broker", topic, UP, end) for topic, end in (("T", SECOND), ("U", DOWN))]
    since_us, until_us = (seq(at[1]) // 1_000 for at in (UP, SECOND))
    about = About(NS, DAY, unsettled=Unsettled(since_us, until_us))
    assert of_code(findings(tables({gold.ORPHANED_TOPICS: rows}), {}, {}, about), "ORPHAN_TOPIC", "subject") == [("U",)]


def test_a_healthy_fleet_is_told_of_once() -> None:
    """2,000 brokers with 8 topics of their own: one finding on the first day, none on the second."""
    names = [f"broker-{number:04}" for number in range(2_000)]
    rows = {
        gold.TOPIC_QUEUE_HISTORY: [queues(f"{name}-{topic}", name, UP) for name in names for topic in range(8)],
        gold.BROKER_ADDR_HISTORY: [member(name, 0, f"{name}:1", UP) for name in names],
        gold.BROKER_LIVE_HISTORY: [live(f"{name}:1", UP) for name in names],
        gold.CLUSTER_ADDR_HISTORY: [in_cluster("C", name, UP) for name in names],
    }
    first = found_in(rows)
    assert first["code"].to_pylist() == ["SINGLE_BROKER_TOPIC"]
    assert first["detail"][0].as_py().startswith("16000 topics on one broker name only, though the cluster has 2000: ")
    assert found_in(rows, first, NEXT_DAY).num_rows == 0


def test_every_code_has_its_query_and_reads_what_it_says() -> None:
    """A query reads the tables without rows of which there is no such finding; all columns of a thing are there."""
    for finding in CATALOGUE:
        assert set(finding.of) <= finding.words
        assert {one if isinstance(one, str) else one.table for one in finding.begins} <= finding.words
    assert len({finding.code for finding in CATALOGUE}) == len(CATALOGUE)
    assert table_of([], gold.FINDINGS).schema == found_in({}).schema
