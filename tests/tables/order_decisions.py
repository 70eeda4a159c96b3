"""Rows of order_decisions: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, DAY_BEFORE, E1, NAMESRV, NOON, digest

GOOD = {
    "namesrv_id": NAMESRV,
    "kind": "register_and_close",
    "effect_time": NOON,
    "channel_ids": ["c"],
    "event_ids": [E1, E1],
    "alternatives": ["a", "b"],
    "chosen": 0,
    "answers_for": 1,
    "answers_against": 0,
    "evidence_for": [],
    "evidence_against": [],
    "day": DAY,
}


def own(n: int) -> dict[str, object]:
    return {"decision_id": digest(f"decision {n}")}


NULLED = "channel_ids"
PLANTED = {
    "day_is_day_of_effect": {"day": DAY_BEFORE},
    "decision_id_is_a_digest": {"decision_id": "1"},
    "chosen_is_an_alternative": {"chosen": 2},
    "there_is_a_choice": {"alternatives": ["a"]},
    "answers_are_counted": {"answers_against": -1},
    "answers_agree": {"answers_against": 2},
}
