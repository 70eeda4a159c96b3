"""What was refused is counted by hour, broker, client and reason; what was not is left out."""

from __future__ import annotations

from typing import Any

from namesrv_core import V5_4_0, Namesrv
from namesrv_day.flags import FlagInput, flag
from schemas import gold
from tests.day.flag_rows import recorded, tables
from tests.rows import DAY, NS, clock, event, outcome

BROKER = {"cluster_name": "C", "broker_name": "broker-x", "broker_addr": "10.0.0.5:10911"}
ASKED: dict[str, Any] = {
    **BROKER,
    "outcome": "refused_request",
    "detail": "response code 1",
    "channel_id": "10.0.0.5:4000#17",
}


def refused(*outcomes: dict[str, Any]) -> list[dict[str, Any]]:
    given = FlagInput(NS, Namesrv(V5_4_0), DAY, tables({gold.EVENT_OUTCOMES: list(outcomes)}), recorded([]))
    found = flag(given)["refused_requests"].sort_by("first_time")
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def test_refused_requests_are_counted_by_the_hour() -> None:
    """One row an hour, whatever connections of its host a broker used, with the first and the last of them."""
    found = refused(
        outcome(event("second", "12:40"), "register_broker", **{**ASKED, "channel_id": "10.0.0.5:4001#18"}),
        outcome(event("first", "12:10"), "register_broker", **ASKED),
        outcome(event("next", "13:00"), "register_broker", **ASKED),
        outcome(event("taken", "13:10"), "register_broker", **BROKER),
    )
    first, second = found
    assert {name: first[name] for name in ("namesrv_id", "day", "operation", "outcome", *BROKER)} == {
        "namesrv_id": NS,
        "day": DAY,
        "operation": "register_broker",
        "outcome": "refused_request",
        **BROKER,
    }
    assert (first["client"], first["reason"], first["requests"]) == ("10.0.0.5", "response code 1", 2)
    assert (first["first_event"], first["last_event"]) == ("first", "second")
    assert (first["hour"], first["first_time"], first["last_time"]) == (clock("12:00"), clock("12:10"), clock("12:40"))
    assert (second["hour"], second["requests"], second["first_event"]) == (clock("13:00"), 1, "next")


def test_each_reason_broker_and_client_is_a_row_of_its_own() -> None:
    """A lone topic and an older state version are refusals, too; a request may name no broker, and come over no connection."""
    found = refused(
        outcome(event("busy", "12:01"), "register_broker", **{**ASKED, "detail": "system busy"}),
        outcome(event("code", "12:02"), "register_broker", **ASKED),
        outcome(event("other", "12:03"), "register_broker", **{**ASKED, "channel_id": "10.0.0.6:4000#17"}),
        outcome(
            event("lone", "12:04"), "register_broker", **{**ASKED, "outcome": "refused_lone_topic", "detail": None}
        ),
        outcome(
            event("older", "12:05"), "register_broker", **{**ASKED, "outcome": "rejected_state_version", "detail": None}
        ),
        outcome(event("admin", "12:06"), "put_kv_config", outcome="refused_request", detail="namespace or key is null"),
    )
    assert [
        (row["first_event"], row["client"], row["outcome"], row["reason"], row["broker_name"]) for row in found
    ] == [
        ("busy", "10.0.0.5", "refused_request", "system busy", "broker-x"),
        ("code", "10.0.0.5", "refused_request", "response code 1", "broker-x"),
        ("other", "10.0.0.6", "refused_request", "response code 1", "broker-x"),
        ("lone", "10.0.0.5", "refused_lone_topic", None, "broker-x"),
        ("older", "10.0.0.5", "rejected_state_version", None, "broker-x"),
        ("admin", None, "refused_request", "namespace or key is null", None),
    ]


def test_a_day_without_refusals_has_no_row() -> None:
    """Whatever else became of its events."""
    assert refused(outcome(event("up", "12:00"), "register_broker", **BROKER)) == []
