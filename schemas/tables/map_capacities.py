"""The table map_capacities: one map of a name server that had, at the end of the day, more buckets than the keys in it need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from namesrv_core.history.intervals import MapCapacity
from schemas.gold_histories import DAY
from schemas.recorded import NAMESRV_ID
from schemas.table import BOOLEAN, INT, STRING, Column, Rule, Table, required

MAP_CAPACITIES = Table(
    "map_capacities",
    "internal",
    "one map of a name server that had, at the end of the day, more buckets than the keys in it need",
    (
        NAMESRV_ID,
        required("map_table", STRING, "Table of the registry: topic_queue_table, broker_live_table ..."),
        required("is_inner", BOOLEAN, "It is the map under outer_key; FALSE: the table's own"),
        Column(
            "outer_key", STRING, "Topic, cluster or namespace whose map it is; NULL: the table's own, or a null key"
        ),
        required("capacity", INT, "Number of buckets: it grew with what the map held, and never shrinks"),
        DAY,
    ),
    key=("day", "namesrv_id", "map_table", "is_inner", "outer_key"),
    made_by="outcomes",
    rules=(
        Rule("capacity_is_a_power_of_two", "bit_count(capacity) = 1", "capacity is a power of two."),
        Rule("only_inner_maps_lie_under_a_key", "is_inner OR outer_key IS NULL", "A table's own map has no outer_key."),
    ),
)


def map_capacity_row(of: MapCapacity) -> dict[str, Any]:
    """Return the row of a map in `map_capacities`, without `namesrv_id` and `day`."""
    return {"map_table": of.table, "is_inner": of.is_inner, "outer_key": of.outer, "capacity": of.capacity}


def map_capacity_of(row: Mapping[str, Any]) -> MapCapacity:
    """Return what a row of `map_capacities` says."""
    return MapCapacity(row["map_table"], row["is_inner"], row["outer_key"], row["capacity"])
