"""Rows of orphaned_topics: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, E1, MINUTE, NAMESRV, NOON, ONE_DAY, digest

GOOD = {"namesrv_id": NAMESRV, "reason": "no_master", "valid_from": NOON, "opened_by": E1, "day": DAY}


def own(n: int) -> dict[str, object]:
    return {"topic": f"topic-{n}"}


NULLED = "topic"
TWICE = [{"valid_to": NOON, "closed_by": E1}] * 2
PLANTED = {
    "reason_is_known": {"reason": "lonely"},
    "residual_names_the_broker": {"reason": "residual"},
    "closes_whole": {"valid_to": NOON},
    "time_does_not_run_back": {"valid_to": NOON - MINUTE, "closed_by": E1},
    "lives_in_its_slice": {"valid_from": NOON + ONE_DAY},
    "does_not_overlap": [{}, {"valid_from": NOON + MINUTE}],
    "opened_by_is_known": {"opened_by": digest("nobody")},
    "closed_by_is_known": {"valid_to": NOON, "closed_by": digest("nobody")},
}
