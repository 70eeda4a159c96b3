"""Nights over situations that operators reported: each is told, once, with what it touches, since when and until when."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from schemas import gold
from tests.ingest.given import NAMESRV, START_MS, Line, at, write
from tests.night.nights import Row, findings_of, night, rows

pytestmark = pytest.mark.slow

CASES = Path(__file__).parents[1] / "cases"
OTHER_NS = "10.0.0.2:9876"
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


def around_midnight() -> list[Line]:
    """Return what seven name servers are told: each has a situation that is under way 200 seconds after eight o'clock."""

    def one(number: int, *parts: list[Line]) -> list[Line]:
        ns = f"10.0.0.{number}:9876"
        return [{**line, "namesrv_id": ns} for line in (*started(), *(line for part in parts for line in part))]

    def out(second: float) -> Line:
        broker = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": ADDR, "broker_id": 0}
        return said(second, {"kind": "unregistration", **broker, "response_code": 0})

    other: dict[str, Any] = {"broker_addr": OTHER_ADDR, "channel_id": "b:1#1"}
    stopped = said(190, {"kind": "namesrv", "event": "stopped"})
    claims = [*beats(95, 100, "ST"), *beats(125, 130, "ST", **other), *beats(185, 700, "ST")]
    renamed = [*beats(5, 95, "ST", broker_name="old"), *beats(65, 150, "ST"), out(160)]
    return [
        *one(1, beats(5, 70, "ST"), claims),
        *one(2, renamed, beats(6, 700, "UV", broker_name="z", **other)),
        *one(3, beats(5, 180, "STU"), [stopped], started(second=210), beats(215, 700, "U")),
        *one(4, beats(5, 180, "STU"), [out(185)], beats(230, 700, "ST", counter=2)),
        *one(5, beats(5, 60, "ST"), [out(70)], beats(80, 110, "ST"), [out(180)], beats(220, 250, "ST"), [out(260)]),
        *one(6, beats(5, 70, "ST"), [out(80)], [refused(second, "S") for second in range(100, 900, 30)]),
        *one(7, beats(5, 700, "ST", refusal="crc32_mismatch", response_code=1)),
    ]


def test_midnight_parts_no_situation(tmp_path: Path) -> None:
    """Two masters, a ghost, a restart, less than before, flapping, no broker, refusals: the same in two days as in one."""
    codes = ["BROKER_FLAPPING", "DUAL_MASTER_CLAIM", "GHOST_BROKER", "NS_ABANDONED", "NS_COLD_START"]
    codes += ["PARTIAL_FIRST_REGISTRATION", "REGISTRATION_REFUSED"]
    found = []
    for moved_ms in (0, 16 * 3_600_000 - 200_000):
        moved = [{**line, "time": line["time"] + moved_ms} for line in around_midnight()]
        (tmp_path / str(moved_ms)).mkdir()
        by_code = found_in(tmp_path / str(moved_ms), moved)
        told = [(code, row["namesrv_id"], row["subject"], seconds(row)) for code in codes for row in by_code[code]]
        found.append(
            sorted(
                (*names, round(begin - moved_ms / 1_000), -1 if end is None else round(end - moved_ms / 1_000))
                for *names, (begin, end) in told
            )
        )
    assert found[0] == found[1]
