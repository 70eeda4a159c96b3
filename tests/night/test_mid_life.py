"""A night on a recording that begins in the middle of a name server's life."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from namesrv_core.asking.answers import ROUTE_QUESTIONS
from schemas import gold
from tests.ingest.given import Line
from tests.night.nights import Capture, capture_in_two, findings_of, night, rows
from tests.night.three_days import DAYS, MONTH_MS, registration, write_log

pytestmark = pytest.mark.slow

# At 300 s: ten seconds before, a topic was deleted; brokers hold topics that their registrations do not name.
BEGINS_S = 300


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """Give the bundled capture without its first `BEGINS_S`, and what its night has said."""
    folder = tmp_path_factory.mktemp("cut")
    (folder / "cut.pcap").write_bytes(capture_in_two(BEGINS_S)[1])
    return Capture(folder / "w", night(folder / "w", folder / "cut.pcap"))


def test_what_was_not_known_is_a_class_of_its_own(cut: Capture) -> None:
    """No answer contradicts what is known; those that only showed what was not are few, counted, and named.

    Most are in the first seconds, and hardly any after half a minute.
    """
    said = cut.summary
    assert (said.status, said.verify["mismatched"]) == ("published", 0)
    checks = rows(cut.path, gold.ANSWER_CHECKS)
    unknown = sum(row["unknown_past"] for row in checks if row["code"] in ROUTE_QUESTIONS)
    assert said.verify["explained"] == {"unknown_past": sum(row["unknown_past"] for row in checks)}
    assert said.verify["answers"] == said.verify["matched"] + unknown
    assert 0 < unknown < said.verify["answers"] // 100
    half_a_minute = min(row["effect_time"] for row in rows(cut.path, gold.EVENT_OUTCOMES)) + 30_000_000
    later = [row for row in rows(cut.path, gold.ROUTE_MISMATCHES) if row["answer_time"] > half_a_minute]
    assert len(later) < said.verify["answers"] * 0.003


def test_rows_say_since_when_they_are_known(cut: Capture) -> None:
    """A row that an answer revealed names the answer; what came later was seen to begin."""
    outcomes = rows(cut.path, gold.EVENT_OUTCOMES)
    answers = {row["event_id"] for row in outcomes if row["operation"] == "observed_answer"}
    found = rows(cut.path, gold.TOPIC_QUEUE_HISTORY)
    revealed = [row for row in found if row["opened_by"] in answers]
    assert any(not row["beginning_seen"] and row["known_from"] == row["valid_from"] for row in revealed)
    assert [row for row in revealed if row["beginning_seen"] or row["known_from"] is None] == []
    seen = [row for row in found if row["beginning_seen"]]
    assert seen
    assert [row for row in seen if row["known_from"] != row["valid_from"]] == []


def test_the_response_to_a_beat_may_have_been_overtaken(tmp_path: Path) -> None:
    """It lacks an order configuration that was put meanwhile: that is right, and all that there is to say of a recorded event."""
    put = {"code": 100, "operation": "put_kv_config", "request_version": 493, "response_code": 0, "channel_id": "k#1"}
    entry = {"namespace": "ORDER_TOPIC_CONFIG", "config_key": "T", "config_value": "broker-a:4"}
    beaten = registration("broker-a", "10:05:00", "T", MONTH_MS)
    lines: list[Line] = [
        {"kind": "namesrv", "time": "10:00:00", "event": "observed_from"},
        {"kind": "namesrv", "time": "10:00:01", "event": "identified", "version": 493},
        beaten | {"time": "10:01:00", "response_code": None, "one_way": True},
        {"kind": "admin", "time": "10:05:00.700", **put, **entry},
        beaten | {"effect_time": f"{DAYS[0]}T10:05:01Z", "response_fields": "{}"},
    ]
    said = night(tmp_path / "w", write_log(tmp_path, DAYS[0], lines))
    assert (said.status, said.verify["others"]["register_broker"]) == ("published", {"answers": 1, "matched": 1})
    told = [row["event_id"] for row in rows(tmp_path / "w", gold.EVENT_OUTCOMES) if row["outcome"] == "unknown_past"]
    assert [event_id.endswith("-response") for event_id in told] == [True]


ASKED_AT = {"10.0.0.1:9876": "10:00:10", "10.0.0.2:9876": "10:05:10"}


def test_a_log_without_a_beginning_begins_in_mid_life_where_an_answer_shows_it(tmp_path: Path) -> None:
    """A route before anybody has registered was there before; behind the registration it says nothing of the time before."""
    beaten = registration("broker-a", "10:05:00", "T", MONTH_MS)
    queues = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}
    broker = {"brokerAddrs": {"0": beaten["broker_addr"]}, "brokerName": "broker-a", "cluster": beaten["cluster_name"]}
    broker |= {"enableActingMaster": False}
    text = json.dumps({"brokerDatas": [broker], "filterServerTable": {}, "queueDatas": [queues]})
    route = {"code": 105, "subject": "T", "response_code": 0, "response_version": 493, "standard_json": True}
    route |= {"kind": "observation", "channel_id": "k#1", "body": text}
    lines: list[Line] = [
        {**line, "namesrv_id": name} for name, clock in ASKED_AT.items() for line in (route | {"time": clock}, beaten)
    ]
    said = night(tmp_path / "w", write_log(tmp_path, DAYS[0], sorted(lines, key=lambda line: line["time"])))
    assert (said.verify["answers"], said.verify["mismatched"]) == (2, 0)
    found = [row for row in rows(tmp_path / "w", gold.TOPIC_QUEUE_HISTORY) if row["topic"] == "T"]
    for name, clock in ASKED_AT.items():
        first = min(row["valid_from"] for row in found if row["namesrv_id"] == name)
        assert f"{dt.datetime.fromtimestamp(first / 1e6, dt.timezone.utc):%H:%M:%S}" == min(clock, "10:05:00")


RELEASES = {"10.0.0.1:9876": (407, "4.9.7"), "10.0.0.2:9876": (433, "5.1.0"), "10.0.0.3:9876": (493, "5.4.0")}


def test_answers_alone_state_the_version_and_show_no_partial_broker(tmp_path: Path) -> None:
    """Of a log without `identified`; a broker that is back was asked for one of its topics first, and has the other one, too."""
    broker = {"brokerAddrs": {"0": "10.1.0.1:10911"}, "brokerName": "broker-a", "cluster": "C"}
    queues = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}
    route = {"brokerDatas": [broker], "filterServerTable": {}, "queueDatas": [queues]}
    there = {"brokerAddrTable": {"broker-a": broker}, "clusterAddrTable": {"C": ["broker-a"]}}
    gone: dict[str, Any] = {"brokerAddrTable": {}, "clusterAddrTable": {}}
    shown = [
        ("10:00:00", 106, None, there),
        *((f"10:00:0{n}", 105, topic, route) for n, topic in enumerate("TU", 1)),
        *(("10:01:00", 106, None, gone), ("10:02:00", 106, None, there)),
        *(("10:02:01", 105, "T", route), ("10:05:00", 105, "U", route)),
    ]
    answer = {"kind": "observation", "channel_id": "k#1", "standard_json": True, "response_code": 0}
    lines: list[Line] = [
        {**answer, "namesrv_id": name, "time": clock, "code": code, "subject": topic}
        | {"response_version": version, "body": json.dumps(body)}
        for clock, code, topic, body in shown
        for name, (version, _) in RELEASES.items()
    ]
    night(tmp_path / "w", write_log(tmp_path, DAYS[0], lines))
    settings = [row for row in rows(tmp_path / "w", gold.NAMESRV_SETTINGS) if row["setting"] == "version"]
    assert {row["namesrv_id"]: row["value"] for row in settings} == {name: of for name, (_, of) in RELEASES.items()}
    assert "PARTIAL_FIRST_REGISTRATION" not in findings_of(tmp_path / "w")
