"""What ties broker names, addresses and channels of a name server's day together, and what acts beyond its unit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.codes import RequestCode
from namesrv_day.day.context import frame
from namesrv_day.day.day_events import BEATS, OTHERS, Frames
from namesrv_day.plan.units import NO_ADDR, NO_KEY, SEVERAL_BROKERS, SEVERAL_CLUSTERS, Edge
from schemas import gold
from schemas.table import INT

WRITE_PERMISSIONS = (int(RequestCode.WIPE_WRITE_PERM_OF_BROKER), int(RequestCode.ADD_WRITE_PERM_OF_BROKER))
KEYS = {
    gold.TOPIC_QUEUE_HISTORY: ("broker_name", "topic"),
    gold.BROKER_ADDR_HISTORY: ("broker_addr", "broker_name"),
    gold.CLUSTER_ADDR_HISTORY: ("broker_name", "cluster_name"),
    gold.BROKER_LIVE_HISTORY: ("broker_addr", "cluster_name", "channel_id", "heartbeat_timeout_ms", "last_update_time"),
    gold.DATA_VERSION_HISTORY: ("broker_addr", "broker_name"),
    gold.FILTER_SERVER_HISTORY: ("broker_addr",),
    gold.TOPIC_QUEUE_MAPPING_HISTORY: ("bname",),
}
"""Columns of the open rows that a plan looks at, by table."""


class _End(NamedTuple):
    """One end of an edge. `is_key`: a null is one key for all who have it; otherwise it is no node."""

    kind: str
    column: str
    is_key: bool = False


_ADDR, _NAME, _SOME_NAME = _End("a", "broker_addr", True), _End("n", "broker_name", True), _End("n", "broker_name")
_CHANNEL, _MAPPED, _REMOTE = _End("c", "channel_id"), _End("n", "bname", True), _End("a", "remote_addr")
_TIES = {
    "heartbeats": [(_ADDR, _SOME_NAME)],
    "registrations": [(_ADDR, _NAME), (_ADDR, _CHANNEL)],
    "unregistrations": [(_ADDR, _NAME)],
    "admin_events": [(_SOME_NAME, _SOME_NAME)],
    "topic_queue_history": [(_NAME, _NAME)],
    "broker_addr_history": [(_ADDR, _NAME)],
    "cluster_addr_history": [(_NAME, _NAME)],
    "broker_live_history": [(_ADDR, _CHANNEL)],
    "data_version_history": [(_ADDR, _SOME_NAME)],
    "filter_server_history": [(_ADDR, _ADDR)],
    "topic_queue_mapping_history": [(_MAPPED, _MAPPED)],
}
_NULLS = {
    "registrations": {"broker_addr": NO_ADDR},
    "unregistrations": {"broker_name": NO_KEY, "broker_addr": NO_KEY},
    "broker_addr_history": {"broker_addr": NO_ADDR},
}
"""Which crossing it is if a column has a null."""


def mentioned(events: pa.Table, hours: pa.Table, open_rows: Frames) -> tuple[set[Edge], set[str]]:
    """Return the edges between nodes, and the crossings (`units`), that there are.

    `events`: the day's that are no beats; `hours`: its beats; `open_rows`: the state in which it begins.
    """
    rows = {table.name: hours.filter(pc.equal(hours["kind"], table.name)) for table in BEATS}
    rows |= {table.name: events.filter(pc.equal(events["kind"], table.name)) for table in OTHERS}
    rows |= {table.name: frame(open_rows, table) for table in KEYS}
    edges = {edge for name, ties in _TIES.items() for one, other in ties for edge in _edges(rows[name], one, other)}
    for queue_datas in pc.drop_null(events["queue_datas"]).to_pylist():
        names = ["" if (name := data["broker_name"]) is None else f"n:{name}" for data in queue_datas]
        edges |= {(names[0] or name, name or names[0]) for name in names if names[0] or name}
    # A 4.x server takes a lost channel's remote address for a broker address.
    known = {end for edge in edges for end in edge}
    edges |= {edge for edge in _edges(rows["channel_events"], _REMOTE, _CHANNEL) if edge[0] in known}
    return edges, _crossings(rows)


def _edges(rows: pa.Table, one: _End, other: _End) -> Iterable[Edge]:
    """Return what each of the rows ties together; an end that is missing falls back on the other."""
    columns = sorted({one.column, other.column})
    rows = rows.select(columns).group_by(columns, use_threads=False).aggregate([])
    ends = _nodes(rows, one), _nodes(rows, other)
    drawn = zip(pc.coalesce(*ends).to_pylist(), pc.coalesce(*ends[::-1]).to_pylist(), strict=True)
    return (edge for edge in drawn if edge[0] is not None)


def _nodes(rows: pa.Table, end: _End) -> pa.ChunkedArray:
    nodes = pc.binary_join_element_wise(end.kind, rows[end.column], ":")
    return pc.fill_null(nodes, end.kind) if end.is_key else nodes


def _crossings(rows: Frames) -> set[str]:
    found = {
        what for name, columns in _NULLS.items() for column, what in columns.items() if rows[name][column].null_count
    }
    asked = rows["admin_events"]
    permissions = asked.filter(pc.is_in(asked["code"], value_set=pa.array(WRITE_PERMISSIONS, INT)))
    deletions = asked.filter(pc.equal(asked["code"], RequestCode.DELETE_TOPIC_IN_NAMESRV))
    if permissions["broker_name"].null_count or deletions["topic"].null_count:
        found.add(NO_KEY)
    if (pc.max(pc.list_value_length(asked["queue_datas"])).as_py() or 0) > 1:
        found.add(SEVERAL_BROKERS)
    columns = ["broker_name", "cluster_name"]
    members = pa.concat_tables(rows[name].select(columns) for name in ("registrations", "cluster_addr_history"))
    members = members.filter(pc.is_valid(members["cluster_name"])).group_by(columns, use_threads=False).aggregate([])
    if members.num_rows > len(pc.unique(members["broker_name"])):
        found.add(SEVERAL_CLUSTERS)
    return found
