"""Sequences of trace events as an adversary would send them, from a seed: the same seed gives the same events.

A sequence is a run of short lives, each from an `init` with settings of its own. Names, addresses, channels, clusters
and topics come from small pools, so that everything meets everything; the pools hold names that share a bucket or a
whole hash, and the large ones make maps grow. Times end just before, at and just after a lease's end.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from namesrv_core.machine.profile import profile_named

Ev = dict[str, Any]

START_MS = 1_700_000_000_000
EVENTS_OF_A_LIFE = 400
SWITCHES = (
    "orderMessageEnable", "supportActingMaster", "deleteTopicWithBrokerRegistration", "notifyMinBrokerIdChanged",
    "returnOrderTopicConfigToBroker", "enableTopicList", "enableAllTopicList",
)  # fmt: skip
# One String.hashCode for all names of the first list, too few for a tree (known_differences.toml); one bucket of 128 or 256
# for the second.
SAME_HASH = ["AaAaAa", "AaAaBB", "AaBBAa", "AaBBBB", "BBAaAa", "BBAaBB", "BBBBAa"]
SAME_BUCKET = ["broker-0", "broker-117", "broker-b"]
ODD_TOPICS = ["rmq_sys_SYNC_BROKER_MEMBER_b", "%RETRY%g", 'say "\\hi\\"\n', "тема", "\U0001f680", "a!", "a"]
IDS = [0, 0, 0, 0, 1, 1, 2, 3, 16, 17, -1, 2**33]
TIMEOUTS = [None, None, None, 0, 1, 10_000, 60_000, 240_000, -1, 2**63 - 1]
PAUSES_MS = [0, 0, 0, 0, 1, 1, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 120_001]
OPS_OF_BOTH = {
    "register": 380, "unregister": 80, "heartbeat": 50, "query_dv": 60, "scan": 70, "channel_destroy": 70,
    "wipe_perm": 15, "add_perm": 15, "delete_topic": 40, "route": 60, "cluster_info": 4, "topic_list": 8,
    "system_topics": 8, "unit_topics": 4, "unit_sub_topics": 4, "unit_sub_ununit_topics": 4, "topics_by_cluster": 8,
    "kv_put": 20, "kv_get": 5, "kv_delete": 8, "kv_list": 5, "restart": 3,
}  # fmt: skip
OPS_OF_5X = {**OPS_OF_BOTH, "drain": 20, "register_topic": 40, "member_group": 8}


class Pools(NamedTuple):
    """What the names of one life are taken from."""

    clusters: list[str]
    names: list[str]
    addrs: list[str]
    channels: list[str]
    topics: list[str]


def _pools(rng: random.Random) -> Pools:
    """Draw the size of a life: mostly tiny, sometimes with colliding names, seldom wide enough for maps to grow."""
    kind = rng.choices(["tiny", "colliding", "middle", "wide"], [60, 20, 15, 5])[0]
    if kind == "tiny":
        return Pools(["C", "D"], SAME_BUCKET, _addrs(3), _channels(3), ["T0", "T1", "T2", "T3"])
    if kind == "colliding":
        return Pools(["C", *SAME_HASH[:3]], [*SAME_HASH, "b"], _addrs(5), _channels(6), [*SAME_HASH, *ODD_TOPICS])
    if kind == "middle":
        return Pools(["C", "D", "E"], _numbered("broker-", 12), _addrs(15), _channels(15), _numbered("T", 20))
    width = rng.choice([40, 120, 300])
    return Pools(
        _numbered("cluster", width // 5), _numbered("b", width), _addrs(width), _channels(width), _numbered("T", width)
    )


def _numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{i}" for i in range(count)]


def _addrs(count: int) -> list[str]:
    return [f"10.0.{i // 250}.{i % 250 + 1}:10911" for i in range(count)]


def _channels(count: int) -> list[str]:
    return _numbered("c", count)


class Adversary:
    """Makes the events of one generation of the name server; `follow_up` is told what came of each."""

    def __init__(self, rng: random.Random, version: str) -> None:
        self._rng = rng
        self._five = version.startswith("5")
        self._version = version
        self._weights = OPS_OF_5X if self._five else OPS_OF_BOTH

    def events(self) -> Iterator[Ev]:
        """Yield events for ever; each life begins with an `init`."""
        while True:
            yield self._begin()
            for _ in range(EVENTS_OF_A_LIFE // (4 if len(self._pools.names) > 20 else 1)):
                yield self._event()

    def follow_up(self, ev: Ev, closed: list[str]) -> list[Ev]:
        """Return the ends of channels that a scan with `deliver_close` has closed, as the network delivers them."""
        if not ev.get("deliver_close"):
            return []
        once = dict.fromkeys(closed)
        return [{"op": "channel_destroy", "t_ms": ev["t_ms"], "ch": ch, "auto": True} for ch in once]

    def _begin(self) -> Ev:
        rng = self._rng
        self._pools = _pools(rng)
        self._now = START_MS + rng.randrange(1_000)
        self._nulls = rng.random() < 0.3  # are fields missing in this life?
        self._ends: list[int] = []  # of leases that were given
        self._last: dict[str | None, Ev] = {}  # registration of each name
        remotes = {
            ch: rng.choice([f"10.9.0.{i % 250}:5{i:04}", rng.choice(self._pools.addrs)])
            for i, ch in enumerate(self._pools.channels)
        }
        return {
            "op": "init", "t_ms": self._now, "profile": self._version, "channels": remotes,
            "config": {switch: rng.random() < 0.5 for switch in (SWITCHES if self._five else SWITCHES[:1])},
        }  # fmt: skip

    def _event(self) -> Ev:
        rng = self._rng
        op = rng.choices(list(self._weights), list(self._weights.values()))[0]
        self._pass_time(ends_a_lease=op == "scan")
        ev: Ev = {"op": op, "t_ms": self._now}
        make = getattr(self, f"_{op}", None)
        return {**ev, **(make() if make else {})}

    def _pass_time(self, *, ends_a_lease: bool) -> None:
        """Step to some later time; before a scan often to the very end of a lease, or one millisecond past it."""
        rng = self._rng
        coming = [end for end in self._ends if end >= self._now]
        if ends_a_lease and coming and rng.random() < 0.6:
            self._now = rng.choice(coming) + rng.choice([0, 1, 1])
            self._ends = [end for end in coming if end >= self._now]
        else:
            self._now += rng.choice(PAUSES_MS)

    # -- fields ------------------------------------------------------------------------------------------------------

    def _of(self, pool: list[str], nulls: float = 0.01) -> str | None:
        return None if self._nulls and self._rng.random() < nulls else self._rng.choice(pool)

    def _broker(self) -> Ev:
        """Return who: mostly someone who has registered."""
        pools = self._pools
        if self._last and self._rng.random() < 0.7:
            known = self._last[self._rng.choice(list(self._last))]
            return {field: known[field] for field in ("cluster", "addr", "name", "id")}
        return {
            "cluster": self._of(pools.clusters), "addr": self._of(pools.addrs), "name": self._of(pools.names),
            "id": self._rng.choice(IDS),
        }  # fmt: skip

    def _dv(self, of: Ev | None) -> Ev | None:
        rng = self._rng
        if of is not None and rng.random() < 0.6:
            version: Ev | None = of["dv"]
            return version
        if rng.random() < 0.03:
            return None
        drawn: Ev = {"ts": START_MS + rng.randrange(2), "counter": rng.choice([0, 1, 1, 2, 2, 3, None])}
        return {**drawn, "state": rng.choice([0, 0, 1, 2])} if self._five else drawn

    def _queue(self, name: str | None) -> Ev:
        rng = self._rng
        return {
            "name": name, "r": rng.choice([4, 8]), "w": rng.choice([4, 8]), "perm": rng.choice([6, 6, 6, 4, 2, 0, 7]),
            "sys": rng.choice([0, 0, 1, 2, 3]),
        }  # fmt: skip

    def _topics(self, of: Ev | None) -> list[Ev] | None:
        rng, pool = self._rng, self._pools.topics
        if of is not None and rng.random() < 0.5:
            topics: list[Ev] | None = of["topics"]
            return topics
        if rng.random() < 0.04:
            return None
        most = min(len(pool), 60)
        count = rng.choice([0, 1, 1, 2, 3, 3, most // 2, most])
        return [self._queue(topic) for topic in rng.sample(pool, count)]

    def _mapping(self) -> dict[str, Ev]:
        rng = self._rng
        if rng.random() < 0.8:
            return {}
        topics = rng.sample(self._pools.topics, 2)
        return {
            topic: {"bname": self._of(self._pools.names, 0.05), "totalQueues": 8, "epoch": rng.randrange(3)}
            for topic in topics
        }

    # -- operations --------------------------------------------------------------------------------------------------

    def _register(self) -> Ev:
        rng, pools = self._rng, self._pools
        broker = self._broker()
        if rng.random() < 0.3:  # someone known changes one thing: address, id, cluster or name
            fresh = {
                "addr": self._of(pools.addrs), "id": rng.choice(IDS), "cluster": self._of(pools.clusters),
                "name": self._of(pools.names),
            }  # fmt: skip
            field = rng.choice(list(fresh))
            broker[field] = fresh[field]
        of = self._last.get(broker["name"])
        ev: Ev = {
            **broker,
            "ha": rng.choice([None, broker["addr"], "10.0.0.1:10912"]),
            "dv": self._dv(of),
            "topics": self._topics(of),
            "filters": rng.choice([None, None, None, [], ["10.0.0.9:30000"], ["f2", "f1"]]),
            "ch": self._of(pools.channels),
        }
        timeout = 120_000
        if self._five:
            ev |= {
                "acting": rng.choice([None, True, True, False]), "timeout": rng.choice(TIMEOUTS),
                "zone": rng.choice([None, "z"]), "mapping": self._mapping(),
            }  # fmt: skip
            timeout = 120_000 if ev["timeout"] is None else ev["timeout"]
            if ev["topics"] is None and not profile_named(self._version).deletes_unlisted_topics:
                ev[
                    "mapping"
                ] = {}  # before 5.1.4 mappings without a topic table are stored, and not here: docs/versions.md
        if self._five and ev["addr"] is None:
            ev["addr"] = pools.addrs[0]  # see known_differences.toml
        self._last[broker["name"]] = ev
        if timeout < 1_000_000:
            self._ends = [*self._ends[-20:], self._now + timeout]
        return ev

    def _unregister(self) -> Ev:
        return {**self._broker(), **self._deferred()}

    def _deferred(self) -> Ev:
        # A batch with a malformed request among others is a known difference: known_differences.toml.
        return {"defer": True} if self._five and not self._nulls and self._rng.random() < 0.2 else {}

    def _heartbeat(self) -> Ev:
        broker = self._broker()
        self._ends = [*self._ends[-20:], self._now + self._rng.choice([120_000, 10_000])]
        return broker

    def _query_dv(self) -> Ev:
        broker = self._broker()
        return {**broker, "dv": self._dv(self._last.get(broker["name"]))}

    def _scan(self) -> Ev:
        return {**self._deferred(), **({"deliver_close": True} if self._rng.random() < 0.4 else {})}

    def _channel_destroy(self) -> Ev:
        rng, pools = self._rng, self._pools
        ev: Ev = {"ch": self._of(pools.channels, 0.05), **self._deferred()}
        if rng.random() < 0.3:
            ev["remote"] = rng.choice([None, "", rng.choice(pools.addrs), "10.9.9.9:1"])
        return ev

    def _wipe_perm(self) -> Ev:
        return {"name": self._of(self._pools.names)}

    _add_perm = _wipe_perm

    def _delete_topic(self) -> Ev:
        cluster = self._rng.choice([None, "", "unknown", *self._pools.clusters[:5]])
        return {"topic": self._of(self._pools.topics), "cluster": cluster}

    def _register_topic(self) -> Ev:
        rng, pools = self._rng, self._pools
        names = [self._of([*pools.names, "unknown"]) for _ in range(rng.randrange(4))]
        queues = None if rng.random() < 0.05 else [self._queue(name) for name in names]
        return {"topic": self._of(pools.topics), "queues": queues}

    def _route(self) -> Ev:
        return {"topic": self._of(self._pools.topics)}

    def _topics_by_cluster(self) -> Ev:
        return {"cluster": self._of([*self._pools.clusters, "unknown"])}

    def _member_group(self) -> Ev:
        return {"cluster": self._of(self._pools.clusters), "name": self._of(self._pools.names)}

    def _kv_put(self) -> Ev:
        rng = self._rng
        return {
            "ns": rng.choice(["ORDER_TOPIC_CONFIG", "ORDER_TOPIC_CONFIG", "N", "a!"]),
            "key": rng.choice(self._pools.topics),
            "value": rng.choice(["broker-0:4", "v", "", 'q"\n', None]),
        }

    def _kv_get(self) -> Ev:
        return {"ns": self._of(["ORDER_TOPIC_CONFIG", "N", "unknown"]), "key": self._of(self._pools.topics)}

    _kv_delete = _kv_get

    def _kv_list(self) -> Ev:
        return {"ns": self._of(["ORDER_TOPIC_CONFIG", "N", "unknown"])}

    def _restart(self) -> Ev:
        return {"keep_kv": self._rng.random() < 0.7}
