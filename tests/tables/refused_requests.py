"""Rows of refused_requests: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, DAY_BEFORE, E1, MINUTE, NAMESRV, NOON, addr_of, digest

GOOD = {
    "namesrv_id": NAMESRV,
    "hour": NOON,
    "operation": "register_broker",
    "outcome": "refused_request",
    "reason": "response code 1",
    "requests": 2,
    "first_time": NOON,
    "last_time": NOON + MINUTE,
    "first_event": E1,
    "last_event": E1,
    "day": DAY,
}


def own(n: int) -> dict[str, object]:
    return {"broker_addr": addr_of(n)}


NULLED = "operation"
PLANTED = {
    "hour_lies_in_its_day": {"day": DAY_BEFORE},
    "outcome_is_a_refusal": {"outcome": "applied"},
    "hour_had_requests": {"requests": 0},
    "times_lie_in_the_hour": {"last_time": NOON + 60 * MINUTE},
    "first_event_is_known": {"first_event": digest("nobody")},
    "last_event_is_known": {"last_event": digest("nobody")},
}
