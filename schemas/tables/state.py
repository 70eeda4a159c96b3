"""Tables of a name server's state that no interval holds: last heartbeats, map capacities, past knowledge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from namesrv_core.machine.past import ANY, Entity, Fact
from schemas.table import Table, columns, is_one_of, rules

LAST_HEARTBEATS = Table(
    "last_heartbeats",
    "internal",
    "one live entry at the end of a day, with the time of its last renewal",
    columns("""
        namesrv_id
        cluster_name STRING: Cluster in the key (5.x); NULL in 4.x
        broker_addr
        last_update_time* TIMESTAMP: lastUpdateTimestamp when the day ended
        day
    """),
    key=("day", "namesrv_id", "cluster_name", "broker_addr"),
    made_by="outcomes",
)


MAP_CAPACITIES = Table(
    "map_capacities",
    "internal",
    "one map of a name server that had more buckets at the end of the day than its keys need",
    columns("""
        namesrv_id
        map_table* STRING: Table of the registry: topic_queue_table, broker_live_table ...
        is_inner* BOOLEAN: TRUE: the inner map under outer_key; FALSE: the table's own map
        outer_key STRING: Topic, cluster or namespace of an inner map; NULL: the table's own map, or a null key
        capacity* INT: Number of buckets; it grows with the map's keys and never shrinks
        day
    """),
    key=("day", "namesrv_id", "map_table", "is_inner", "outer_key"),
    made_by="outcomes",
    rules=rules("""
        capacity_is_a_power_of_two: capacity is a power of two.
            bit_count(capacity) = 1
        only_inner_maps_lie_under_a_key: A table's own map has no outer_key.
            is_inner OR outer_key IS NULL
    """),
)


PAST_KNOWLEDGE = Table(
    "past_knowledge",
    "internal",
    "one fact that is known or in doubt about a name server whose recording began in the middle of its life",
    columns("""
        namesrv_id
        what* STRING: Kind of fact: known, doubted, listed, beat or setting
        about* STRING: History table (without _history), or something that has no rows of its own
        one STRING: First part of the key: topic, broker name, cluster ...
        other STRING: Second part of the key
        any_one* BOOLEAN: TRUE: the fact holds for every first part
        any_other* BOOLEAN: TRUE: the fact holds for every second part
        number* BIGINT: Serial number (of known and doubted the later counts), a time, or a setting
        day
    """),
    key=("day", "namesrv_id", "what", "about", "one", "other", "any_one", "any_other"),
    made_by="replay",
    rules=rules(f"""
        what_is_named: what is known, doubted, listed, beat or setting.
            {is_one_of("what", ("known", "doubted", "listed", "beat", "setting"))}
        any_has_no_part: What holds for every part of a key names none.
            NOT (any_one AND one IS NOT NULL) AND NOT (any_other AND other IS NOT NULL)
    """),
)


def past_row(fact: Fact, namesrv_id: str) -> dict[str, Any]:
    """Return the row of `fact` in `past_knowledge`, without `day`."""
    kind, one, other = fact.entity
    return {
        "namesrv_id": namesrv_id,
        "what": fact.what,
        "about": kind,
        "one": None if one is ANY or one is None else str(one),
        "other": None if other is ANY or other is None else str(other),
        "any_one": one is ANY,
        "any_other": other is ANY,
        "number": fact.number,
    }


def fact_of(row: Mapping[str, Any]) -> Fact:
    """Return the fact of a row of `past_knowledge`."""
    other = row["other"]
    if row["about"] == "broker_addr" and other is not None:
        other = int(other)
    entity = Entity(row["about"], ANY if row["any_one"] else row["one"], ANY if row["any_other"] else other)
    return Fact(row["what"], entity, row["number"])
