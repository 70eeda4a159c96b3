"""In what order a name server's maps are when a day ends, where the rows of its histories do not tell.

Nearly always they do, and that is seen from the rows as columns: as long as no key leaves a map, it is one into which its
content was put by age. Maps of few keys neither grow nor crowd.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.intervals import TABLE_OF, restored
from namesrv_core.history.map_orders import MapOrder, orders_unlike
from namesrv_core.history.timeline import Walk, timeline_of
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Registry
from namesrv_day.arrow.rows import empty, table_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import frame
from namesrv_day.day.day_events import Frames
from namesrv_day.day.start import intervals_in, map_orders_in
from schemas import codec, gold
from schemas.sql_files import query
from schemas.table import Table
from schemas.times import day_start_seq

Alike = Mapping[str, Mapping[str | None, list[str | None]]]

# So many keys may crowd a bucket, which makes a small table grow; to grow for their number takes more.
_CROWD = 8
_NESTED = {
    gold.TOPIC_QUEUE_HISTORY: ("topic", "broker_name"),
    gold.CLUSTER_ADDR_HISTORY: ("cluster_name", "broker_name"),
    gold.KV_CONFIG_HISTORY: ("namespace", "config_key"),
    gold.TOPIC_QUEUE_MAPPING_HISTORY: ("topic", "bname"),
    gold.BROKER_ADDR_HISTORY: ("broker_name", "broker_id"),
}
_LARGE = frozenset({gold.TOPIC_QUEUE_HISTORY, gold.TOPIC_QUEUE_MAPPING_HISTORY})
"""They grow with brokers times topics; the others with brokers."""
_FLAT = {
    gold.BROKER_LIVE_HISTORY: "(cluster_name, broker_addr)",
    gold.FILTER_SERVER_HISTORY: "(cluster_name, broker_addr)",
}


def map_orders(slices: Frames, before: pa.Table, namesrv: Namesrv, namesrv_id: str, day: dt.date) -> pa.Table:
    """Return the rows of map_orders of one name server's day.

    `slices`: its histories and event_outcomes; `before`: map_orders of the last day before.
    """
    told = set(before["map_table"].unique().to_pylist())
    differing = {
        table: frame(slices, table)
        for table in (*_NESTED, *_FLAT)
        if _table_of(table) in told or _may_differ(frame(slices, table), table)
    }
    if not differing:
        return empty(gold.MAP_ORDERS)
    alike = {_table_of(table): _alike(differing[table], table, before, day) for table in _LARGE & differing.keys()}
    walked = {
        table.name: _enough(rows, table, alike[_table_of(table)], day) if table in _LARGE else rows
        for table, rows in differing.items()
    }
    ended = _walked(walked, slices, [order for order in _orders(before) if _is_walked(order, alike)], namesrv, day)
    orders = (
        order._replace(outer=outer)
        for order in orders_unlike(*ended)
        if _is_walked(order, alike)
        for outer in (alike[order.table][order.outer] if order.is_inner and order.table in alike else [order.outer])
    )
    return table_of(map(codec.map_order_row, orders), gold.MAP_ORDERS, namesrv_id=namesrv_id, day=day)


def _walked(
    rows: Frames, slices: Frames, orders: list[MapOrder], namesrv: Namesrv, day: dt.date
) -> tuple[Registry, Registry]:
    """Return the registry as the day left it, and one of the same content made afresh; `orders`: of its maps before the day."""
    intervals, from_seq = intervals_in(rows), day_start_seq(day)
    registry = Registry(namesrv.profile)
    restored(registry, [one for one in intervals if one.opened_at.seq < from_seq], orders)
    outcomes = frame(slices, gold.EVENT_OUTCOMES)
    starts = outcomes.filter(pc.field("operation") == "namesrv_started")["seq"].to_pylist()
    walk = Walk(registry, namesrv, starts)
    for change in timeline_of(intervals, from_seq, {}):
        walk.take(change)
    fresh = Registry(walk.end().profile)
    restored(fresh, [one for one in intervals if one.closed_at is None])
    return registry, fresh


def _orders(rows: pa.Table) -> list[MapOrder]:
    return map_orders_in({gold.MAP_ORDERS.name: rows})


def _is_walked(order: MapOrder, alike: Alike) -> bool:
    """Return whether the map is in the walk with all it holds."""
    return not order.is_inner or order.table not in alike or order.outer in alike[order.table]


def _alike(rows: pa.Table, table: Table, before: pa.Table, day: dt.date) -> dict[str | None, list[str | None]]:
    """Return which maps of a large table may differ: one key of those to whose maps the same happened, and all of them.

    Brokers have thousands of topics in common: what happens to one's map, happens to all.
    """
    own, inner = _NESTED[table]
    told = before.filter((pc.field("map_table") == _table_of(table)) & pc.field("is_inner"))
    sql = query("verify/alike_maps").format(own=own, inner=inner)
    found = ask(sql, {"history": rows, "told": told}, crowd=_CROWD, from_seq=day_start_seq(day))
    return {keys[0]: keys for keys in found["keys"].to_pylist()}


def _enough(rows: pa.Table, table: Table, alike: Iterable[str | None], day: dt.date) -> pa.Table:
    """Return the rows of the maps of `alike`, and of others as many as tell when their keys came and went, and their age."""
    own, _ = _NESTED[table]
    numbered = rows.select([own, "opened_at", "closed_at", "outer_entered_at"])
    numbered = numbered.append_column("place", pa.array(range(rows.num_rows), pa.int64()))
    of = pa.table({"own": pa.array(list(alike), pa.string())})
    found = ask(
        query("verify/enough").format(own=own), {"history": numbered, "walked": of}, from_seq=day_start_seq(day)
    )
    return rows.take(found["place"])


def _table_of(table: Table) -> str:
    """Return the name of the registry's table of which `table` is the history."""
    name = table.name.removesuffix("_history")
    return TABLE_OF.get(name, "broker_addr_table")


def _may_differ(rows: pa.Table, table: Table) -> bool:
    """Return whether a map of the registry's table may be unlike one made of its open rows; `rows`: the slice of its history."""
    if rows["closed_by"].null_count == rows.num_rows:
        return False
    own, inner = _NESTED[table] if table in _NESTED else (_FLAT[table], "0")
    age = "outer_entered_at" if table in _NESTED else "entered_at"
    sql = query("verify/may_differ").format(own=own, inner=inner, age=age)
    return bool(ask(sql, {"history": rows}, crowd=_CROWD, is_flat=table in _FLAT)["found"][0].as_py())
