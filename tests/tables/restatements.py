"""Rows of restatements: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, E1, addr_of

GOOD = {
    "run_id": "run-2",
    "previous_run": "run-1",
    "table_name": "topic_queue_history",
    "rows_before": 2,
    "rows_after": 3,
    "rows_added": 2,
    "rows_removed": 1,
    "cause": "events",
    "ingest_runs": ["run-2"],
    "new_events": 1,
    "event_ids": [E1],
    "changes": [{"key": "{}", "change": "added", "after": "{}"}],
    "day": DAY,
}


def own(n: int) -> dict[str, object]:
    return {"namesrv_id": addr_of(n)}


NULLED = "previous_run"
PLANTED = {
    "something_changed": {"rows_added": 0, "rows_removed": 0, "rows_after": 2, "changes": []},
    "rows_add_up": {"rows_after": 4},
    "cause_is_known": {"cause": "whim", "new_events": 0, "event_ids": []},
    "events_are_counted": {"new_events": 0},
    "changes_are_counted": {"changes": [{"key": "{}", "change": "added"}] * 4},
}
