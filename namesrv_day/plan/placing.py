"""Which unit each event and each open row of a name server's day belongs to.

A node is a broker name, an address or a connection (`units.Edge`). Beside those that are mentioned there is one for KV entries and
one for what belongs to nobody, each a unit of its own.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.profile import Namesrv
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import frame
from namesrv_day.day.day_events import Frames
from namesrv_day.plan.mentions import WRITE_PERMISSIONS, mentioned
from namesrv_day.plan.units import components, must_stay_whole
from schemas import gold
from schemas.sql_files import query
from schemas.table import LONG, STRING

ELSEWHERE, KV_UNIT, WHOLE_UNIT = "elsewhere", "kv", "whole"
"""Units, and their nodes, of what belongs to no broker; the unit of everything where something of the past is unknown."""
_LOOKED_UP = frozenset({"broker_addr_table", "broker_live_table"})
"""Tables in which the first of several that fit is taken."""
_LOOKED_AT = ("kind", "code", "broker_addr", "broker_name", "channel_id", "remote_addr", "topic", "queue_datas")
_CODES = {
    "deletion": int(RequestCode.DELETE_TOPIC_IN_NAMESRV),
    "permissions": list(WRITE_PERMISSIONS),
    "kv": [int(RequestCode.PUT_KV_CONFIG), int(RequestCode.DELETE_KV_CONFIG)],
}


def nodes_of(
    events: pa.Table, hours: pa.Table, open_rows: Frames, namesrv: Namesrv, *, whole: bool = False
) -> pa.Table:
    """Return (node, unit) of everything that is mentioned in the day's events, its beats and the state in which it begins.

    `whole`: all is one unit, what belongs to no broker, too.
    """
    edges, crossings = mentioned(events, hours, open_rows)
    unit_of = components(edges)
    grown = frame(open_rows, gold.MAP_CAPACITIES)["map_table"].to_pylist()
    if unit_of and must_stay_whole(edges, namesrv, crossings, has_grown=bool(_LOOKED_UP.intersection(grown))):
        unit_of = dict.fromkeys(unit_of, min(unit_of))
    unit_of |= {KV_UNIT: KV_UNIT, ELSEWHERE: ELSEWHERE}
    found = [WHOLE_UNIT] * len(unit_of) if whole else list(unit_of.values())
    return pa.table({"node": pa.array(unit_of, STRING), "unit": pa.array(found, STRING)})


def packed(events: pa.Table, nodes: pa.Table) -> pa.Table:
    """Return events with the `pack` of their unit; one that concerns all units comes once for each pack."""
    return _placed(events, nodes, "pack")


def placed(events: pa.Table, nodes: pa.Table) -> pa.Table:
    """Return events with their `unit`; one that concerns all units comes once for each.

    `nodes`: all; or, of events that were `packed`, those of their pack, or some of these: what then belongs to none is left out.
    """
    return _placed(events, nodes, "unit")


def _placed(events: pa.Table, nodes: pa.Table, place: str) -> pa.Table:
    numbered = events.select(_LOOKED_AT).append_column("row", pa.array(range(events.num_rows), LONG))
    given = {"events": numbered, "nodes": nodes.select(["node", place]).rename_columns(["node", "place"])}
    found = ask(query("plan/places"), given, **_CODES)
    return events.take(found["row"]).append_column(place, found["place"])


def carried(rows: pa.Table, table: str, nodes: pa.Table) -> pa.Table:
    """Return those rows of a history table, or of past_knowledge, that belong to one of `nodes`, with their `unit`."""
    column = key_column(rows.column_names)
    if column is not None:
        return of_nodes(rows, column, nodes)
    fallback = KV_UNIT if table == gold.KV_CONFIG_HISTORY.name else ELSEWHERE
    return _with_unit(rows, pa.repeat(fallback, rows.num_rows), nodes["node"], nodes["unit"])


def key_column(columns: Collection[str]) -> str | None:
    """Return the one of some columns by which rows belong to nodes; None: they belong to nobody's."""
    return next((name for name in _KEY_COLUMNS if name in columns), None)


def of_nodes(rows: pa.Table, column: str, nodes: pa.Table) -> pa.Table:
    """Return those rows that belong to one of `nodes` by a column with addresses or broker names, with their `unit`."""
    nodes = named_by(nodes, column)
    return _with_unit(rows, rows[column], keys_of(nodes), nodes["unit"])


def named_by(nodes: pa.Table, column: str) -> pa.Table:
    """Return the nodes that are what a column has: addresses, or broker names."""
    return nodes.filter(pc.starts_with(nodes["node"], _KEY_COLUMNS[column]))


def keys_of(nodes: pa.Table) -> pa.ChunkedArray:
    """Return the broker names, addresses or connections that are `nodes`."""
    is_null = pc.equal(pc.utf8_length(nodes["node"]), 1)
    return pc.if_else(is_null, pa.scalar(None, STRING), pc.utf8_slice_codeunits(nodes["node"], 2))


def _with_unit(rows: pa.Table, values: pa.ChunkedArray, keys: pa.ChunkedArray, units: pa.ChunkedArray) -> pa.Table:
    at = pc.index_in(values, value_set=keys)
    return rows.append_column("unit", units.take(at)).filter(pc.is_valid(at))


_KEY_COLUMNS = {"broker_addr": "a", "broker_name": "n", "bname": "n"}
"""Columns that say to which node a row belongs, the first of them that there is, and the kind of the node."""
