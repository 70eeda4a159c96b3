"""Rows of map_capacities: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, addr_of

GOOD = {"map_table": "topic_queue_table", "is_inner": True, "outer_key": "T", "capacity": 32, "day": DAY}


def own(n: int) -> dict[str, object]:
    return {"namesrv_id": addr_of(n)}


NULLED = "map_table"
PLANTED = {"capacity_is_a_power_of_two": {"capacity": 24}, "only_inner_maps_lie_under_a_key": {"is_inner": False}}
