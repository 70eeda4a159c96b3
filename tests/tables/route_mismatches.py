"""Rows of route_mismatches: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, DAY_BEFORE, MINUTE, NAMESRV, NOON, digest

GOOD = {
    "namesrv_id": NAMESRV,
    "code": 206,
    "request_time": NOON,
    "answer_time": NOON,
    "classification": "order",
    "day": DAY,
}


def own(n: int) -> dict[str, object]:
    return {"event_id": digest(f"answer {n}")}


NULLED = "code"
PLANTED = {
    "answered_that_day": {"day": DAY_BEFORE},
    "is_explained": [{"classification": "mismatched", "code": 206}],
    "answer_follows_question": {"request_time": NOON + MINUTE},
    "answer_is_recorded": {"event_id": digest("nobody")},
    "decision_is_recorded": {"decision_id": digest("nobody")},
}
