"""In what order a name server's maps are when a day ends, where the rows of its histories do not tell.

Nearly always they do, and that is seen from the rows as columns: as long as no key leaves a map, it is one into which its
content was put by age. Maps of few keys neither grow nor crowd. Of most others the ages of their keys tell the order; where they
do not, the day's changes are walked through.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.intervals import TABLE_OF, restored
from namesrv_core.history.key_ages import Age, Stay, UnclearError, shape_by_ages
from namesrv_core.history.map_orders import MapOrder, orders_unlike
from namesrv_core.history.timeline import Walk, timeline_of
from namesrv_core.machine.java_map import JavaMap, string_map
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Registry, TableName
from namesrv_core.machine.rows import LiveKey
from namesrv_day.arrow.rows import empty, table_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import frame
from namesrv_day.day.day_events import Frames
from namesrv_day.day.start import intervals_in, map_orders_in
from schemas import codec, gold
from schemas.sql_files import query
from schemas.table import STRING, Table
from schemas.times import day_start_seq

Alike = Mapping[TableName, Mapping[str | None, list[str | None]]]

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
    gold.BROKER_LIVE_HISTORY: "cluster_name, broker_addr",
    gold.FILTER_SERVER_HISTORY: "cluster_name, broker_addr",
}


def map_orders(slices: Frames, before: pa.Table, namesrv: Namesrv, namesrv_id: str, day: dt.date) -> pa.Table:
    """Return the rows of map_orders of one name server's day.

    `slices`: its histories and event_outcomes; `before`: map_orders of the last day before.
    """
    told, from_seq = _orders(before), day_start_seq(day)
    unsure = {order.table for order in told}
    differing = {
        table: frame(slices, table)
        for table in (*_NESTED, *_FLAT)
        if _table_of(table) in unsure or _may_differ(frame(slices, table), table)
    }
    if not differing:
        return empty(gold.MAP_ORDERS)
    alike = {_table_of(table): _alike(differing[table], table, before, day) for table in _LARGE & differing.keys()}
    told = [order for order in told if _is_walked(order, alike)]
    starts = frame(slices, gold.EVENT_OUTCOMES).filter(pc.field("operation") == "namesrv_started")["seq"].to_pylist()
    orders, walked, of_walked = list[MapOrder](), dict[str, pa.Table](), list[MapOrder]()
    fresh = Registry(namesrv.profile)
    for table, rows in differing.items():
        name = _table_of(table)
        of_table = [order for order in told if order.table == name]
        by_ages = None if starts else _by_ages(rows, table, fresh, of_table, alike, from_seq)
        if by_ages is None:
            walked[table.name] = _enough(rows, table, alike[name], day) if table in _LARGE else rows
            of_walked += of_table
        else:
            orders += by_ages
    if walked:
        orders += orders_unlike(*_walked(walked, starts, of_walked, namesrv, day))
    found = (
        order._replace(outer=outer)
        for order in orders
        if _is_walked(order, alike)
        for outer in (alike[order.table][order.outer] if order.is_inner and order.table in alike else [order.outer])
    )
    return table_of(map(codec.map_order_row, found), gold.MAP_ORDERS, namesrv_id=namesrv_id, day=day)


def _by_ages(
    rows: pa.Table, table: Table, fresh: Registry, told: Sequence[MapOrder], alike: Alike, from_seq: int
) -> list[MapOrder] | None:
    """Return the orders of the maps of one table as far as the ages of their keys tell them; None where they do not.

    `fresh`: an empty registry; `told`: the table's orders before the day.
    """
    name = _table_of(table)
    shapes = {(order.is_inner, order.outer): order.shape for order in told}
    if table is gold.KV_CONFIG_HISTORY:
        return None  # a namespace is there without a key, too
    of_table: JavaMap[Any, Any] = getattr(fresh, name)
    try:
        maps: list[tuple[bool, str | None, JavaMap[Any, Any], list[Stay]]] = [
            (False, None, of_table, _outer_stays(rows, table, from_seq)),
            *(
                (True, outer, string_map(), stays)
                for outer, stays in _inner_stays(rows, table, alike.get(name), shapes, from_seq)
            ),
        ]
        found = [
            (is_inner, outer, shape_by_ages(empty_map, stays, shapes.get((is_inner, outer))))
            for is_inner, outer, empty_map, stays in maps
        ]
    except UnclearError:
        return None
    return [MapOrder(name, is_inner, outer, shape) for is_inner, outer, shape in found if shape is not None]


def _outer_stays(rows: pa.Table, table: Table, from_seq: int) -> list[Stay]:
    """Return the keys of the registry's table itself. Raises UnclearError where one may have gone, or only its oldest member."""
    if table in _FLAT:
        found = ask(
            query("verify/stays").format(keys=_FLAT[table], member="0", age="entered_at"),
            {"history": rows},
            from_seq=from_seq,
        )
        return [Stay(LiveKey(*key), *ages) for key, *ages in _keys_and_ages(found, 2)]
    own, member = _NESTED[table]
    sql = query("verify/stays").format(keys=own, member=member, age="outer_entered_at")
    found = ask(sql, {"history": rows}, from_seq=from_seq)
    if found.num_rows > 1 and not pc.all(found["is_clear"]).as_py():
        raise UnclearError
    return [Stay(key, *ages) for (key,), *ages in _keys_and_ages(found, 1)]


def _inner_stays(
    rows: pa.Table,
    table: Table,
    alike: Iterable[str | None] | None,
    told: Iterable[tuple[bool, str | None]],
    from_seq: int,
) -> Iterator[tuple[str | None, list[Stay]]]:
    """Yield those keys of the registry's table whose maps may differ, with the keys of these."""
    if table in _FLAT or table is gold.BROKER_ADDR_HISTORY:
        return
    own, member = _NESTED[table]
    if alike is None:
        alike = {*_crowded(rows, table).to_pylist(), *(outer for is_inner, outer in told if is_inner)}
    some = pa.table({"one": pa.array(list(alike), pa.string())})
    stays = query("verify/stays")
    sql = f"WITH history AS (FROM history SEMI JOIN wanted ON {own} IS NOT DISTINCT FROM one) {stays} ORDER BY 1"
    found = ask(
        sql.format(keys=f"{own}, {member}", member="0", age="entered_at"),
        {"history": rows, "wanted": some},
        from_seq=from_seq,
    )
    for outer, of_outer in groupby(_keys_and_ages(found, 2), lambda one: one[0][0]):
        yield outer, [Stay(key, *ages) for (_, key), *ages in of_outer]


def _crowded(rows: pa.Table, table: Table) -> pa.ChunkedArray:
    """Return the keys of the registry's table of which a map of many has lost one."""
    own, inner = _NESTED[table]
    return ask(query("verify/crowded").format(own=own, inner=inner), {"history": rows}, crowd=_CROWD)["own"]


def _keys_and_ages(found: pa.Table, keys: int) -> Iterator[tuple[tuple[str | None, ...], Age | None, Age | None]]:
    """Yield the keys of `_STAYS`, so many columns, and the two ages of each."""
    columns = [column.to_pylist() for column in found.columns]
    ages = [
        [None if seq is None else (seq, no) for seq, no in zip(*of, strict=True)]
        for of in (columns[-4:-2], columns[-2:])
    ]
    return zip(zip(*columns[:keys], strict=True), *ages, strict=True)


def _walked(
    rows: Frames, starts: list[int], orders: list[MapOrder], namesrv: Namesrv, day: dt.date
) -> tuple[Registry, Registry]:
    """Return the registry as the day left it, and one of the same content made afresh.

    `starts`: when its process started; `orders`: of its maps before the day.
    """
    intervals, from_seq = intervals_in(rows), day_start_seq(day)
    registry = Registry(namesrv.profile)
    restored(registry, [one for one in intervals if one.opened_at.seq < from_seq], orders)
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
    crowded = pa.table(
        {"own": [*_crowded(rows, table).to_pylist(), *told["outer_key"].to_pylist()]}, pa.schema([("own", STRING)])
    )
    found = ask(sql, {"history": rows, "told": told, "crowded": crowded}, from_seq=day_start_seq(day))
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


def _table_of(table: Table) -> TableName:
    """Return the name of the registry's table of which `table` is the history."""
    name = table.name.removesuffix("_history")
    return TABLE_OF.get(name, "broker_addr_table")


def _may_differ(rows: pa.Table, table: Table) -> bool:
    """Return whether a map of the registry's table may be unlike one made of its open rows; `rows`: the slice of its history."""
    if rows["closed_by"].null_count == rows.num_rows:
        return False
    own, inner = _NESTED[table] if table in _NESTED else (f"({_FLAT[table]})", "0")
    age = "outer_entered_at" if table in _NESTED else "entered_at"
    sql = query("verify/may_differ").format(own=own, inner=inner, age=age)
    return bool(ask(sql, {"history": rows}, crowd=_CROWD, is_flat=table in _FLAT)["found"][0].as_py())
