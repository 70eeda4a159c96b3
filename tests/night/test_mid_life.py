"""A night on a recording that begins in the middle of a name server's life."""

from __future__ import annotations

from pathlib import Path

import pytest

from namesrv_core.asking.answers import ROUTE_QUESTIONS
from schemas import gold
from tests.night.nights import Capture, capture_in_two, night, rows
from tests.night.three_days import DAYS, MONTH_MS, Line, registration, write_log

pytestmark = pytest.mark.slow

# Ten seconds before, a topic was deleted; brokers hold topics that their registrations do not name.
BEGIN_S = 300


def capture_from(seconds: int, path: Path) -> Path:
    """Write the bundled capture without its first `seconds` to `path`."""
    path.write_bytes(capture_in_two(seconds)[1])
    return path


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    folder = tmp_path_factory.mktemp("cut")
    return Capture(folder / "w", night(folder / "w", capture_from(BEGIN_S, folder / "cut.pcap")))


def test_what_was_not_known_is_a_class_of_its_own(cut: Capture) -> None:
    """No answer contradicts what is known; those that only showed what was not are few, counted, and named."""
    said = cut.summary
    assert (said.status, said.verify["mismatched"]) == ("published", 0)
    checks = rows(cut.path, gold.ANSWER_CHECKS)
    unknown = sum(row["unknown_past"] for row in checks if row["code"] in ROUTE_QUESTIONS)
    assert said.verify["explained"] == {"unknown_past": sum(row["unknown_past"] for row in checks)}
    assert said.verify["answers"] == said.verify["matched"] + unknown
    assert 0 < unknown < said.verify["answers"] // 100


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
