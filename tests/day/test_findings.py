"""Findings one by one: literal rows in which the code fires, beside rows in which it just does not; and how they last.

What a whole day says, with all codes together, is in test_flags.py.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from namesrv_day.arrow import table_of
from namesrv_day.findings import About, Unsettled, findings
from namesrv_day.registered import ASKED, LONE, TOO_LONG, UNMAPPED
from schemas import bronze, gold
from schemas.dialect import duckdb_body
from schemas.findings import CATALOGUE
from schemas.sql_files import with_shared
from schemas.table import Table
from schemas.times import instant_us
from tests.day.flag_rows import news, still_so, tables
from tests.rows import (
    DAY,
    NEXT_DAY,
    NS,
    Event,
    Row,
    alive,
    changed,
    clock,
    event,
    expired,
    in_cluster,
    live,
    member,
    orphan,
    outcome,
    queues,
    seq,
    version,
)
from tests.situations import Language, Situation, title

ADDR = "10.0.0.1:10911"
UP, SECOND, DOWN = event("up", "08:00"), event("second", "09:00"), event("down", "10:00")


def found_in(
    rows: Mapping[Any, list[Row]],
    told: pa.Table | None = None,
    day: dt.date = DAY,
    until: dt.datetime | None = None,
    **before: pa.Table,
) -> pa.Table:
    """Return what begins and ends on a day of which nothing else is known, recorded `until` then, or else to its end.

    `told`: the same of days before, one after the other; `before`: what else those left.
    """
    before |= {} if told is None else {gold.FINDINGS.name: still_so(told)}
    end = until or clock("23:59:59.999999", day)
    seen = {name: pa.Table.from_pylist(rows[name], schema) for name, schema in SEEN.items() if name in rows}
    of_tables = tables({table: of for table, of in rows.items() if isinstance(table, Table)})
    return news(findings({**of_tables, **seen}, {}, before, About(NS, day, seen_until=end)), day)


def of_code(found: pa.Table, code: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return the findings of one code, in order of time."""
    rows = sorted(found.to_pylist(), key=lambda row: (row["from_time"], row["subject"]))
    return [tuple(row[name] for name in columns) for row in rows if row["code"] == code]


def gone_at(addr: str, *ends: dt.datetime) -> list[Row]:
    """Return live entries that end at these times, each ten seconds after it began."""
    return [
        live(addr, (f"back {addr} {end:%H:%M:%S}", end - dt.timedelta(seconds=10)), (f"{addr} {end:%H:%M:%S}", end))
        for end in ends
    ]


def reported(addr: str, opened: Event, before: int, now: int, *, older: bool) -> Row:
    """Return a data version with counter `now` after one with counter `before`."""
    versions: Row = {
        "data_version": {"state_version": 0, "timestamp": 5, "counter": now},
        "previous": {"state_version": 0, "timestamp": 5, "counter": before},
    }
    return alive(opened, broker_name="broker-a", broker_addr=addr, is_regression=older, **versions)


def fact(kind: str, offset: int, at: Event) -> Row:
    """Return a fact of the name server's life, as a line of a file says it."""
    where = {"source_file": "file", "source_offset": offset, "day": DAY, "evidence": f"{at[0]} says so"}
    what = {"namesrv_id": NS, "event_id": at[0], "kind": kind, "seq": seq(at[1])}
    return {**what, **where, "event_time": at[1], "effect_time": at[1]}


def too_long(name: str | None, addr: str | None, channel: str, at: dt.datetime) -> Row:
    """Return a registration that no name server takes, of a piece of quarantine."""
    piece = {"channel_id": channel, "bytes": 16_777_397, "seen_time": at, "quarantine_id": f"piece {at:%H:%M}"}
    return {"broker_addr": addr, "broker_name": name, **piece}


def said(topic: str, what: str, at: Event) -> Row:
    """Return what a broker's registration says of a static topic."""
    told = {"seen_time": at[1], "event_id": at[0], "kind": what, "seq": seq(at[1])}
    return {"broker_name": "a", "broker_addr": ADDR, "topic": topic, **told}


def gap(at: Event, until: dt.datetime) -> Row:
    """Return the outcome of a gap in the recording."""
    end = str(instant_us(until) // 1000)
    return outcome(at, "recording_gap", outcome="unrecorded", detail=end, changes=0)


def asked(first: dt.datetime, last: dt.datetime) -> Row:
    return {"first_us": instant_us(first), "last_us": instant_us(last), "first_id": "first", "last_id": "last"}


LANGUAGE = Language(
    {
        "gone": (gold.BROKER_LIVE_HISTORY, gone_at),
        "asked": ("asked", asked),
        "expired": (gold.EXPIRED_BROKERS, expired),
        "gap": (gold.EVENT_OUTCOMES, gap),
        "fact": (bronze.NAMESRV_EVENTS, fact),
        "in_cluster": (gold.CLUSTER_ADDR_HISTORY, in_cluster),
        "live": (gold.BROKER_LIVE_HISTORY, live),
        "mapping": (
            gold.TOPIC_QUEUE_MAPPING_HISTORY,
            lambda topic, bname, up: alive(up, topic=topic, bname=bname, total_queues=4, epoch=7, dirty=False),
        ),
        "member": (gold.BROKER_ADDR_HISTORY, member),
        "orphan": (gold.ORPHANED_TOPICS, orphan),
        "outcome": (gold.EVENT_OUTCOMES, outcome),
        "queues": (gold.TOPIC_QUEUE_HISTORY, queues),
        "reported": (gold.DATA_VERSION_HISTORY, reported),
        "version": (gold.DATA_VERSION_HISTORY, version),
        "said": ("unmapped", said),
        "too_long": ("too_long", too_long),
        "vanished": (gold.ROUTE_CHANGES, lambda by, *topics: [changed(by, "vanished", topic) for topic in topics]),
    },
    {},
    DAY,
)
SEEN = {"asked": ASKED, "lone": LONE, "too_long": TOO_LONG, "unmapped": UNMAPPED}
"""What is made of other tables than those that are kept."""
ADDRESSES = {
    "loopback": "127.0.1.1:10911 localhost:10911 localhost.localdomain:10911 [::1]:10911 [0:0:0:0:0:0:0:1%lo]:10911 "
    "[::ffff:127.0.0.1]:10911 [::FFFF:7f00:1]:10911 [0:0:0:0:0:ffff:7f00:1]:1 ::1:10911 [::1]:0",
    "unspecified": "0.0.0.0:10911 [::]:10911 [0:0:0:0:0:0:0:0]:10911 :::10911 [::ffff:0.0.0.0]:1 [::ffff:0:0]:1",
    "link-local": "169.254.10.5:10911 [fe80:0:0:0:1:2:3:4%eth0]:10911 [FEBF::1]:10911 fe80::1%eth0:10911 [::ffff:169.254.1.1]:1",
    "container default": "172.17.0.2:10911 172.31.0.2:1 host.docker.internal:10911 host.containers.internal:1 10.88.0.5:1 "
    "192.168.122.5:3 3f2a9c01bd44:10911 [::ffff:172.17.0.2]:1 [::ffff:ac11:2]:1",
    "no port": "10.1.0.77:0 10.1.0.78 10.1.0.1:65536 10.1.0.1:x [fd00::1]:0 [2001:db8::7]",
    "no address": "null:10911 null :10911",
    None: "rocketmq-broker:10911 fd00::1:7a:10911 100.64.3.4:10911 [2001:db8::7]:10911 [::ffff:10.1.0.1]:1 [1::1]:2 [::2]:5 "
    "172.32.0.1:1 172.16.0.7:10911 [::ffff:ac10:7]:1 "
    "192.168.1.1:3 10.127.0.1:5 localhostess:1 feedfacebeef.example.com:1 10.1.0.1:65535",
}
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


@pytest.mark.slow
@pytest.mark.parametrize("story", LANGUAGE.stories(Path(__file__).with_name("findings_over_days.txt")), ids=title)
def test_findings_last_over_days(story: list[Situation]) -> None:
    """Each day tells what begins and what ends on it, with its true beginning, and nothing of what stands as it was."""
    days: list[tuple[pa.Table, list[Row]]] = []
    for situation in story:
        if situation.name == "or":
            days.pop()
        day = dt.date.fromisoformat(situation.shows) if days else DAY
        (until,) = map(LANGUAGE.value, situation.asked or ["-"])
        gone = [row for _, rows in days for row in rows]
        before = {gold.EXPIRED_BROKERS.name: table_of(gone, gold.EXPIRED_BROKERS)} if gone else {}
        told = pa.concat_tables([found for found, _ in days]) if days else None
        found = found_in(situation.rows, told, day, until, **before)
        columns = ("subject", "from_time", "to_time", "evidence", "detail")
        shown = of_code(found, story[0].name, *columns)
        wanted = [line.split(" | ") for line in situation.found]
        assert [row[:4] for row in shown] == [
            (of[0], *map(LANGUAGE.value, of[1:3]), of[3].split(", ")) for of in wanted
        ]
        assert all(words in detail for (*_, detail), of in zip(shown, wanted, strict=True) for words in of[4:])
        days.append((found, situation.rows.get(gold.EXPIRED_BROKERS, [])))


def test_brokers_that_fall_silent_together_are_one_finding() -> None:
    """With their number, the first few, and all topics they lost; one half a minute later has a cause of its own."""
    lost: Row = {"topics_lost": ["T", "U"]}
    rows = [expired(f"b{number:02}", *map(clock, ("10:00:00", "10:02:05", "10:20:00")), **lost) for number in range(12)]
    rows += [
        expired("c", *map(clock, ("10:00:30", "10:02:35", "10:21:00")), **lost),
        expired("d", *map(clock, ("10:01:01", "10:03:05", "10:22:00")), **lost),
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


def flaps(times: int, up_s: float, cycle_s: float) -> list[tuple[Event, Event]]:
    """Return how often a broker came and went on the day, from eight o'clock on."""
    at = [clock("08:00") + dt.timedelta(seconds=cycle_s * number) for number in range(times)]
    return [((f"up {one}", one), (f"down {one}", one + dt.timedelta(seconds=up_s))) for one in at]


def test_many_brokers_that_flap_at_one_address_are_found() -> None:
    """As containers do. What the queries hold grows with the flaps, not with a power of them, or they never end."""
    names = [f"broker-{number:03}" for number in range(600)]
    lives = flaps(4, up_s=600, cycle_s=1_000)
    rows = {
        gold.BROKER_ADDR_HISTORY: [member(name, 0, ADDR, *life) for name in names for life in lives],
        gold.CLUSTER_ADDR_HISTORY: [in_cluster("C", name, *life) for name in names for life in lives],
        gold.BROKER_LIVE_HISTORY: [live(ADDR, *life, broker_name=names[0]) for life in flaps(2_400, 1, 2)],
    }
    found = found_in(rows)
    (one,) = of_code(found, "ADDR_MULTI_IDENTITY", "subject", "brokers", "from_time", "to_time")
    assert one == (ADDR, 600, clock("08:00"), lives[-1][1][1])
    assert "GHOST_BROKER" not in found["code"].to_pylist()


def test_a_broker_that_is_lost_every_few_seconds_is_found() -> None:
    """Five thousand times, and its address is the one of another host's haServerAddr: each is compared with what is next to it."""
    lives = flaps(5_000, up_s=5, cycle_s=10)
    rows = {
        gold.BROKER_ADDR_HISTORY: [member("a", 0, ADDR, *life) for life in lives],
        gold.CLUSTER_ADDR_HISTORY: [in_cluster("C", "a", *life) for life in lives],
        gold.BROKER_LIVE_HISTORY: [
            live(ADDR, *life, broker_name="a", ha_server_addr="10.0.0.1:10912") for life in lives
        ],
        gold.TOPIC_QUEUE_HISTORY: [queues("T", "a", *life) for life in lives],
        "lone": [{"broker_name": "a", "broker_addr": ADDR, "seen_time": at, "event_id": of} for (of, at), _ in lives],
    }
    codes = found_in(rows)["code"].to_pylist()
    assert codes.count("BROKER_FLAPPING") == 1
    assert not {"GHOST_BROKER", "GHOST_CLUSTER_MEMBER", "PRIVATE_HA_ADDR"}.intersection(codes)


def test_a_name_server_that_restarts_every_few_minutes_is_told_of() -> None:
    """300 times with 200 topics: each start is compared with what left before it and came next, not with all other starts."""
    lives = flaps(300, up_s=100, cycle_s=150)
    starts = [(f"start {at}", at - dt.timedelta(seconds=20)) for (_, at), _ in lives]
    rows = {
        gold.TOPIC_QUEUE_HISTORY: [queues(f"T{topic}", "a", *life) for topic in range(200) for life in lives],
        gold.EVENT_OUTCOMES: [
            *(outcome(down, "namesrv_stopped") for _, down in lives),
            *(outcome(start, "namesrv_started") for start in starts),
        ],
    }
    found = of_code(found_in(rows), "NS_COLD_START", "detail", "topics")
    assert len(found) == 300
    assert found[1:] == 299 * [
        ("first route 20000 ms after the start; all 200 topics that it had before back 20000 ms after it", 200)
    ]


def test_every_code_has_its_query_and_reads_what_it_says() -> None:
    """A query reads the tables without rows of which there is no such finding; all columns of a thing are there."""
    for finding in CATALOGUE:
        assert set(finding.of) <= finding.words
    assert len({finding.code for finding in CATALOGUE}) == len(CATALOGUE)
    assert table_of([], gold.FINDINGS).schema == found_in({}).schema


@pytest.mark.slow
@pytest.mark.parametrize("kind", ADDRESSES)
def test_what_an_address_looks_like_is_said_alike_by_finding_and_query(kind: str | None) -> None:
    """The shared expression, as DuckDB reads it and as it is made of the saved query's Spark text."""
    sql = with_shared("SELECT {address_kind(a)} AS kind FROM given")
    for address in ADDRESSES[kind].split():
        for text in (sql, duckdb_body(sql)):
            given = f"WITH given AS (SELECT '{address}' AS a) "
            assert (address, duckdb.sql(given + text).fetchall()) == (address, [(kind,)])
