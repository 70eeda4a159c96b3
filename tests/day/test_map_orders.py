"""What of the order of maps a day's rows do not tell."""

from __future__ import annotations

import pyarrow as pa

from namesrv_core import V5_4_0, Namesrv
from namesrv_core.history.map_orders import MapOrder
from namesrv_core.machine.java_map import Shape
from namesrv_core.machine.registry import TableName
from namesrv_day.arrow.rows import table_of
from namesrv_day.verify.map_orders import map_orders
from schemas import codec, gold
from tests.day.plan_rows import DAY, NAMESRV, opened, us

LIVE, KV = "broker_live_history", "kv_config_history"


def told(*shapes: tuple[TableName, int]) -> pa.Table:
    """Rows of map_orders: tables that had so many buckets."""
    orders = (MapOrder(name, False, None, Shape(capacity)) for name, capacity in shapes)
    return table_of(map(codec.map_order_row, orders), gold.MAP_ORDERS, namesrv_id=NAMESRV, day=DAY)


def test_a_table_that_its_ages_tell_is_not_told_by_the_walk_of_another() -> None:
    """The live entries fill as many buckets as they had; the configuration once had more keys, and is walked."""
    at = {"seq": us(-60) * 1_000, "no": 0}
    live = [{"broker_addr": f"{n}:1", "opened_at": at, "entered_at": {**at, "no": n}} for n in range(400)]
    kv = {"namespace": "N", "config_key": "k", "config_value": "v", "opened_at": at, "entered_at": at}
    slices = {LIVE: opened(LIVE, *live), KV: opened(KV, {**kv, "outer_entered_at": at})}
    before = told(("broker_live_table", 1_024), ("kv_config_table", 32))
    found = map_orders(slices, before, Namesrv(V5_4_0), NAMESRV, DAY)
    assert list(zip(found["map_table"].to_pylist(), found["capacity"].to_pylist(), strict=True)) == [
        ("kv_config_table", 32)
    ]
