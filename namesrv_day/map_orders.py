"""In what order a name server's maps are when a day ends, where the rows of its histories do not tell.

Nearly always they do, and that is seen from the rows as columns: as long as no key leaves a map, it is one into which its
content was put by age. Maps of few keys neither grow nor crowd.
"""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.intervals import TABLE_OF, restored
from namesrv_core.history.map_orders import orders_unlike
from namesrv_core.history.timeline import Walk, timeline_of
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Registry
from namesrv_day.context import frame
from namesrv_day.day_events import Frames
from namesrv_day.rows import empty, table_of
from namesrv_day.sql import ask
from namesrv_day.start import intervals_in, map_orders_in
from schemas import codec, gold
from schemas.table import Table
from schemas.times import day_start_seq

# So many keys may crowd a bucket, which makes a small table grow; to grow for their number takes more.
_CROWD = 8
_NESTED = {
    gold.TOPIC_QUEUE_HISTORY: ("topic", "broker_name"),
    gold.CLUSTER_ADDR_HISTORY: ("cluster_name", "broker_name"),
    gold.KV_CONFIG_HISTORY: ("namespace", "config_key"),
    gold.TOPIC_QUEUE_MAPPING_HISTORY: ("topic", "bname"),
    gold.BROKER_ADDR_HISTORY: ("broker_name", "broker_id"),
}
_FLAT = {
    gold.BROKER_LIVE_HISTORY: "(cluster_name, broker_addr)",
    gold.FILTER_SERVER_HISTORY: "(cluster_name, broker_addr)",
}


def map_orders(slices: Frames, before: pa.Table, namesrv: Namesrv, namesrv_id: str, day: dt.date) -> pa.Table:
    """Return the rows of map_orders of one name server's day.

    `slices`: its histories and event_outcomes; `before`: map_orders of the last day before.
    """
    told = set(before["map_table"].to_pylist())
    looked_at = {
        table.name: frame(slices, table)
        for table in (*_NESTED, *_FLAT)
        if _table_of(table) in told or _may_differ(frame(slices, table), table)
    }
    if not looked_at:
        return empty(gold.MAP_ORDERS)
    intervals, from_seq = intervals_in(looked_at), day_start_seq(day)
    registry = Registry(namesrv.profile)
    orders = map_orders_in({gold.MAP_ORDERS.name: before})
    restored(registry, [one for one in intervals if one.opened_at.seq < from_seq], orders)
    outcomes = frame(slices, gold.EVENT_OUTCOMES)
    starts = outcomes.filter(pc.field("operation") == "namesrv_started")["seq"].to_pylist()
    walk = Walk(registry, namesrv, starts)
    for change in timeline_of(intervals, from_seq, {}):
        walk.take(change)
    fresh = Registry(walk.end().profile)
    restored(fresh, [one for one in intervals if one.closed_at is None])
    rows = (codec.map_order_row(order) for order in orders_unlike(registry, fresh))
    return table_of(rows, gold.MAP_ORDERS, namesrv_id=namesrv_id, day=day)


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
    sql = _MAY_DIFFER.format(own=own, inner=inner, age=age)
    return bool(ask(sql, {"history": rows}, crowd=_CROWD, is_flat=table in _FLAT)["found"][0].as_py())


_MAY_DIFFER = """
WITH members AS (
    SELECT {own} AS own, {inner} AS other, bool_or(closed_by IS NOT NULL) AS lost, min({age}) AS age,
        min({age}) FILTER (closed_by IS NULL) AS age_now
    FROM history GROUP BY ALL
), keys AS (
    SELECT own, count(*) AS members, bool_or(lost) AS lost, min(age_now) IS DISTINCT FROM min(age) AS aged
    FROM members GROUP BY own
)
SELECT coalesce(
    bool_or(lost AND members >= $crowd) OR (count(*) >= $crowd AND bool_or(lost AND (aged OR $is_flat)))
    OR (count(*) > 1 AND bool_or(aged AND members > 1)), false
) AS found FROM keys
"""
"""What leaves a map of many; or a key that lost a member, maybe the oldest, of which the rows of the others know nothing."""
