"""Situations that outlast a day, or hang on what an address looks like: literal rows of two days, and what is told of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from namesrv_day.flags.findings import About, findings
from namesrv_day.flags.registered import ASKED, TOO_LONG, UNMAPPED
from schemas import gold
from schemas.dialect import duckdb_body
from schemas.sql_files import with_shared
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
    still_so,
    tables,
)
from tests.day.test_findings import in_cluster

UP, DOWN, BACK = event("up", "08:00"), event("down", "10:00"), event("back", "10:05")
ADDR, OTHER_ADDR = "10.0.0.1:10911", "10.0.0.2:10911"
KINDS = {
    "loopback": "127.0.1.1:10911 localhost:10911 localhost.localdomain:10911 [::1]:10911 [0:0:0:0:0:0:0:1%lo]:10911 "
    "[::ffff:127.0.0.1]:10911 [::FFFF:7f00:1]:10911 [0:0:0:0:0:ffff:7f00:1]:1 ::1:10911 [::1]:0",
    "unspecified": "0.0.0.0:10911 [::]:10911 [0:0:0:0:0:0:0:0]:10911 :::10911 [::ffff:0.0.0.0]:1 [::ffff:0:0]:1",
    "link-local": "169.254.10.5:10911 [fe80:0:0:0:1:2:3:4%eth0]:10911 [FEBF::1]:10911 fe80::1%eth0:10911 [::ffff:169.254.1.1]:1",
    "container default": "172.17.0.2:10911 172.31.0.2:1 host.docker.internal:10911 host.containers.internal:1 10.88.0.5:1 "
    "192.168.122.5:3 3f2a9c01bd44:10911 [::ffff:172.17.0.2]:1 [::ffff:ac11:2]:1",
    "no port": "10.1.0.77:0 10.1.0.78 10.1.0.1:65536 10.1.0.1:x [fd00::1]:0 [2001:db8::7]",
    "no address": "null:10911 null :10911",
    None: "rocketmq-broker:10911 fd00::1:7a:10911 100.64.3.4:10911 [2001:db8::7]:10911 [::ffff:10.1.0.1]:1 [1::1]:2 [::2]:5 "
    "172.32.0.1:1 192.168.1.1:3 10.127.0.1:5 localhostess:1 feedfacebeef.example.com:1 10.1.0.1:65535",
}


def told(
    rows: dict[Table, list[Row]], before: pa.Table | None = None, day: dt.date = DAY, **seen: pa.Table
) -> pa.Table:
    """Return what begins and ends on a day; `before`: the same of days before; `seen`: what registrations show."""
    given = {} if before is None else {gold.FINDINGS.name: still_so(before)}
    return news(findings({**tables(rows), **seen}, {}, given, About(NS, day)), day)


def of(found: pa.Table, code: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = sorted(found.to_pylist(), key=lambda row: (row["from_time"], row["subject"]))
    return [tuple(row[name] for name in columns) for row in rows if row["code"] == code]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_an_address_looks_like_is_said_alike_by_finding_and_query(kind: str | None) -> None:
    """The shared expression, as DuckDB reads it and as it is made of the saved query's Spark text."""
    sql = with_shared("SELECT {address_kind(a)} AS kind FROM given")
    for address in KINDS[kind].split():
        for text in (sql, duckdb_body(sql)):
            given = f"WITH given AS (SELECT '{address}' AS a) "
            assert (address, duckdb.sql(given + text).fetchall()) == (address, [(kind,)])


@pytest.mark.slow
def test_an_address_for_replication_is_told_until_it_is_another() -> None:
    """Of the container's bridge, and whatever two hosts of a group give; not where the broker itself is there."""
    better = event("better", "03:00", NEXT_DAY)
    entries: dict[str, Any] = {"ha_server_addr": "172.17.0.1:10912", "broker_name": "a"}
    members = [member("a", 0, ADDR, UP), member("a", 1, OTHER_ADDR, UP), member("b", 0, "172.18.0.5:1", UP)]
    rows = {
        gold.BROKER_ADDR_HISTORY: members,
        gold.BROKER_LIVE_HISTORY: [
            *(live(addr, UP, **entries) for addr in (ADDR, OTHER_ADDR)),
            live("172.18.0.5:1", UP, ha_server_addr="172.18.0.5:2", broker_name="b"),
        ],
    }
    first = told(rows)
    ((severity, subject, begin, end, detail),) = of(
        first, "PRIVATE_HA_ADDR", "severity", "subject", "from_time", "to_time", "detail"
    )
    assert (severity, subject, begin, end) == ("warning", "C 172.17.0.1", UP[1], None)
    assert detail.startswith(
        "slaves can hardly reach the haServerAddr of 2 brokers: a 10.0.0.1:10911 gives 172.17.0.1:10912 (con"
    )
    changed = event("changed", "01:00", NEXT_DAY)
    goes_on = [
        row
        for addr in (ADDR, OTHER_ADDR)
        for row in (live(addr, UP, changed, **entries), live(addr, changed, **entries))
    ]
    second = told({**rows, gold.BROKER_LIVE_HISTORY: goes_on}, first, NEXT_DAY)
    assert of(second, "PRIVATE_HA_ADDR", "subject") == []
    mended = [live(addr, UP, better, **entries) for addr in (ADDR, OTHER_ADDR)]
    mended += [live(addr, better, ha_server_addr=addr, broker_name="a") for addr in (ADDR, OTHER_ADDR)]
    second = told({**rows, gold.BROKER_LIVE_HISTORY: mended}, first, NEXT_DAY)
    assert of(second, "PRIVATE_HA_ADDR", "from_time", "to_time") == [(UP[1], better[1])]
    alike = [live(addr, UP, ha_server_addr="192.168.49.1:10912", broker_name="a") for addr in (ADDR, OTHER_ADDR)]
    ((subject, detail),) = of(told({**rows, gold.BROKER_LIVE_HISTORY: alike}), "PRIVATE_HA_ADDR", "subject", "detail")
    assert subject == "C 192.168.49.1"
    assert "(given by two hosts)" in detail


@pytest.mark.slow
def test_a_name_without_a_group_is_told_while_a_cluster_lists_it() -> None:
    """From the end of the group until there is one again, over midnight; a set that loses the name with it is not told."""
    rows = {
        gold.CLUSTER_ADDR_HISTORY: [in_cluster("Old", "a", UP), in_cluster("New", "a", UP, DOWN)],
        gold.BROKER_ADDR_HISTORY: [member("a", 0, ADDR, UP, DOWN)],
    }
    first = told(rows)
    columns = ("subject", "from_time", "to_time", "evidence")
    assert of(first, "GHOST_CLUSTER_MEMBER", *columns) == [("Old a", DOWN[1], None, ["down"])]
    old = {gold.CLUSTER_ADDR_HISTORY: [in_cluster("Old", "a", UP)]}
    assert of(told(old, first, NEXT_DAY), "GHOST_CLUSTER_MEMBER", "subject") == []
    again = event("again", "02:00", NEXT_DAY)
    second = told({**old, gold.BROKER_ADDR_HISTORY: [member("a", 0, ADDR, again)]}, first, NEXT_DAY)
    assert of(second, "GHOST_CLUSTER_MEMBER", *columns) == [("Old a", DOWN[1], again[1], ["down", "again"])]
    handed_over = [*rows[gold.BROKER_ADDR_HISTORY], member("a", 0, OTHER_ADDR, DOWN)]
    assert of(told({**rows, gold.BROKER_ADDR_HISTORY: handed_over}), "GHOST_CLUSTER_MEMBER", "subject") == []


@pytest.mark.slow
def test_a_start_lasts_until_what_was_lost_is_back() -> None:
    """Of two topics one is back the same day, the other one on the next; after a week nobody waits."""
    stop, start = event("stop", "10:00"), event("start", "10:01")
    gone = [queues(topic, "a", UP, stop) for topic in "TU"]
    turns = [outcome(stop, "namesrv_stopped"), outcome(start, "namesrv_started")]
    rows = {gold.TOPIC_QUEUE_HISTORY: [*gone, queues("T", "a", BACK)], gold.EVENT_OUTCOMES: turns}
    first = told(rows)
    columns = ("from_time", "to_time", "topic_names", "detail")
    assert of(first, "NS_COLD_START", *columns) == [
        (
            *(start[1], None, ["U"]),
            "first route 240000 ms after the start; 1 of the 2 topics that it had before are not back: U",
        )
    ]
    open_rows = [queues("T", "a", BACK)]
    assert of(told({gold.TOPIC_QUEUE_HISTORY: open_rows}, first, NEXT_DAY), "NS_COLD_START", "subject") == []
    last = event("last", "04:00", NEXT_DAY)
    second = told({gold.TOPIC_QUEUE_HISTORY: [*open_rows, queues("U", "b", last)]}, first, NEXT_DAY)
    assert of(second, "NS_COLD_START", "from_time", "to_time") == [(start[1], last[1])]
    given_up = told({gold.TOPIC_QUEUE_HISTORY: open_rows}, first, DAY + dt.timedelta(days=7))
    assert of(given_up, "NS_COLD_START", "to_time") == [(start[1] + dt.timedelta(days=7),)]
    deleted = outcome(event("deleted", "10:08"), "delete_topic", topic="U")
    given_up = told({**rows, gold.EVENT_OUTCOMES: [*turns, deleted]})
    assert of(given_up, "NS_COLD_START", "to_time") == [(BACK[1],)]
    rows[gold.TOPIC_QUEUE_HISTORY].append(queues("U", "a", event("soon", "10:09")))
    assert of(told(rows), "NS_COLD_START", "to_time") == [(clock("10:09"),)]


@pytest.mark.slow
def test_a_broker_that_is_back_with_fewer_topics_is_told() -> None:
    """Until the rest is back, on whatever day; what comes within a minute is not missed."""

    def group(name: str, addr: str, come: dict[str, Event]) -> tuple[list[Row], list[Row]]:
        members = [member(name, 0, addr, UP, DOWN), member(name, 0, addr, BACK)]
        return members, [*(queues(t, name, UP, DOWN) for t in "TUV"), *(queues(t, name, at) for t, at in come.items())]

    soon = event("soon", "10:06")
    fewer, fewer_queues = group("a", ADDR, {"T": BACK})
    whole, whole_queues = group("b", OTHER_ADDR, {"T": BACK, "U": BACK, "V": soon})
    rows = {gold.BROKER_ADDR_HISTORY: [*fewer, *whole], gold.TOPIC_QUEUE_HISTORY: [*fewer_queues, *whole_queues]}
    first = told(rows)
    columns = ("subject", "from_time", "to_time", "detail", "evidence")
    assert of(first, "PARTIAL_FIRST_REGISTRATION", *columns) == [
        (f"a {ADDR}", BACK[1], None, "back with 1 of the 3 topics that a had before; not back: U, V", ["back"])
    ]
    later = event("later", "05:00", NEXT_DAY)
    today = {
        gold.BROKER_ADDR_HISTORY: [fewer[1]],
        gold.TOPIC_QUEUE_HISTORY: [queues("T", "a", BACK), queues("U", "a", later)],
    }
    assert of(told(today, first, NEXT_DAY), "PARTIAL_FIRST_REGISTRATION", "subject") == []
    today[gold.TOPIC_QUEUE_HISTORY].append(queues("V", "a", later))
    second = told(today, first, NEXT_DAY)
    assert of(second, "PARTIAL_FIRST_REGISTRATION", "from_time", "to_time", "evidence") == [
        (BACK[1], later[1], ["back", "later"])
    ]
    rows[gold.EVENT_OUTCOMES] = [outcome(DOWN, "namesrv_stopped")]
    assert of(told(rows), "PARTIAL_FIRST_REGISTRATION", "subject") == []


def test_registrations_that_are_too_long_are_told_until_one_fits() -> None:
    """Of whom their header says they are, or else of the live entry on that host; on the next day nothing new is told."""

    def frames(*rows: tuple[str | None, str, str, dt.date]) -> pa.Table:
        told_of = (
            {
                "broker_addr": addr,
                "broker_name": None if addr is None else "a",
                "channel_id": f"{host}:4#{at}",
                "bytes": 16_777_397,
            }
            | {"told_time": clock(at, day), "quarantine_id": f"piece {at}"}
            for addr, host, at, day in rows
        )
        return pa.Table.from_pylist(list(told_of), TOO_LONG)

    entries = [live(ADDR, UP, DOWN, broker_name="a", channel_id="10.0.0.1:3#1")]
    closes = [outcome(DOWN, "channel_close", channel_id="10.0.0.1:4#10:00")]
    entries.append(live(OTHER_ADDR, UP, broker_name="b", channel_id="10.0.0.2:3#1"))
    seen = frames((ADDR, "10.0.0.1", "10:00", DAY), (ADDR, "10.0.0.1", "10:01", DAY), (None, "10.0.0.2", "10:02", DAY))
    first = told({gold.BROKER_LIVE_HISTORY: entries, gold.EVENT_OUTCOMES: closes}, too_long=seen)
    columns = ("subject", "from_time", "to_time", "evidence")
    assert of(first, "FRAME_TOO_LONG", *columns) == [
        (f"a {ADDR}", clock("10:00"), None, ["down", "piece 10:01"]),
        (f"b {OTHER_ADDR}", clock("10:02"), None, ["piece 10:02"]),
    ]
    assert "2 registrations of up to 16,777,397 bytes" in of(first, "FRAME_TOO_LONG", "detail")[0][0]
    fits = event("fits", "06:00", NEXT_DAY)
    second = told(
        {gold.BROKER_LIVE_HISTORY: [live(ADDR, fits, broker_name="a")]},
        first,
        NEXT_DAY,
        too_long=frames((ADDR, "10.0.0.1", "05:00", NEXT_DAY)),
    )
    assert of(second, "FRAME_TOO_LONG", *columns) == [
        (f"a {ADDR}", clock("10:00"), fits[1], ["down", "piece 10:01", "fits"])
    ]


@pytest.mark.slow
def test_a_mapping_that_stays_is_told_until_the_topic_is_static_again() -> None:
    """Or is gone from the name server; a topic that the broker does not list is not told of."""
    plain, static = event("plain", "10:00"), event("static", "03:00", NEXT_DAY)
    mapping: dict[str, Any] = {"total_queues": 4, "epoch": 7, "dirty": False}
    mappings = [alive(UP, topic=topic, bname="a", **mapping) for topic in "ST"]

    def said(topic: str, what: str, at: Event) -> Row:
        return {
            "broker_name": "a",
            "broker_addr": ADDR,
            "topic": topic,
            "told_time": at[1],
            "event_id": at[0],
            "said": what,
        } | {"seq": int(at[1].timestamp()) * 10**9}

    rows = {gold.TOPIC_QUEUE_MAPPING_HISTORY: mappings, gold.TOPIC_QUEUE_HISTORY: [queues("S", "a", UP)]}
    seen = pa.Table.from_pylist([said("S", "plain", plain), said("T", "missing", plain)], UNMAPPED)
    first = told(rows, unmapped=seen)
    columns = ("subject", "from_time", "to_time", "evidence")
    assert of(first, "STATIC_MAPPING_LEFT", *columns) == [("S@a", plain[1], None, ["plain"])]
    assert of(told(rows, first, NEXT_DAY), "STATIC_MAPPING_LEFT", "subject") == []
    again = pa.Table.from_pylist([said("S", "static", static)], UNMAPPED)
    second = told(rows, first, NEXT_DAY, unmapped=again)
    assert of(second, "STATIC_MAPPING_LEFT", *columns) == [("S@a", plain[1], static[1], ["plain", "static"])]
    deleted = event("deleted", "02:00", NEXT_DAY)
    second = told({**rows, gold.TOPIC_QUEUE_HISTORY: [queues("S", "a", UP, deleted)]}, first, NEXT_DAY)
    assert of(second, "STATIC_MAPPING_LEFT", "to_time") == [(deleted[1],)]


def test_an_abandoned_name_server_is_told_with_the_answers_that_it_gave() -> None:
    """From the first question on where the recording begins with it; ten minutes count from there, not from midnight."""

    def asked(first: str, last: str) -> pa.Table:
        at = {name: int(clock(when).timestamp()) * 10**6 for name, when in (("first_us", first), ("last_us", last))}
        return pa.Table.from_pylist([{**at, "first_id": "first", "last_id": "last"}], ASKED)

    found = told({}, asked=asked("08:00", "08:30"))
    assert of(found, "NS_ABANDONED", "from_time", "to_time", "evidence") == [(clock("08:00"), None, ["first", "last"])]
    assert of(told({}, asked=asked("08:00", "08:05")), "NS_ABANDONED", "subject") == []
