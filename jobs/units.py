"""Replay units: which events must be replayed together.

Within a name server, events touch each other through a broker name, a broker address or a connection. What is connected by these
is one unit; units share nothing but what concerns the whole name server (topics, start and stop, scans), and those events
go to each. Where something else would cross units, the name server stays whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from namesrv_core.machine.profile import Namesrv

# Events without a broker, an address or a connection that a broker has used.
ELSEWHERE = "elsewhere"


NO_CHANNEL, NO_ADDR, NO_KEY = "no_channel", "no_addr", "no_key"
SEVERAL_BROKERS, SEVERAL_CLUSTERS = "several_brokers", "several_clusters"
_CROSSING_IN_4X = (NO_ADDR, SEVERAL_CLUSTERS)


class Edge(NamedTuple):
    """Two nodes that belong together: 'n:<broker name>', 'a:<address>' or 'c:<channel id>'; 'n' and 'a': the null as a key."""

    namesrv_id: str
    one: str
    other: str


class Crossing(NamedTuple):
    """That something of a name server's day acts beyond its unit; `what`: one of the constants above."""

    namesrv_id: str
    what: str


def node(kind: str, column: str) -> Column:
    """Return the node of a column, NULL where it is NULL. `kind`: n, a or c."""
    return F.concat(F.lit(f"{kind}:"), F.col(column))


def key_node(kind: str, column: str) -> Column:
    """Return the node of a column that is a key in the name server's tables: a null is one key for all who have it."""
    return F.coalesce(node(kind, column), F.lit(kind))


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


def must_stay_whole(
    edges: Iterable[Edge], namesrvs: Mapping[str, Namesrv], crossings: Collection[Crossing] = ()
) -> dict[str, bool]:
    """Return which name servers cannot be split, because something that crosses units could happen.

    4.x: two addresses registered over one channel - a scan that meets the second behind its iterator ends the periodic scan
    for everyone; a null address in a group, which ends the search for a lost one; a name in two clusters, of which the first
    in the order of a map loses it. Both: an address of two names or a channel of two addresses, of which the first in the
    order of a map is taken, where there are so many names or addresses that the map may have grown, which changes its order;
    an entry without a channel, at which a scan ends; null keys that end a request by what others have in the tables; a topic
    registered for several names, of which the first is kept if the topic is there.
    """
    crossing: dict[str, set[str]] = {}
    for namesrv_id, what in crossings:
        crossing.setdefault(namesrv_id, set()).add(what)
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
        found = crossing.get(namesrv_id, set())
        whole[namesrv_id] = any(
            not found <= (set(_CROSSING_IN_4X) if profile.concurrent_maps else set())
            or (namesrv_id in channels_shared and not profile.concurrent_maps)
            or (
                namesrv_id in channels_shared | addrs_shared
                and (
                    fills(namesrv_id, "n", profile.capacities.broker) or fills(namesrv_id, "a", profile.capacities.live)
                )
            )
            for profile in profiles
        )
    return whole
