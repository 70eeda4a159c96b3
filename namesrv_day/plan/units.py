"""Replay units: which events of a name server's day must be replayed together.

Events touch each other through a broker name, a broker address or a connection. What is connected by these is one unit; units
share nothing but what concerns the whole name server (topics, start and stop, scans), and those events go to each. Where
something else would cross units, the name server stays whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from namesrv_core.machine.profile import Namesrv

Edge = tuple[str, str]
"""Two nodes that belong together: 'n:<broker name>', 'a:<address>' or 'c:<channel id>'; 'n' and 'a': the null as a key."""

# What acts beyond its unit.
NO_ADDR, NO_KEY = "no_addr", "no_key"
SEVERAL_BROKERS, SEVERAL_CLUSTERS = "several_brokers", "several_clusters"
_CROSSING_IN_4X = {SEVERAL_CLUSTERS}


def components(edges: Iterable[Edge]) -> dict[str, str]:
    """Return the unit of every node: it is named after the smallest node in it."""
    parent: dict[str, str] = {}

    def unit_of(node: str) -> str:
        above = parent.setdefault(node, node)
        while above != node:
            parent[node] = parent[above]  # paths get shorter each time they are walked
            node, above = above, parent[above]
        return node

    for edge in edges:
        one, other = map(unit_of, edge)
        parent[max(one, other)] = min(one, other)
    return {node: unit_of(node) for node in parent}


def must_stay_whole(
    edges: Iterable[Edge], namesrv: Namesrv, crossings: Collection[str] = (), *, has_grown: bool = False
) -> bool:
    """Return whether a name server cannot be split, because something that crosses units could happen.

    4.x: two addresses registered over one channel - a scan that meets the second behind its iterator ends the periodic scan
    for everyone; a name in two clusters, of which the first in the order of a map loses it. Both: a null address in a group,
    which ends the search for a lost one; an address of two names or a channel of two addresses, of which the first in the
    order of a map is taken, where there are so many names or addresses that the map may have grown, which changes its order;
    null keys that end a request by what others have in the tables; a topic
    registered for several names, of which the first is kept if the topic is there. `has_grown`: such a map had grown before.
    """
    nodes: dict[str, set[str]] = {"n": set(), "a": set(), "c": set()}
    addr_of, name_of = dict[str, str](), dict[str, str]()
    channel_shared = addr_shared = False
    for edge in edges:
        by_kind = {end[0]: end for end in edge}
        for kind, end in by_kind.items():
            nodes[kind].add(end)
        if "a" in by_kind and "c" in by_kind:
            channel_shared |= addr_of.setdefault(by_kind["c"], by_kind["a"]) != by_kind["a"]
        if "a" in by_kind and "n" in by_kind:
            addr_shared |= name_of.setdefault(by_kind["a"], by_kind["n"]) != by_kind["n"]
    for profile in (namesrv.profile, *(later.profile for _, later in namesrv.later)):
        capacities = profile.capacities
        grown = has_grown or 4 * len(nodes["n"]) >= 3 * capacities.broker or 4 * len(nodes["a"]) >= 3 * capacities.live
        if (
            set(crossings) - (_CROSSING_IN_4X if profile.concurrent_maps else set())
            or (channel_shared and not profile.concurrent_maps)
            or ((channel_shared or addr_shared) and grown)
        ):
            return True
    return False
