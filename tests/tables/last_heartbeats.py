"""Rows of last_heartbeats: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, NAMESRV, NOON, addr_of

GOOD = {"namesrv_id": NAMESRV, "last_update_time": NOON, "day": DAY}


def own(n: int) -> dict[str, object]:
    return {"broker_addr": addr_of(n)}


NULLED = "namesrv_id"
