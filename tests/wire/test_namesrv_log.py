"""Name servers' own logs: what lines of both generations say, whose hour it is, and what is left out, refused or counted."""

# ruff: noqa: E501  lines of logs are as long as they are

from __future__ import annotations

import gzip
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from namesrv_core.machine import events
from namesrv_core.machine.past import Past
from namesrv_core.machine.profile import V4_9_7, V5_4_0, Namesrv, Profile
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.tables import QueueData
from namesrv_core.replay.loop import take
from namesrv_wire.errors import CaptureError, DecodeError
from namesrv_wire.logs.event_log import Block
from namesrv_wire.logs.log_lines import logged
from namesrv_wire.logs.namesrv_log import OTHER_LINES, LogConf, is_fact, read_log, zone_of
from namesrv_wire.rows import AnyRow
from schemas.codec import event_of

ADDR = "10.0.0.1:9876"
TOLD = LogConf(ADDR, "UTC")
QD = "QueueData [brokerName=broker-a, readQueueNums=8, writeQueueNums=8, perm={}, topicSysFlag=0]"
FOURS = f"""\
2026-11-21 08:54:27.275 INFO main - rocketmqHome=/opt/rocketmq
2026-11-21 08:54:28.755 INFO main - The Name Server boot success. serializeType=JSON
2026-11-21 08:54:28.827 INFO NettyServerCodecThread_1 - NETTY SERVER PIPELINE: channelActive, the channel[10.0.0.9:4000]
2026-11-21 08:54:40.915 INFO RemotingExecutorThread_4 - cluster [C] brokerName [broker-a] master address change from null to 10.0.0.2:10911
2026-11-21 08:54:40.916 INFO RemotingExecutorThread_4 - new topic registered, T {QD.format(6)}
2026-11-21 08:54:40.916 INFO RemotingExecutorThread_4 - new broker registered, 10.0.0.2:10911 HAServer: 10.0.0.2:10912
2026-11-21 08:55:10.000 INFO RemotingExecutorThread_4 - topic changed, T OLD: {QD.format(6)} NEW: {QD.format(4)}
2026-11-21 08:55:20.000 INFO RemotingExecutorThread_2 - putKVConfig create new config item, Namespace: N Key: K Value: one
two
2026-11-21 08:55:30.000 INFO RemotingExecutorThread_2 - add write perm of broker[broker-a], client: 10.0.0.9:4000, 1
2026-11-21 08:55:31.000 INFO NettyServerCodecThread_1 - NETTY SERVER PIPELINE: channelInactive, the channel[10.0.0.9:4000]
2026-11-21 08:57:30.000 WARN NSScheduledThread1 - The broker channel expired, 10.0.0.2:10911 120000ms
2026-11-21 08:57:30.000 INFO NSScheduledThread1 - remove brokerAddr[0, 10.0.0.2:10911] from brokerAddrTable, because channel destroyed
2026-11-21 08:57:30.000 INFO NSScheduledThread1 - remove brokerName[broker-a] from brokerAddrTable, because channel destroyed
2026-11-21 08:57:30.001 INFO NSScheduledThread1 - remove brokerName[broker-a], clusterName[C] from clusterAddrTable, because channel destroyed
2026-11-21 08:57:30.001 INFO NSScheduledThread1 - remove topic[T {QD.format(6)}], from topicQueueTable, because channel destroyed
2026-11-21 08:57:30.001 INFO NSScheduledThread1 - remove topic[U null], from topicQueueTable, because channel destroyed
"""
INFO = "BrokerIdentityInfo [clusterName=C, brokerAddr=10.0.0.2:10911]"
FIVES = f"""\
2026-11-21 08:54:40.916 INFO RemotingExecutorThread_4 - new topic registered, T {QD.format(6)}
2026-11-21 08:54:40.916 INFO RemotingExecutorThread_4 - new broker registered, {INFO} HAService: 10.0.0.2:10912
2026-11-21 08:55:10.000 INFO RemotingExecutorThread_9 - Register topic route:U, [{QD.format(6)}]
2026-11-21 08:55:20.000 INFO RemotingExecutorThread_9 - deleteTopic, remove one broker's topic broker-a U {QD.format(6)}
2026-11-21 08:57:30.000 WARN NSScanScheduledThread - The broker channel expired, {INFO} 9000ms
2026-11-21 08:57:30.001 INFO x.BatchUnregistrationService - unregisterBroker, remove from brokerLiveTable OK, {INFO}
2026-11-21 08:57:30.001 INFO x.BatchUnregistrationService - unregisterBroker, remove addr from brokerAddrTable OK, {INFO}
2026-11-21 08:57:30.001 INFO x.BatchUnregistrationService - unregisterBroker, remove name from brokerAddrTable OK, broker-a
"""


def read(
    folder: Path, text: str | bytes, told: LogConf = TOLD, name: str = "namesrv.log"
) -> tuple[list[AnyRow], list[int]]:
    """Return the rows of a log, and how many lines say something, others do not, and belong to an event of an earlier one."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    blocks = list(read_log(path, told))
    rows = [row for block in blocks for row in block.rows]
    lines = sum(block.frames for block in blocks)
    assert lines == sum(not is_fact(row) for row in rows) + sum(block.ignored.total() for block in blocks)
    counts = [lines, *(sum(block.ignored[rule] for block in blocks) for rule in (OTHER_LINES, "lines_of_one_event"))]
    return rows, counts


def said(rows: list[AnyRow], *names: str) -> list[tuple[Any, ...]]:
    """Return some values of rows."""
    return [tuple(row.values.get(name) for name in names) for row in rows]


def replayed(rows: list[AnyRow], profile: Profile) -> Registry:
    """Return what a registry of which nothing was known holds after the events of rows."""
    registry, namesrv = Registry(profile), Namesrv(profile)
    registry.past = Past(0)
    absent = dict.fromkeys(("channel_kind", "looked_up", "refusal", "response_code"))
    for row in sorted(rows, key=lambda row: row.values["seq"]):
        kind = row.values.get("kind")
        if row.table == "admin_events" or kind in ("started", "logged"):
            event = event_of({**absent, **row.values, "namesrv_kind": kind, "kind": row.table}, {})
            take(registry, event, row.values["effect_time"] // 1_000, namesrv)
    return registry


def test_lines_of_4x(tmp_path: Path) -> None:
    """What one call wrote is one event with its first line; a KV value goes over lines; who asked is told where it is known."""
    rows, counts = read(tmp_path, FOURS)
    facts = [row for row in rows if row.values.get("kind") in ("started", "identified", "observed_from")]
    assert said(facts, "kind", "version", "source_offset") == [
        ("observed_from", None, 1),
        ("started", None, 1),
        ("identified", 407, 4),
    ]
    logs = [row for row in rows if row.values.get("kind") == "logged"][1:]
    operations = [row.values["properties"].split("\n")[0] for row in logs]
    assert (operations, [row.values["source_offset"] for row in logs]) == (
        ["register_broker", "register_broker", "lease_ended"],
        [4, 7, 12],
    )
    admin = [row for row in rows if row.table == "admin_events"]
    client = f"10.0.0.9:4000#{1795251268827000000}"
    assert said(admin, "code", "config_value", "channel_id") == [(100, "one\ntwo", None), (327, None, client)]
    (end,) = [row for row in rows if row.table == "channel_events"]
    assert (end.values["channel_id"], end.values["kind"]) == (client, "close")
    assert counts == [17, 2, 8]
    registry = replayed([row for row in rows if row.values["effect_time"] < 1795251450000000], V4_9_7)
    assert registry.topic_queue_table["T"]["broker-a"] == QueueData(8, 8, 6, 0)
    assert registry.broker_addr_table["broker-a"].addr_of == {0: "10.0.0.2:10911"}
    assert [live.heartbeat_timeout_ms for live in registry.broker_live_table.values()] == [None]
    registry = replayed(rows, V4_9_7)
    assert [len(registry.topic_queue_table), len(registry.broker_addr_table), len(registry.broker_live_table)] == [
        0,
        0,
        0,
    ]
    assert registry.past is not None
    assert not registry.past.hears


def test_lines_of_5x(tmp_path: Path) -> None:
    """An unregistration that a lease's end asked for is told as that; a name that goes takes its queue data along."""
    rows, _ = read(tmp_path, FIVES)
    logs = [row.values["properties"].split("\n")[0] for row in rows if row.values.get("kind") == "logged"][1:]
    assert logs == ["register_broker", "register_topic", "delete_topic", "lease_ended", "lease_ended"]
    assert [row.values["version"] for row in rows if row.values.get("kind") == "identified"] == [493]
    registry = replayed([row for row in rows if row.values["effect_time"] < 1795251315000000], V5_4_0)
    assert set(registry.topic_queue_table) == {"T", "U"}
    assert ("C", "10.0.0.2:10911") in registry.broker_live_table
    registry = replayed(rows, V5_4_0)
    assert [len(registry.topic_queue_table), len(registry.broker_live_table)] == [0, 0]
    rows, _ = read(tmp_path, FIVES.replace("NSScanScheduledThread - The broker channel expired", "x - y"))
    assert "unregister_batch" in [str(row.values.get("properties")).split("\n")[0] for row in rows]


def test_nothing_that_is_not_said_expires(tmp_path: Path) -> None:
    """Hours of silence end no lease: no line says that one ended."""
    text = (
        "".join(FIVES.splitlines(keepends=True)[:2])
        + f"2026-11-21 23:00:00.000 INFO a - new topic registered, V {QD.format(6)}\n"
    )
    assert len(replayed(read(tmp_path, text)[0], V5_4_0).broker_live_table) == 1


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("INFO x - topic changed, T OLD: QueueData [brokerName=b, readQueueNums=1", True),
        ("INFO x - new topic registered, T QueueData [brokerName=b, readQueueNums=99999999999, w", True),
        ("INFO x - putKVConfig update config item, Namespace: N Key: K Key: L Value: v", True),
        ("INFO x - new topic registered, " + "T" * 1_025 + " " + QD.format(6), True),
        ("INFO x - new topic registered, " + "T " * 9_000, True),
        ("INFO main - some other program said so", False),
        ("at org.apache.rocketmq.Whatever(Whatever.java:1)", False),
    ],
)
def test_what_cannot_be_read(line: str, refused: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """A line that begins as a known one and is none goes to quarantine; all others are counted."""
    rows, counts = read(tmp_path, f"2026-11-21 08:00:00,123 {line}\n")
    assert [row.values["source_offset"] for row in rows if row.table == "quarantine"] == [1] * refused
    assert (counts[1], len(rows)) == (not refused, refused)


def test_half_a_line(tmp_path: Path) -> None:
    """What no line feed ends may go on: it is no event yet, though it could be read; the middle of a line is another line."""
    line = "2026-11-21 08:00:00 INFO x - putKVConfig update config item, Namespace: N Key: K Value: hal"
    assert [row.table for row in read(tmp_path, line)[0]] == ["quarantine"]
    rows, counts = read(tmp_path, f"Value: half\n{line}f\n")
    assert [row.values["config_value"] for row in rows if row.table == "admin_events"] == ["half"]
    assert counts[1] == 1


def test_lines_that_lead_on_take_no_longer(tmp_path: Path) -> None:
    """A megabyte of spaces where a message may begin, or of empty lines where a value may go on, is read at once."""
    began = time.process_time()
    at = "2026-11-21 08:00:00 INFO x"
    rows, counts = read(
        tmp_path, f"{at}{' ' * 1_000_000}\n{at}   - putKVConfig update config item, {chr(10) * 1_000_000}"
    )
    assert [row.values["reason"] for row in rows] == ["line_too_long"]
    assert counts == [2, 1, 0]
    assert time.process_time() - began < 20


def test_what_stands_in_front_of_damage_is_read(tmp_path: Path) -> None:
    """Of a compressed log that ends early: what it lacks is an error, and what it has are rows."""
    path, found = tmp_path / "namesrv.log.gz", list[Block]()
    path.write_bytes(gzip.compress(FOURS.encode() + os.urandom(50_000))[:-5_000])
    with pytest.raises(CaptureError, match="cannot be read further"):
        found.extend(iter(read_log(path, TOLD)))
    assert {row.table for block in found for row in block.rows} >= {"admin_events", "channel_events", "namesrv_events"}


def test_copies_say_the_same(tmp_path: Path) -> None:
    """Equal lines have equal ids in a file that begins elsewhere, and compressed; equal lines of one instant are several."""
    whole, _ = read(tmp_path, FIVES)
    later, _ = read(
        tmp_path, gzip.compress("".join(FIVES.splitlines(keepends=True)[2:]).encode()), name="namesrv.1.log.gz"
    )
    ids = {row.values["event_id"] for row in whole}
    assert [row.values["event_id"] in ids for row in later if not row.seq_is_given] == [True] * 4
    change = "2026-11-21 08:00:00 INFO {} - topic changed, T OLD: " + QD.format(6) + " NEW: " + QD.format(4) + "\n"
    twice = [
        row for row in read(tmp_path, change.format("a") + change.format("b"))[0] if row.values.get("kind") == "logged"
    ]
    assert len({row.values["event_id"] for row in twice}) == 3


WIPE = "2026-10-25 {} INFO x - wipe write perm of broker[b], client: 10.0.0.9:4000, 1\n"


def test_what_stands_around_a_line_says_nothing(tmp_path: Path) -> None:
    """A byte order mark, line ends of Windows, zeros of a host that crashed; threads in brackets, and loggers, as many write them."""
    told = read(tmp_path, FOURS)
    assert read(tmp_path, "\ufeff" + FOURS.replace("\n", "\r\n")) == told
    assert read(tmp_path, FOURS.replace("\n2", "\n\0\0\0002")) == told
    assert read(tmp_path, re.sub(r"(?m)^(\S+ \S+ \w+) (\S+) - ", r"\1 [\2] RocketmqNamesrv - ", FOURS)) == told


def test_the_hour_that_comes_twice(tmp_path: Path) -> None:
    """Where clocks are put back, the lines before tell which hour is meant; without any it is not guessed."""
    text = "".join(
        WIPE.format(time) for time in ("01:59:00", "02:30:00", "02:59:59", "02:00:01", "02:59:00", "03:00:00")
    )
    rows = [row for row in read(tmp_path, text, LogConf(ADDR, "Europe/Berlin"))[0] if row.table == "admin_events"]
    hours = [row.values["effect_time"] // 60_000_000 % 1_440 for row in rows]
    assert hours == [-1 % 1_440, 30, 59, 60, 119, 120]
    rows, _ = read(tmp_path, WIPE.format("02:30:00"), LogConf(ADDR, "Europe/Berlin"))
    assert [row.table for row in rows] == ["quarantine"]
    assert "twice" in rows[0].values["detail"]
    rows, _ = read(tmp_path, WIPE.format("02:30:00").replace("10-25", "03-29"), LogConf(ADDR, "Europe/Berlin"))
    assert [row.table for row in rows] == ["quarantine"]
    assert "another time zone" in rows[0].values["detail"]


def test_zones() -> None:
    """GMT+8 is ahead of UTC, as logback has it; what is no zone is refused."""
    assert [str(zone_of(name)) for name in ("GMT+8", "+05:30", "UTC")] == ["UTC+08:00", "UTC+05:30", "UTC"]
    for name in ("GMT+25", "Europe/Nowhere", "../etc/passwd", ""):
        with pytest.raises(ValueError, match="is no time zone"):
            zone_of(name)


def test_properties_are_messages() -> None:
    """The row of an event has its operation and its lines' messages, of which the core's event is made."""
    operation, rows = logged("register_broker\nnew topic registered, a b " + QD.format(6))
    assert (operation, rows) == (
        "register_broker",
        (events.LoggedRow("topic_queue", "a b", "broker-a", QueueData(8, 8, 6, 0), is_new=True),),
    )


@pytest.mark.parametrize(
    ("begins", "again"),
    [
        ("Register topic route:T, [", "QueueData [brokerName="),
        ("Register topic route:", ", [QueueData "),
        ("Topic route already exist.", ", {"),
        ("Topic route already exist.T, {", "a=QueueData }"),
        ("cluster [", "] brokerName ["),
        ("topic changed, ", " OLD: QueueData [brokerName=] NEW: QueueData [brokerName="),
        ("configTable NS: ", " Key: "),
    ],
)
def test_a_message_that_leads_on_takes_no_longer(begins: str, again: str) -> None:
    """A client names its topics: a line of a megabyte, each part of which begins what never ends, is refused at once."""
    began = time.process_time()
    for end in ("]", "}", ""):
        with pytest.raises(DecodeError):
            logged(f"register_topic\n{begins}{again * (1_000_000 // len(again))}{end}")
    assert time.process_time() - began < 20


def test_a_route_that_was_there() -> None:
    """Its queue data stand by broker; what the topic is called says nothing of where they begin."""
    said = ", ".join(f"broker-{name}={QD.format(6).replace('broker-a', f'broker-{name}')}" for name in "ab")
    _, rows = logged(f"register_topic\nTopic route already exist.a, [b, {{{said}}}")
    assert [(row.one, row.other, row.is_new) for row in rows] == [
        ("a, [b", "broker-a", False),
        ("a, [b", "broker-b", False),
    ]
