"""Rows of answer_checks: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, NAMESRV

GOOD = {
    "namesrv_id": NAMESRV,
    "answers": 2,
    "matched": 2,
    "same_order": 2,
    "same_bytes": 2,
    "in_flight": 0,
    "explained": 0,
    "unknown_past": 0,
    "mismatched": 0,
    "day": DAY,
}


def own(n: int) -> dict[str, object]:
    return {"code": 1000 + n}


NULLED = "namesrv_id"
PLANTED = {
    "every_answer_is_counted": {"answers": 3},
    "counts_are_plausible": {"same_order": 3},
    "nothing_is_mismatched": {"matched": 1, "same_order": 1, "same_bytes": 1, "mismatched": 1, "code": 206},
    "mismatches_are_listed": {"code": 105},
}
