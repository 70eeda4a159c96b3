"""Rows of namesrv_settings: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, DAY_BEFORE, E1, MINUTE, NOON, SEQ, addr_of

GOOD = {
    "setting": "order_message_enable",
    "value": "true",
    "source": "inferred",
    "from_seq": SEQ,
    "process_seq": SEQ,
    "restart_value": "true",
    "answers_for": 1,
    "answers_against": 0,
    "evidence": [E1],
    "day": DAY,
}


def own(n: int) -> dict[str, object]:
    return {"namesrv_id": addr_of(n)}


NULLED = "restart_value"
PLANTED = {
    "setting_is_known": {"setting": "colour"},
    "source_is_known": {"source": "rumour"},
    "interval_is_positive": {"valid_from": NOON, "valid_to": NOON - MINUTE},
    "process_started_before": {"process_seq": SEQ + 1},
    "evidence_is_counted": {"answers_for": 0},
    "findings_have_evidence": {"evidence": []},
    "release_was_compared": {"setting": "version", "value": "5.3.9", "source": "given"},
    "no_value_was_taken_that_later_days_refute": [
        {"day": DAY_BEFORE, "value": "false", "source": "default", "evidence": []},
        {},
    ],
}
