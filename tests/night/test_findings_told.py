"""A night over a log in which nothing but plain beats goes on for long: what is told of brokers is told as long as it is so."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from tests.ingest.given import Line, at, broker, write
from tests.night.nights import Row, findings_of, night

pytestmark = pytest.mark.slow

MINUTE = 1 / 60
START = 8.0
SHARED = "10.0.0.50:1"


def said(name: str, minute: float, **values: object) -> Line:
    """Return a registration with a 4.x name server, so many minutes after the start."""
    line = {**broker(name, "TU", 1), "request_version": 407, "response_code": 0}
    return at(START + minute * MINUTE, {**line, **values})


def lines() -> list[Line]:
    told = [at(START - MINUTE, {"kind": "namesrv", "event": "started"})]
    told.append(at(START - MINUTE, {"kind": "namesrv", "event": "identified", "version": 407}))
    for half in range(40):
        minute = half / 2
        told.append(said("x", minute, broker_addr=SHARED))
        if minute < 5:
            told.append(said("y", minute + 0.2, broker_addr=SHARED))
        told.append(said("m", minute, **({} if minute < 3 else {"data_version": VERSION, "topics": MEANT})))
        told.append(said("d", minute, broker_addr="10.0.0.61:1" if half in {0, 2} else "10.0.0.62:1"))
    told.append(at(START + 2.2 * MINUTE, {"kind": "admin", "code": 205, "response_code": 0, "broker_name": "broker-m"}))
    # a 5.x broker: its heartbeats are unknown to the name server
    told.append(said("r", 0.1))
    beat = {
        "kind": "heartbeat",
        "code": 904,
        "cluster_name": "C",
        "broker_name": "broker-r",
        "broker_addr": "10.0.0.114:10911",
    }
    told += [at(START + (0.2 + sixth / 6) * MINUTE, beat) for sixth in range(60)]
    return told


VERSION = {"timestamp": 1_767_312_000_000, "counter": 2}
MEANT = [
    {"topic": topic, "read_queue_nums": 8, "write_queue_nums": 8, "perm": perm} for topic, perm in (("T", 6), ("U", 4))
]


def minutes(of: Row, name: str) -> float | None:
    start = dt.datetime(2026, 1, 2, 8, tzinfo=dt.timezone.utc).timestamp()
    return None if of[name] is None else round((of[name] / 1e6 - start) / 60, 3)


def test_what_goes_on_or_ends_under_plain_beats_is_told(tmp_path: Path) -> None:
    """A broker dead behind another's address; permission that is meant to be away; a refused broker; two masters that were."""
    night(tmp_path / "w", write(tmp_path / "all.jsonl", lines()))
    found = findings_of(tmp_path / "w")
    (ghost,) = found["GHOST_BROKER"]
    assert (ghost["subject"], minutes(ghost, "from_time"), ghost["to_time"]) == (f"broker-y {SHARED}", 4.7, None)
    assert "another broker renews the live entry of its address" in ghost["detail"]
    assert "WRITE_PERM_LEFT_WIPED" not in found
    (expired,) = [row for row in found["EXPIRED_BROKER"] if row["broker_names"] == ["broker-r"]]
    refused = "13 of its requests were refused since 2026-01-02T08:00:12.000Z (request code 904 is not supported); "
    assert refused in expired["detail"]
    claims = [(minutes(row, "from_time"), minutes(row, "to_time")) for row in found["DUAL_MASTER_CLAIM"]]
    assert claims == [(0.5, 1.5)]
