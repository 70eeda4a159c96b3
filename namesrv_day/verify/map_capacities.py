"""Numbers of buckets of a name server's maps at the end of a day, for maps whose keys do not tell it.

A map grows with its keys and never shrinks. Its buckets depend on the largest number of keys that it had since the process
started, or since the map was made.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.intervals import TABLE_OF, MapCapacity
from namesrv_core.machine.java_map import JavaMap, string_map
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Registry, TableName
from namesrv_day.arrow.rows import table_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import frame
from namesrv_day.day.day_events import Frames
from namesrv_day.day.start import capacities_in
from schemas import gold
from schemas.sql_files import query
from schemas.table import STRING, Table
from schemas.times import day_start_seq


class _Maps(NamedTuple):
    """Maps of one kind, and the SQL of their keys in a history: `of`, the outer key of a map; `key`, the keys in it."""

    history: Table
    key: str
    of: str = "NULL::VARCHAR"
    is_key: str = "true"

    @property
    def is_inner(self) -> bool:
        return not self.of.startswith("NULL")

    @property
    def table(self) -> TableName:
        return TABLE_OF.get(self.history.name.removesuffix("_history"), "broker_addr_table")


# Without the map of namespaces: no answer shows its order.
_MAPS = (
    _Maps(gold.TOPIC_QUEUE_HISTORY, "topic"),
    _Maps(gold.TOPIC_QUEUE_HISTORY, "broker_name", of="topic"),
    _Maps(gold.TOPIC_QUEUE_MAPPING_HISTORY, "topic"),
    _Maps(gold.TOPIC_QUEUE_MAPPING_HISTORY, "bname", of="topic"),
    _Maps(gold.CLUSTER_ADDR_HISTORY, "cluster_name"),
    _Maps(gold.CLUSTER_ADDR_HISTORY, "broker_name", of="cluster_name"),
    _Maps(gold.BROKER_ADDR_HISTORY, "broker_name"),
    _Maps(gold.BROKER_LIVE_HISTORY, "(cluster_name, broker_addr)"),
    _Maps(gold.FILTER_SERVER_HISTORY, "(cluster_name, broker_addr)"),
    _Maps(gold.KV_CONFIG_HISTORY, "config_key", of="namespace", is_key="config_key IS NOT NULL"),
)


def map_capacities(slices: Frames, before: pa.Table, namesrv: Namesrv, namesrv_id: str, day: dt.date) -> pa.Table:
    """Return the rows of map_capacities of one name server's day.

    `slices`: its histories and event_outcomes; `before`: map_capacities of the last day before.
    """
    outcomes = frame(slices, gold.EVENT_OUTCOMES)
    start_seq = pc.max(outcomes.filter(pc.field("operation") == "namesrv_started")["seq"]).as_py()
    fresh = Registry(namesrv.profile if start_seq is None else namesrv.at(start_seq).profile)
    told = capacities_in(before)
    found = (
        capacity
        for maps in _MAPS
        for capacity in _capacities(
            maps,
            frame(slices, maps.history),
            {
                key: capacity
                for table, is_inner, key, capacity in told
                if (table, is_inner) == (maps.table, maps.is_inner)
            },
            string_map() if maps.is_inner else getattr(fresh, maps.table),
            day,
            start_seq,
        )
    )
    return table_of(map(MapCapacity._asdict, found), gold.MAP_CAPACITIES, namesrv_id=namesrv_id, day=day)


def _capacities(
    maps: _Maps,
    rows: pa.Table,
    told: Mapping[str | None, int],
    empty: JavaMap[Any, Any],
    day: dt.date,
    start_seq: int | None,
) -> Iterator[MapCapacity]:
    """Yield the capacities of maps of one kind. `rows`: the slice of their history.

    `told`: known capacities of the day before, by outer key; `empty`: a new map; `start_seq`: the day's last start.
    """
    if not told and rows["closed_by"].null_count == rows.num_rows:
        return
    names = {"map": maps.of, "key": maps.key, "is_key": maps.is_key}
    goes_when_empty = maps.is_inner and maps.history is not gold.KV_CONFIG_HISTORY
    counted = ask(query("verify/keys_of_maps").format(**names), {"history": rows}, room=empty.room)
    wanted = {*told} | {of for of, ever, now in _rows(counted) if empty.capacity_of(ever) > empty.capacity_of(now)}
    if not wanted:
        return
    found = ask(
        query("verify/peaks").format(**names),
        {"history": rows, "wanted": pa.table({"map": pa.array(list(wanted), STRING)})},
        from_seq=day_start_seq(day),
        start_seq=start_seq or 0,
        goes_when_empty=goes_when_empty,
    )
    held = {of: counts for of, *counts in _rows(found)}
    for of in wanted:
        now, peak, is_of_before = held.get(of, (0, 0, True))
        capacity = empty.capacity_of(peak)
        if is_of_before and start_seq is None:
            capacity = max(capacity, told.get(of, 0))
        if capacity > empty.capacity_of(now) and (now or not goes_when_empty):
            yield MapCapacity(maps.table, maps.is_inner, of, capacity)


def _rows(found: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in found.columns), strict=True)
