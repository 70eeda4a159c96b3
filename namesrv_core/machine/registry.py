"""The registry: RocketMQ's tables, and `apply`, the one place that changes them.

Transitions read a registry and return changes; whoever owns the registry applies them. Beside the tables stand indexes
that follow from them (who holds an address, which entries share a channel, which topics a broker name has, when leases
end), so that an event costs what it touches and not what is registered.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args

from namesrv_core.inference.past import Past
from namesrv_core.machine.java_map import JavaMap, as_long, string_map
from namesrv_core.machine.profile import Profile
from namesrv_core.machine.rows import (
    BrokerData,
    BrokerLiveInfo,
    KvValue,
    LiveKey,
    QueueData,
    TopicQueueMappingInfo,
    TopicTable,
    live_key_hash,
)

TableName = Literal[
    "topic_queue_table",
    "broker_addr_table",
    "cluster_addr_table",
    "broker_live_table",
    "filter_server_table",
    "kv_config_table",
    "topic_queue_mapping_info_table",
    "pending_unregister",
    "scan_halted",
]


class Change(NamedTuple):
    """One row put (`value`) or removed (`value` is None).

    | table | key | value |
    |---|---|---|
    | topic_queue_table | (topic, broker name) | QueueData |
    | broker_addr_table | (broker name,) | BrokerData |
    | cluster_addr_table | (cluster name, broker name) | True |
    | broker_live_table | LiveKey | BrokerLiveInfo |
    | filter_server_table | LiveKey | tuple of addresses |
    | kv_config_table | (namespace, key); key None: the namespace itself | KvValue |
    | topic_queue_mapping_info_table | (topic, bname) | TopicQueueMappingInfo |
    | pending_unregister | () | tuple of requests |
    | scan_halted | () | True: an exception has ended the periodic scan |
    """

    table: TableName
    key: tuple[str | None, ...]
    value: object | None


class Registry:
    """All that one name server holds. Changed by `apply` and `refresh` only."""

    def __init__(self, profile: Profile) -> None:
        capacities, concurrent = profile.capacities, profile.concurrent_maps
        self.profile = profile
        self.topic_queue_table: JavaMap[str | None, JavaMap[str | None, QueueData]] = string_map(
            capacities.topic, concurrent=concurrent
        )
        self.broker_addr_table: JavaMap[str | None, BrokerData] = string_map(capacities.broker, concurrent=concurrent)
        self.cluster_addr_table: JavaMap[str | None, JavaMap[str | None, bool]] = string_map(
            capacities.cluster,
            concurrent=concurrent,
            computes=not concurrent,  # 4.x: computeIfAbsent; 5.x: the same on a ConcurrentHashMap, where it is a put
        )
        self.broker_live_table: JavaMap[LiveKey, BrokerLiveInfo] = JavaMap(
            capacities.live, live_key_hash, concurrent=concurrent
        )
        self.filter_server_table: JavaMap[LiveKey, tuple[str, ...]] = JavaMap(
            capacities.live, live_key_hash, concurrent=concurrent
        )
        self.kv_config_table: JavaMap[str | None, JavaMap[str | None, KvValue]] = string_map()
        self.topic_queue_mapping_info_table: JavaMap[str | None, JavaMap[str | None, TopicQueueMappingInfo]] = (
            string_map(capacities.topic, concurrent=concurrent)
        )
        self.pending_unregister: tuple[object, ...] = ()
        self.scan_halted = False
        self.past: Past | None = None  # what is known of all this; None: everything
        self.last_update_ms: dict[LiveKey, int] = {}
        self._names_of_addr: dict[str | None, dict[str | None, None]] = {}
        self._live_keys_of_channel: dict[str, dict[LiveKey, None]] = {}
        self._topics_of_name: dict[str | None, dict[str, None]] = {}
        self._complete: dict[
            str | None, TopicTable
        ] = {}  # a table that a broker name had whole, and lost nothing since
        self._clusters_of_name: dict[str | None, dict[str | None, None]] = {}
        self._deadlines: list[tuple[int, int, LiveKey]] = []  # the number keeps keys, which may hold None, uncompared
        self._serial = itertools.count()
        self._deadline_of: dict[LiveKey, int] = {}
        self._ended: dict[LiveKey, None] = {}

    def copy(self) -> Registry:
        """Return a registry that holds the same and changes on its own."""
        twin = Registry(self.profile)
        for name, value in vars(self).items():
            setattr(twin, name, _twin_of(value))
        return twin

    # -- reading -----------------------------------------------------------------------------------------------------

    def names_of_addr(self, broker_addr: str | None) -> list[str | None]:
        """Return the broker names whose group lists `broker_addr`."""
        return list(self._names_of_addr.get(broker_addr, ()))

    def live_keys_of_channel(self, channel_id: str) -> list[LiveKey]:
        """Return the live entries that were registered over `channel_id`."""
        return list(self._live_keys_of_channel.get(channel_id, ()))

    def topics_of_name(self, broker_name: str | None) -> dict[str, None]:
        """Return the topics that have queue data of `broker_name`, as the keys of a dict. Shared: do not change it."""
        return self._topics_of_name.get(broker_name, {})

    def has_topics(self, broker_name: str | None, topics: TopicTable) -> bool:
        """Return whether `broker_name` has all of `topics`; most registrations ask, and of the same table as before."""
        if self._complete.get(broker_name) is not topics:
            if not self.topics_of_name(broker_name).keys() >= topics.names:
                return False
            self._complete[broker_name] = topics
        return True

    def clusters_of_name(self, broker_name: str | None) -> list[str | None]:
        """Return the clusters whose set holds `broker_name`."""
        return list(self._clusters_of_name.get(broker_name, ()))

    def queue_data(self, topic: str | None, broker_name: str | None) -> QueueData | None:
        """Return the queue data of `broker_name` for `topic`."""
        queue_datas = self.topic_queue_table.get(topic)
        return None if queue_datas is None else queue_datas.get(broker_name)

    def expired_at(self, now_ms: int) -> list[LiveKey]:
        """Return the live entries whose lease lies strictly before `now_ms`, in Java's iteration order.

        Costs the number of leases that could have ended, not the number of live entries.
        """
        while self._deadlines and self._deadlines[0][0] < now_ms:
            deadline, _, key = heapq.heappop(self._deadlines)
            if self._deadline_of.get(key) != deadline:
                continue
            del self._deadline_of[key]
            end = self._lease_end(key)
            if end < now_ms:
                self._ended[key] = None
            else:
                self._watch(key, end)
        if len(self._ended) < 2:  # one entry has no order
            return list(self._ended)
        return [key for key in self.broker_live_table.java_keys() if key in self._ended]

    def next_lease_end(self) -> int | None:
        """Return a time (ms) before which no further lease ends; None if no live entry has a lease to lose.

        It is the end of a lease as it is now. While the past is unknown it may be one that was renewed since: ticks that expire
        nothing tell something then.
        """
        while self._deadlines:
            deadline, _, key = self._deadlines[0]
            watched = self._deadline_of.get(key) == deadline
            if watched and (self.past is not None or self._lease_end(key) <= deadline):
                return deadline
            heapq.heappop(self._deadlines)
            if watched:
                del self._deadline_of[key]
                self._watch(key, self._lease_end(key))
        return None

    @property
    def has_ended_leases(self) -> bool:
        """Return whether a scan met a live entry whose lease had ended and that is still there (5.x leaves some)."""
        return bool(self._ended)

    def _lease_end(self, key: LiveKey) -> int:
        return as_long(self.last_update_ms[key] + self.broker_live_table[key].heartbeat_timeout_ms)

    def holds_the_same_as(self, other: Registry) -> bool:
        """Return whether all tables are equal, whatever the age of their keys and leases."""
        return all(getattr(self, name) == getattr(other, name) for name in get_args(TableName))

    # -- changing ----------------------------------------------------------------------------------------------------

    def refresh(self, key: LiveKey, at_ms: int) -> None:
        """Set the lastUpdateTimestamp of a live entry."""
        self.last_update_ms[key] = at_ms
        if key in self._ended:
            del self._ended[key]
            self._watch(key, self._lease_end(key))

    def apply(self, changes: Iterable[Change], at_ms: int, beats: Mapping[LiveKey, int] | None = None) -> None:
        """Apply `changes` in order; a live entry that is put is refreshed at `at_ms`, or when `beats` says."""
        for change in changes:
            beat_ms = at_ms
            if beats and change.table == "broker_live_table":
                beat_ms = beats.get(LiveKey(*change.key), at_ms)
            self._apply_one(change, beat_ms)

    def reserve(self, table: TableName, outer: str | None) -> None:
        """Give `outer` its place in a table of tables that is being rebuilt; its rows must follow."""
        rows = getattr(self, table)
        if outer not in rows:
            rows.put(outer, string_map())

    def restart(self, profile: Profile) -> None:
        """Give the maps what those of a fresh process of `profile` have; to be called when the routes are empty."""
        self.profile = profile
        capacities = profile.capacities
        tables: tuple[tuple[JavaMap, int], ...] = (  # type: ignore[type-arg]
            (self.topic_queue_table, capacities.topic),
            (self.broker_addr_table, capacities.broker),
            (self.cluster_addr_table, capacities.cluster),
            (self.broker_live_table, capacities.live),
            (self.filter_server_table, capacities.live),
            (self.topic_queue_mapping_info_table, capacities.topic),
        )
        for table, capacity in tables:
            table.capacity, table.concurrent = capacity, profile.concurrent_maps

    def _apply_one(self, change: Change, at_ms: int) -> None:
        table, key, value = change
        if table == "topic_queue_table":
            self._put_queue_data(key, value)
        elif table == "broker_addr_table":
            self._put_group(key[0], value)
        elif table == "cluster_addr_table":
            self._put_nested(self.cluster_addr_table, key, value)
            _index(self._clusters_of_name, key[1], key[0], present=value is not None)
        elif table == "broker_live_table":
            self._put_live(LiveKey(*key), value, at_ms)
        elif table == "filter_server_table":
            _put(self.filter_server_table, LiveKey(*key), value)
        elif table == "kv_config_table":
            self._put_kv(key[0], key[1], value)
        elif table == "topic_queue_mapping_info_table":
            self._put_nested(self.topic_queue_mapping_info_table, key, value)
        elif table == "pending_unregister":
            self.pending_unregister = value if isinstance(value, tuple) else ()
        elif table == "scan_halted":
            self.scan_halted = value is not None
        else:
            raise ValueError(f"change of table {table!r}: no such table")

    def _put_queue_data(self, key: tuple[str | None, ...], value: object | None) -> None:
        topic, name = key
        rows = self.topic_queue_table.get(topic)
        if value is not None and rows is not None and name in rows:
            rows.put(name, value)  # type: ignore[arg-type]  # the indexes know it already
            return
        if value is None:
            self._complete.pop(name, None)
        self._put_nested(self.topic_queue_table, key, value)
        _index(self._topics_of_name, name, topic, present=value is not None)

    @staticmethod
    def _put_nested(table: JavaMap, key: tuple[str | None, ...], value: object | None) -> None:  # type: ignore[type-arg]
        outer, inner = key
        rows = table.get(outer)
        if value is None:
            if rows is not None:
                rows.remove(inner)
                if not rows:
                    table.remove(outer)
            return
        if rows is None:
            rows = string_map()
            table.put(outer, rows)
        rows.put(inner, value)

    def _put_kv(self, namespace: str | None, key: str | None, value: object | None) -> None:
        if value is None:
            if key is None:
                self.kv_config_table.remove(namespace)
            elif namespace in self.kv_config_table:
                self.kv_config_table[namespace].remove(key)
            return
        if namespace not in self.kv_config_table:
            self.kv_config_table.put(namespace, string_map())
        if key is not None and isinstance(value, KvValue):
            self.kv_config_table[namespace].put(key, value)

    def _put_group(self, name: str | None, value: object | None) -> None:
        old = self.broker_addr_table.get(name)
        for _, addr in old.broker_addrs if old else ():
            _index(self._names_of_addr, addr, name, present=False)
        _put(self.broker_addr_table, name, value)
        if isinstance(value, BrokerData):
            for _, addr in value.broker_addrs:
                _index(self._names_of_addr, addr, name, present=True)

    def _put_live(self, key: LiveKey, value: object | None, at_ms: int) -> None:
        old = self.broker_live_table.get(key)
        if old is not None and old.channel_id is not None:
            _index(self._live_keys_of_channel, old.channel_id, key, present=False)
        _put(self.broker_live_table, key, value)
        if not isinstance(value, BrokerLiveInfo):
            self.last_update_ms.pop(key, None)
            self._deadline_of.pop(key, None)
            self._ended.pop(key, None)
            return
        if value.channel_id is not None:
            _index(self._live_keys_of_channel, value.channel_id, key, present=True)
        self.last_update_ms[key] = at_ms
        self._ended.pop(key, None)
        self._watch(key, self._lease_end(key))

    def _watch(self, key: LiveKey, end: int) -> None:
        """Look at `key` again when its lease ends at `end`, unless it is looked at earlier anyway."""
        if end < self._deadline_of.get(key, end + 1):
            self._deadline_of[key] = end
            heapq.heappush(self._deadlines, (end, next(self._serial), key))


def _twin_of(value: object) -> object:
    """Return a copy of a table, an index or the heap; rows are shared, they never change."""
    if isinstance(value, JavaMap):
        return value.twin()
    if isinstance(value, Past):
        return value.copy()
    if isinstance(value, dict):
        return {key: _twin_of(member) for key, member in value.items()}
    return list(value) if isinstance(value, list) else value


def _put(table: JavaMap, key: object, value: object | None) -> None:  # type: ignore[type-arg]
    if value is None:
        table.remove(key)
    else:
        table.put(key, value)


def _index(index: dict, key: object, member: object, *, present: bool) -> None:  # type: ignore[type-arg]
    """Add `member` to, or take it out of, the set under `key`; dicts serve as ordered sets."""
    if present:
        index.setdefault(key, {})[member] = None
    elif key in index:
        index[key].pop(member, None)
        if not index[key]:
            del index[key]
