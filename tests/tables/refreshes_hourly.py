"""Rows of refreshes_hourly: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, DAY_BEFORE, MINUTE, NAMESRV, NOON, addr_of

GOOD = {"namesrv_id": NAMESRV, "hour": NOON, "refreshes": 2, "first_time": NOON, "last_time": NOON + MINUTE, "day": DAY}


def own(n: int) -> dict[str, object]:
    return {"broker_addr": addr_of(n)}


NULLED = "namesrv_id"
PLANTED = {
    "hour_was_refreshed": {"refreshes": 0},
    "times_lie_in_the_hour": {"last_time": NOON + 60 * MINUTE},
    "hour_lies_in_its_day": {"day": DAY_BEFORE},
}
