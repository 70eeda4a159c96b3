"""Nights over situations that operators reported: each is told, once, with what it touches, since when and until when."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from jobs.ask.engine import Answers
from schemas import gold
from tests.ingest.given import NAMESRV, START_MS, Line, at, write
from tests.night.nights import Row, findings_of, night, rows
from tests.night.test_queries import answered

pytestmark = pytest.mark.slow

CASES = Path(__file__).parents[1] / "cases"
OTHER_NS = "10.0.0.2:9876"
TEN = "ABCDEFGHIJ"
ADDR, OTHER_ADDR = "10.0.0.97:10911", "10.0.0.98:10911"


def said(second: float, line: Line, namesrv_id: str = NAMESRV) -> Line:
    """Return a line, so many seconds after eight o'clock."""
    return {**at(8 + second / 3_600, line), "namesrv_id": namesrv_id}


def started(version: int = 407, second: float = 0, namesrv_id: str = NAMESRV) -> list[Line]:
    """Return a start, and which version it is of."""
    events: list[Line] = [{"event": "started"}, {"event": "identified", "version": version}]
    return [said(second + number / 100, {"kind": "namesrv", **one}, namesrv_id) for number, one in enumerate(events)]


def beats(first: int, last: int, topics: str, counter: int = 1, namesrv_id: str = NAMESRV, **values: Any) -> list[Line]:
    """Return registrations of broker-a every half minute from one second to another."""
    configs = [{"topic": topic, "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6} for topic in topics]
    line = {
        "kind": "registration",
        "request_version": 407,
        "response_code": 0,
        "cluster_name": "C",
        "broker_id": 0,
        "broker_name": "broker-a",
        "broker_addr": ADDR,
        "data_version": {"timestamp": START_MS, "counter": counter},
        "topics": configs,
        "channel_id": f"10.0.0.97:4#{counter}",
        **values,
    }
    return [said(second, line, namesrv_id) for second in range(first, last, 30)]


def leaves(second: float, **values: Any) -> Line:
    line = {"kind": "unregistration", "response_code": 0, "cluster_name": "C", "broker_id": 0}
    return said(
        second, {**line, "broker_name": "broker-a", "broker_addr": ADDR, "channel_id": "10.0.0.97:4#1", **values}
    )


def refused(second: float, topic: str, namesrv_id: str = NAMESRV) -> Line:
    line = {"kind": "observation", "code": 105, "subject": topic, "response_code": 17, "response_version": 407}
    return said(second, {**line, "channel_id": "10.2.0.1:5#1"}, namesrv_id)


def found_in(tmp_path: Path, lines: list[Line]) -> dict[str, list[Row]]:
    """Return the findings of a night over a log, by code."""
    night(tmp_path / "w", write(tmp_path / "all.jsonl", sorted(lines, key=lambda line: line["time"])))
    return findings_of(tmp_path / "w")


def seconds(row: Row) -> tuple[float, float | None]:
    """Return from when to when a finding lasts, in seconds after eight o'clock."""
    start_us = START_MS * 1_000 + 8 * 3_600_000_000
    end = row["to_time"]
    return (row["from_time"] - start_us) / 1e6, None if end is None else (end - start_us) / 1e6


def test_frames_that_are_too_long_name_the_broker(tmp_path: Path) -> None:
    """A capture in which a registration outgrows 16 MiB, and the server closes the connection each time."""
    night(tmp_path / "w", CASES / "c2_too_long.pcap.gz")
    (row,) = findings_of(tmp_path / "w")["FRAME_TOO_LONG"]
    when = dt.datetime.fromtimestamp(row["from_time"] / 1e6, dt.timezone.utc)
    assert (row["subject"], row["severity"], row["to_time"]) == ("broker-a 10.1.0.11:10911", "critical", None)
    assert when.strftime("%H:%M:%S") == "08:01:33"
    assert "17 registrations of up to 16,777,397 bytes" in row["detail"]
    outcomes = {one["event_id"]: one["operation"] for one in rows(tmp_path / "w", gold.EVENT_OUTCOMES)}
    assert {outcomes[event] for event in row["evidence"]} == {"channel_close"}


def test_a_name_server_that_nobody_registers_with_is_published(tmp_path: Path) -> None:
    """Nothing but answers is recorded of it, and they are the evidence."""
    found = found_in(tmp_path, [refused(30 * number, "T") for number in range(60)])
    (row,) = found["NS_ABANDONED"]
    assert (row["subject"], seconds(row), len(row["evidence"])) == (NAMESRV, (0, None), 2)


def test_topics_that_do_not_come_back_after_a_restart_are_told(tmp_path: Path) -> None:
    """A 4.x name server takes a first registration with one topic, and none of the others with the same version."""
    stopped = said(310, {"kind": "namesrv", "event": "stopped"})
    lines = [*started(), *beats(5, 305, TEN), stopped, *started(second=320)]
    lines += [*beats(325, 326, "X", 2), *beats(345, 900, TEN + "X", 2)]
    first, second = sorted(found_in(tmp_path, lines)["NS_COLD_START"], key=lambda row: row["from_time"])
    assert (seconds(first), seconds(second)) == ((0, 5), (320, None))
    assert second["topic_names"] == list(TEN)
    assert "10 of the 10 topics that it had before are not back" in second["detail"]
    told = answered(Answers(str(tmp_path / "w")), "recovery")
    assert [(row["what"], row["name"]) for row in told if row["back_time"] is None] == [("topic", name) for name in TEN]


def test_a_cluster_that_lists_a_name_without_a_group_is_told(tmp_path: Path) -> None:
    """The brokerClusterName was changed, and later the broker stopped in order: only the new cluster lets the name go."""
    moved = beats(365, 900, TEN, 2, cluster_name="New")
    others = beats(
        6, 1_200, "Z", cluster_name="New", broker_name="broker-z", broker_addr=OTHER_ADDR, channel_id="z:1#1"
    )
    found = found_in(tmp_path, [*started(), *beats(5, 305, TEN), *moved, *others, leaves(910, cluster_name="New")])
    (row,) = found["GHOST_CLUSTER_MEMBER"]
    assert (row["subject"], seconds(row), row["broker_names"]) == ("C broker-a", (910, None), ["broker-a"])


def test_a_broker_that_is_back_without_its_topics_is_told(tmp_path: Path) -> None:
    """Four of ten, for ten minutes."""
    lines = [*started(), *beats(5, 305, TEN), leaves(310), *beats(400, 1_000, TEN[:4], 2), *beats(1_000, 1_300, TEN, 3)]
    (row,) = found_in(tmp_path, lines)["PARTIAL_FIRST_REGISTRATION"]
    assert (row["subject"], seconds(row)) == (f"broker-a {ADDR}", (400, 1_000))
    assert row["detail"].startswith(
        "back with 4 of the 10 topics that broker-a had before; later back: E, F, G, H, I, J"
    )


def test_a_static_topic_that_became_a_plain_one_is_told(tmp_path: Path) -> None:
    """Deleted on the broker and the name server, and made again without a mapping, which a 5.x name server keeps."""
    five: dict[str, Any] = {"request_version": 493, "enable_acting_master": False}
    mapping = {"topic": "S", "bname": "broker-a", "total_queues": 4, "epoch": 7, "scope": "__global__"}
    lines = [
        *started(493),
        *beats(5, 305, "STU", mappings=[{**mapping, "curr_id_map": '{"0":0}'}], **five),
        *beats(320, 321, "TU", 2, mappings=[], **five),
        said(325, {"kind": "admin", "code": 216, "topic": "S", "response_code": 0, "request_version": 493}),
        *beats(350, 900, "STU", 3, mappings=[], **five),
    ]
    (row,) = found_in(tmp_path, lines)["STATIC_MAPPING_LEFT"]
    assert (row["subject"], seconds(row), row["topic_names"]) == ("S@broker-a", (350, None), ["S"])


def test_name_servers_of_one_cluster_without_a_common_broker_are_told(tmp_path: Path) -> None:
    """Where clients of one are refused what the other one routes; not for what nobody has, nor from another cluster."""
    for cluster, told in (("C", 1), ("D", 0)):
        theirs: dict[str, Any] = {
            "broker_name": "broker-b",
            "broker_addr": OTHER_ADDR,
            "channel_id": "b:1#1",
            "cluster_name": cluster,
        }
        lines = [*started(), *beats(5, 900, "ST"), *started(namesrv_id=OTHER_NS)]
        lines += beats(6, 900, "UV", namesrv_id=OTHER_NS, **theirs)
        for number in range(10):
            lines += [refused(100 + 30 * number, topic, OTHER_NS) for topic in ("S", "nobody's")]
        (tmp_path / cluster).mkdir()
        found = found_in(tmp_path / cluster, lines).get("NS_SPLIT", [])
        assert len(found) == told
        for row in found:
            assert (row["namesrv_id"], row["subject"], seconds(row)) == (OTHER_NS, "C", (100, None))
            assert (row["topic_names"], row["broker_names"], len(row["evidence"])) == (["S"], ["broker-a"], 1)


def test_addresses_of_a_bridge_are_told_of_brokers_and_of_replication(tmp_path: Path) -> None:
    """The master gives slaves the container's bridge; another broker is at a loopback address that IPv4 was mapped to."""
    lines = [*started(), *beats(5, 305, "T", ha_server_addr="172.17.0.1:10912")]
    lines += beats(6, 305, "U", broker_name="broker-b", broker_addr="[::ffff:127.0.0.1]:10911", channel_id="b:1#1")
    found = found_in(tmp_path, lines)
    (ha,) = found["PRIVATE_HA_ADDR"]
    assert (ha["subject"], ha["broker_names"], seconds(ha)) == ("C 172.17.0.1", ["broker-a"], (5, None))
    (private,) = found["PRIVATE_ADDR"]
    assert private["detail"] == "other machines can hardly reach 1 broker: broker-b [::ffff:127.0.0.1]:10911 (loopback)"
