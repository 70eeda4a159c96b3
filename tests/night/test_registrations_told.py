"""A night over a log in which brokers register as they should not: each case is told once, with its events."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from schemas import gold
from tests.ingest.given import NAMESRV, Line, at, broker, write
from tests.night.nights import Row, findings_of, night, rows

pytestmark = pytest.mark.slow

OLD = "10.0.0.9:9876"
MINUTE = 1 / 60
START = 8.0
ADDRS = {
    "lone": "10.0.0.11:1",
    "same": "10.0.0.12:1",
    "split": "10.0.0.13:1",
    "two": "10.0.0.14:1",
    "stale": "10.0.0.15:1",
}


def said(name: str, minute: float, topics: str = "TU", counter: int = 1, **values: Any) -> Line:
    """Return a registration by a 5.x master, so many minutes after the start."""
    line = {**broker("x", topics, counter), "broker_name": name, "broker_addr": ADDRS[name]}
    line |= {"request_version": 493, "response_code": 0, "enable_acting_master": False}
    return at(START + minute * MINUTE, {**line, **values})


def beats(name: str, first: float, topics: str = "TU", last: float = 10, **values: Any) -> list[Line]:
    return [said(name, half / 2, topics, **values) for half in range(round(first * 2), round(last * 2))]


def in_4x() -> list[Line]:
    """Return what is told a 4.x name server, which takes over no topic of a version that it has."""
    told = [at(START - MINUTE, {"kind": "namesrv", "event": "started"})]
    told.append(at(START - MINUTE, {"kind": "namesrv", "event": "identified", "version": 407}))
    told += [*beats("same", 0, "TU", 3), *beats("same", 3, "TUV")]
    for half in range(20):
        told += [said("split", half / 2, "AB"), said("split", half / 2 + 0.01, "CD")]
    return [{**line, "request_version": 407} if line["kind"] == "registration" else line for line in told]


def lines() -> list[Line]:
    """Return the log: all brokers are silent after ten minutes; clients go on asking for half an hour."""
    told = [at(START - MINUTE, {"kind": "namesrv", "event": "started"})]
    told.append(at(START - MINUTE, {"kind": "namesrv", "event": "identified", "version": 493}))
    told += [*beats("lone", 0, "T", 2), *beats("lone", 2, counter=2)]
    told += [*beats("same", 0, "TU", 3), *beats("same", 3, "TUV")]
    told += [{**line, "namesrv_id": OLD} for line in in_4x()]
    for half in range(8, 14):
        told += [said("two", half / 2), said("two", half / 2 + 0.25, broker_addr="10.0.0.24:1")]
    told += beats("stale", 0.1)
    wiped = at(
        START + 4.9 * MINUTE, {"kind": "unregistration", "broker_id": 0, "response_code": 0, "cluster_name": "C"}
    )
    wiped |= {"effect_time": wiped["time"] + 8_000, "broker_name": "stale", "broker_addr": ADDRS["stale"]}
    told += [wiped, {**said("stale", 4.95), "effect_time": wiped["time"] + 3_500}]
    ask = {"kind": "observation", "code": 105, "subject": "no such topic", "response_code": 17, "response_version": 493}
    told += [at(START + minute * MINUTE, {**ask, "channel_id": "10.2.0.1:5#1"}) for minute in range(1, 30)]
    return told


def test_what_registrations_do_wrong_is_told(tmp_path: Path) -> None:
    """A lone topic, one version with other topics, a skipped batch, two masters, one wiped, a name server left alone."""
    night(tmp_path / "w", write(tmp_path / "all.jsonl", lines()))
    found = findings_of(tmp_path / "w")
    outcomes = {row["event_id"]: row for row in rows(tmp_path / "w", gold.EVENT_OUTCOMES)}

    def one(code: str) -> Row:
        (row,) = found[code]
        return row

    lone = one("PARTIAL_FIRST_REGISTRATION")
    assert (lone["subject"], lone["to_time"] - lone["from_time"]) == (f"lone {ADDRS['lone']}", 120_000_000)
    assert {outcomes[event]["outcome"] for event in lone["evidence"][:-1]} == {"refused_lone_topic"}
    assert outcomes[lone["evidence"][-1]]["outcome"] == "applied"
    assert lone["detail"] == "4 registrations with a single topic were refused; its other topics came 120000 ms later"
    for same, skipped in zip(
        sorted(found["SAME_VERSION_NEW_CONTENT"], key=itemgetter("namesrv_id")), (0, 1), strict=True
    ):
        assert (same["subject"], same["topic_names"], len(same["evidence"])) == (f"same {ADDRS['same']}", ["V"], 1)
        assert f"{skipped} of its topics were not taken over" in same["detail"]
    split = one("SPLIT_BATCH_SKIPPED")
    assert (split["namesrv_id"], split["subject"], split["topic_names"]) == (OLD, f"split {ADDRS['split']}", ["C", "D"])
    claims = one("DUAL_MASTER_CLAIM")
    assert claims["subject"] == "two"
    assert claims["detail"].endswith(f"{ADDRS['two']}, 10.0.0.24:1")
    assert claims["to_time"] is not None
    wiped = one("STALE_UNREGISTER")
    assert (wiped["subject"], wiped["severity"]) == (f"stale {ADDRS['stale']}", "critical")
    assert [outcomes[wiped["evidence"][0]]["operation"], len(wiped["evidence"])] == ["unregister_broker", 2]
    alone = one("NS_ABANDONED")
    assert (alone["subject"], alone["to_time"]) == (NAMESRV, None)
    assert outcomes[alone["evidence"][0]]["operation"] == "scan"
