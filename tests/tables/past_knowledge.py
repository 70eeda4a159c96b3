"""Rows of past_knowledge: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, addr_of

GOOD = {
    "what": "known",
    "about": "topic_queue_table",
    "one": "T",
    "any_one": False,
    "any_other": True,
    "number": 0,
    "day": DAY,
}


def own(n: int) -> dict[str, object]:
    return {"namesrv_id": addr_of(n)}


NULLED = "number"
PLANTED = {"what_is_named": {"what": "guessed"}, "any_has_no_part": {"any_one": True}}
