"""Rows of expired_brokers: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, DAY_BEFORE, E1, MINUTE, NAMESRV, NOON, addr_of, digest

GOOD = {
    "namesrv_id": NAMESRV,
    "cause": "scan",
    "last_beat_time": NOON,
    "heartbeat_timeout_ms": 120_000,
    "removed_time": NOON + 3 * MINUTE,
    "removed_by": E1,
    "detection_lag_ms": 180_000,
    "topics_lost": [],
    "day": DAY,
}


def own(n: int) -> dict[str, object]:
    return {"broker_addr": addr_of(n)}


NULLED = "topics_lost"
PLANTED = {
    "cause_is_known": {"cause": "boredom"},
    "removed_that_day": {"day": DAY_BEFORE},
    "removed_after_last_beat": {"cause": "idle_channel", "removed_time": NOON - MINUTE, "detection_lag_ms": -60_000},
    "lag_is_the_difference": {"detection_lag_ms": 190_000},
    "scan_removes_after_the_lease": {"heartbeat_timeout_ms": 180_000},
    "returns_whole": {"returned_by": E1},
    "removed_by_is_known": {"removed_by": digest("nobody")},
    "returned_by_is_known": {"returned_by": digest("nobody"), "returned_time": NOON + 4 * MINUTE},
}
