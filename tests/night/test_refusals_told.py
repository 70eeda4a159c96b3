"""Registrations that a name server refused: without effect, told by a finding, and a mismatch where no rule foresees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas import gold
from tests.ingest.given import Line, at, broker, write
from tests.night.nights import Row, night, rows
from tests.places import CASES

pytestmark = pytest.mark.slow


def refusals(warehouse: Path) -> list[Row]:
    return [row for row in rows(warehouse, gold.FINDINGS) if row["code"] == "REGISTRATION_REFUSED"]


def test_a_5x_broker_that_a_4x_name_server_cannot_read(tmp_path: Path) -> None:
    """All that it registers is refused, from the first on; the finding names it, the server and both releases, in full."""
    said = night(tmp_path / "w", CASES / "c1_5x_compressed_at_497.pcap.gz")
    assert (said.status, said.verify["mismatched"]) == ("published", 0)
    (told,) = refusals(tmp_path / "w")
    assert (told["subject"], told["broker_names"], told["to_time"]) == ("broker-a 10.1.0.11:10911", ["broker-a"], None)
    assert told["detail"] == (
        "20 registrations were refused: undecodable_body; the broker is 5.4.0; the name server 10.1.0.1:9876 is 4.9.7"
    )
    outcomes = {row["event_id"]: row for row in rows(tmp_path / "w", gold.EVENT_OUTCOMES)}
    evidence = [outcomes[event] for event in told["evidence"]]
    assert {(row["broker_name"], row["outcome"]) for row in evidence} == {("broker-a", "refused_request")}
    assert min(row["effect_time"] for row in evidence) == evidence[0]["effect_time"] == told["from_time"]
    for table in (gold.BROKER_LIVE_HISTORY, gold.BROKER_ADDR_HISTORY, gold.TOPIC_QUEUE_HISTORY):
        assert {row["broker_name"] for row in rows(tmp_path / "w", table)} == {"broker-z"}


def lines(release: int, **answer: object) -> list[Line]:
    """Return a log in which a broker registers, is refused with other topics for a while, and is taken again."""
    told: list[Line] = [
        {"kind": "namesrv", "event": "started"},
        {"kind": "namesrv", "event": "identified", "version": release},
    ]
    taken = {"request_version": release, "response_code": 0, "response_fields": {}, "enable_acting_master": False}
    told += [{**broker("a", "xy", 1), **taken}] * 2
    told += [{**broker("a", "xyz", 2), **taken, **answer}] * 3
    told += [{**broker("a", "xyw", 3), **taken}]
    return [at(8 + number / 120, line) for number, line in enumerate(told)]


@pytest.mark.parametrize(
    ("fields", "release", "name"),
    [({}, 407, "4.9.7"), (None, 493, "5.4.0")],
    ids=["its fields are recorded", "only its code is"],
)
def test_a_refusal_that_no_rule_foresees(fields: object, release: int, name: str, tmp_path: Path) -> None:
    """It changes nothing, and is told; the answer, which is not what the rules would give, is a mismatch each time."""
    refused = {"response_code": 1, "response_remark": "disk is full" if fields is not None else None}
    said = night(tmp_path / "w", write(tmp_path / "a.jsonl", lines(release, **refused, response_fields=fields)))
    assert (said.status, said.verify["mismatched"]) == ("published", 3)
    assert said.verify["others"] == {"register_broker": {"answers": 6, "matched": 3}}
    why = "response code 1" if fields is None else "disk is full"
    outcomes = [row for row in rows(tmp_path / "w", gold.EVENT_OUTCOMES) if row["operation"] == "register_broker"]
    assert [row["detail"] for row in outcomes if row["outcome"] == "refused_request"] == [why] * 3
    assert [row["changes"] > 0 for row in outcomes] == [True, False, False, False, True]
    assert {row["topic"] for row in rows(tmp_path / "w", gold.TOPIC_QUEUE_HISTORY)} == set("xyw")
    (told,) = refusals(tmp_path / "w")
    detail = f"3 registrations were refused: {why}; the broker is {name}; the name server 10.0.0.1:9876 is {name}"
    assert (told["detail"], told["to_time"]) == (detail, told["from_time"] + 90_000_000)
    mismatches = rows(tmp_path / "w", gold.ROUTE_MISMATCHES)
    assert [(row["event_id"], row["classification"]) for row in mismatches] == [
        (event, "mismatched") for event in told["evidence"][:3]
    ]
