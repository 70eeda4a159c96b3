"""Rows of route_changes: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, DAY_BEFORE, E1, NAMESRV, NOON, SEQ, digest

GOOD = {
    "namesrv_id": NAMESRV,
    "effect_time": NOON,
    "caused_by": E1,
    "change": "appeared",
    "parts": [{"part": "queueDatas", "name": "broker-a", "text": "{}"}],
    "groups_before": 0,
    "groups_after": 1,
    "length_before": 0,
    "length_after": 60,
    "day": DAY,
}


def own(n: int) -> dict[str, object]:
    return {"topic": f"topic-{n}", "seq": SEQ + n}


NULLED = "topic"
TWICE = [
    {"change": "changed", "groups_before": 2, "groups_after": 1, "length_before": 90},
    {"change": "changed", "groups_before": 1, "groups_after": 2, "length_before": 60, "length_after": 90},
]
PLANTED = {
    "day_is_day_of_effect": {"day": DAY_BEFORE},
    "change_is_what_it_says": {"change": "vanished"},
    "route_differs": {"parts": []},
    "parts_are_json": {"parts": [{"part": "queueDatas", "name": "broker-a", "text": "{"}]},
    "changes_follow_on": [{}, {"change": "changed", "groups_before": 1, "length_before": 61, "seq": SEQ + 1_000_000}],
    "caused_by_is_known": {"caused_by": digest("nobody")},
}
