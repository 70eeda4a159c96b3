"""Replay units: which events must be replayed together.

Within a name server, events touch each other through a broker name, a broker address or a connection. What is connected by these
is one unit; units share nothing but what concerns the whole name server (topics, start and stop, scans), and those events
go to each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from namesrv_core.profile import Namesrv

# Events without a broker, an address or a connection that a broker has used.
ELSEWHERE = "elsewhere"


class Edge(NamedTuple):
    """Two nodes that belong together; a node is 'n:<broker name>', 'a:<address>' or 'c:<channel id>'."""

    namesrv_id: str
    one: str
    other: str


def node(kind: str, column: str) -> Column:
    """Return the node of a column, NULL where it is NULL. `kind`: n, a or c."""
    return F.concat(F.lit(f"{kind}:"), F.col(column))


def edges_of(frame: DataFrame, *pairs: tuple[Column, Column]) -> DataFrame:
    """Return the distinct edges (namesrv_id, one, other) that the rows of `frame` draw; a NULL end falls back on the other."""
    drawn = F.array(*[F.struct(F.coalesce(a, b).alias("one"), F.coalesce(b, a).alias("other")) for a, b in pairs])
    return (
        frame.select("namesrv_id", F.explode(drawn).alias("edge"))
        .select("namesrv_id", "edge.one", "edge.other")
        .where(F.col("one").isNotNull())
        .distinct()
    )


def components(edges: Iterable[Edge], whole: Mapping[str, bool]) -> list[tuple[str, str, str]]:
    """Return (namesrv_id, node, unit) for every node; the unit is named after its smallest node.

    `whole`: name servers that must be replayed as one unit.
    """
    by_namesrv: dict[str, list[Edge]] = {}
    for edge in edges:
        by_namesrv.setdefault(edge.namesrv_id, []).append(edge)
    found: list[tuple[str, str, str]] = []
    for namesrv_id, drawn in sorted(by_namesrv.items()):
        nodes = sorted({end for edge in drawn for end in (edge.one, edge.other)})
        if whole.get(namesrv_id):
            found += [(namesrv_id, name, nodes[0]) for name in nodes]
            continue
        number = {name: i for i, name in enumerate(nodes)}
        rows = [number[edge.one] for edge in drawn]
        columns = [number[edge.other] for edge in drawn]
        ends = (np.asarray(rows), np.asarray(columns))
        graph = coo_matrix((np.ones(len(rows), dtype=np.int8), ends), shape=(len(nodes), len(nodes)))
        _, labels = connected_components(graph, directed=False)
        first: dict[int, str] = {}
        for name, label in zip(nodes, labels, strict=True):
            found.append((namesrv_id, name, first.setdefault(int(label), name)))
    return found


def must_stay_whole(edges: Iterable[Edge], namesrvs: Mapping[str, Namesrv]) -> dict[str, bool]:
    """Return which name servers cannot be split, because something that crosses units could happen.

    4.x: two addresses registered over one channel - a scan that meets the second behind its iterator ends the periodic scan
    for everyone. Both: an address of two names or a channel of two addresses, of which the first in the order of a map is
    taken, where there are so many names or addresses that the map may have grown, which changes its order.
    """
    nodes: dict[tuple[str, str], set[str]] = {}
    channels_shared, addrs_shared = set[str](), set[str]()
    tied: dict[tuple[str, str, str], set[str]] = {}
    for namesrv_id, *ends in edges:
        by_kind = {end[:1]: end for end in ends}
        for kind, end in by_kind.items():
            nodes.setdefault((namesrv_id, kind), set()).add(end)
        for one, other, shared in (("c", "a", channels_shared), ("a", "n", addrs_shared)):
            if one in by_kind and other in by_kind:
                others = tied.setdefault((namesrv_id, by_kind[one], other), set())
                others.add(by_kind[other])
                if len(others) > 1:
                    shared.add(namesrv_id)

    def fills(namesrv_id: str, kind: str, capacity: int) -> bool:
        return len(nodes.get((namesrv_id, kind), ())) * 4 >= capacity * 3

    whole = {}
    for namesrv_id, namesrv in namesrvs.items():
        profiles = [namesrv.profile, *(later.profile for _, later in namesrv.later)]
        whole[namesrv_id] = any(
            (namesrv_id in channels_shared and not profile.concurrent_maps)
            or (
                namesrv_id in channels_shared | addrs_shared
                and (
                    fills(namesrv_id, "n", profile.capacities.broker) or fills(namesrv_id, "a", profile.capacities.live)
                )
            )
            for profile in profiles
        )
    return whole
