"""Rows of event_outcomes: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, DAY_BEFORE, E1, NAMESRV, NOON, ONE_DAY, digest

GOOD = {
    "namesrv_id": NAMESRV,
    "effect_time": NOON,
    "events": 1,
    "last_time": NOON,
    "operation": "scan",
    "outcome": "expired",
    "changes": 1,
    "day": DAY,
}
NULLED = "event_id"
PLANTED = {
    "day_is_day_of_effect": {"day": DAY_BEFORE},
    "outcome_is_known": {"outcome": "shrugged"},
    "operation_has_its_form": {
        "operation": "Scan",
        "event_id": E1,
        "day": DAY_BEFORE,
        "effect_time": NOON - ONE_DAY,
        "last_time": NOON - ONE_DAY,
    },
    "events_are_counted": {"events": 2},
    "changes_are_counted": {"changes": -1},
    "refusal_changes_no_row": {"outcome": "no_effect"},
    "seq_is_unique": [{}, {"event_id": digest("same seq")}],
    "event_is_recorded": {"operation": "register_broker"},
}
