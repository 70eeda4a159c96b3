"""The tables of a registry, and their rows: immutable values under RocketMQ's names.

Each table puts and removes rows by their keys, and keeps the indexes over them. The indexes beside the maps of
RouteInfoManager tell which names list an address, which entries share a channel, which topics a broker name has, and when
leases end. So an event costs what it touches, not what is registered.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from namesrv_core.machine.java_map import JavaMap, as_long, long_hash, string_hash, string_map, table_size_for
from namesrv_core.machine.profile import Profile

MASTER_ID = 0
UNRECORDED = ""
"""Channel of a registration whose connection was not recorded; no event closes it."""
PERM_READ, PERM_WRITE = 4, 2
_BROKER_ADDRS_CAPACITY = 16


_ENDLESS_MS = 1 << 60


class LiveKey(NamedTuple):
    """Key of `broker_live_table` and `filter_server_table`.

    `cluster_name` is None in 4.x, whose key is the address alone.
    """

    cluster_name: str | None
    broker_addr: str | None


def live_key_hash(key: LiveKey) -> int:
    """Return the Java key's hash: that of the address, or that of cluster and address joined by an underscore."""
    if key.cluster_name is None:
        return string_hash(key.broker_addr)
    if not (key.cluster_name or key.broker_addr):
        return 0  # without the underscore
    return string_hash(f"{key.cluster_name}_{key.broker_addr}")


class DataVersion(NamedTuple):
    """Version of a broker's topic configuration; equal only if all fields are."""

    state_version: int
    timestamp: int
    counter: int | None

    def known_to(self, profile: Profile) -> DataVersion:
        """Return the version as a name server of `profile` reads it: 4.x skips the stateVersion of newer brokers."""
        return self if profile.has_state_version or not self.state_version else self._replace(state_version=0)

    def is_before(self, other: DataVersion) -> bool:
        """Return whether this version is older than `other`: by state version, then counter, then timestamp."""
        return (self.state_version, self.counter or 0, self.timestamp) < (
            other.state_version,
            other.counter or 0,
            other.timestamp,
        )


class QueueData(NamedTuple):
    """Queues and permissions of one broker name for one topic."""

    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int


class BrokerData(NamedTuple):
    """A group: the members of one broker name, as (id, address) in the order in which they were put."""

    cluster_name: str | None
    broker_addrs: tuple[tuple[int, str | None], ...]
    enable_acting_master: bool = False
    zone_name: str | None = None

    @property
    def addr_of(self) -> dict[int, str | None]:
        """Return the addresses by broker id."""
        return dict(self.broker_addrs)

    def java_addrs(self) -> list[tuple[int, str | None]]:
        """Return ids and addresses in Java's iteration order; ids 0 to 15 come ascending."""
        if len(self.broker_addrs) < 2:  # one member has no order
            return list(self.broker_addrs)
        addrs: JavaMap[int, str | None] = JavaMap(_BROKER_ADDRS_CAPACITY, long_hash, concurrent=False)
        for broker_id, addr in self.broker_addrs:
            addrs.put(broker_id, addr)
        return list(addrs.java_items())


class BrokerLiveInfo(NamedTuple):
    """A live entry without its lastUpdateTimestamp, which the registry keeps beside it.

    `broker_name` is not part of the name server's table; reports need it to say which broker registered.
    """

    data_version: DataVersion | None
    heartbeat_timeout_ms: int | None  # None: not known, for example if only a log tells of the entry
    channel_id: str | None  # None: no channel; a scan that meets such an entry ends there
    ha_server_addr: str | None
    broker_name: str | None = None

    @property
    def lease_ms(self) -> int:
        """Return its lease; an unknown lease does not end."""
        return _ENDLESS_MS if self.heartbeat_timeout_ms is None else self.heartbeat_timeout_ms


class TopicQueueMappingInfo(NamedTuple):
    """Static-topic mapping of 5.x; `curr_id_map` is its JSON text as RocketMQ writes it."""

    topic: str
    bname: str | None
    total_queues: int
    epoch: int
    dirty: bool = False
    scope: str | None = None
    curr_id_map: str | None = None

    @property
    def queue_ids(self) -> dict[int, int]:
        """Return the physical queue ids by logical ones; empty for a null map or an empty text."""
        return queue_ids_of(self.curr_id_map) if self.curr_id_map else {}


def queue_ids_of(text: str) -> dict[int, int]:
    """Return the queue ids in the JSON text of a `currIdMap`. Raises ValueError for any other text."""
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(found, dict) or not all(type(queue) is int and _is_int(queue) for queue in found.values()):
        raise ValueError("no object of queue ids")
    if not all(_is_int(int(key)) for key in found):
        raise ValueError("a queue id that is no int")
    return {int(key): queue for key, queue in found.items()}


def _is_int(number: int) -> bool:
    return -(1 << 31) <= number < 1 << 31


class KvValue(NamedTuple):
    """Value of a KV entry. RocketMQ keeps a null value until the next start."""

    text: str | None


class TopicConfig(NamedTuple):
    """A topic as a broker registers it."""

    topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int

    @property
    def queue_data(self) -> QueueData:
        """Return the queue data that the name server stores for the topic."""
        return QueueData(self.read_queue_nums, self.write_queue_nums, self.perm, self.topic_sys_flag)


class TopicTable:
    """Topics and mappings of a registration, in the order in which the name server iterates over them.

    A body is decoded into a ConcurrentHashMap, so the order is the map's and not the body's. Registrations with the
    same content share one value.
    """

    __slots__ = ("mappings", "names", "queue_datas")

    def __init__(self, topics: Iterable[TopicConfig], mappings: Iterable[TopicQueueMappingInfo] = ()) -> None:
        table = string_map(entries=((topic.topic, topic.queue_data) for topic in topics), concurrent=True)
        self.queue_datas: dict[str, QueueData] = {name: data for name, data in table.java_items() if name is not None}
        self.names = frozenset(self.queue_datas)
        self.mappings = tuple(mappings)

    def __len__(self) -> int:
        return len(self.queue_datas)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicTable) and (self.queue_datas, self.mappings) == (
            other.queue_datas,
            other.mappings,
        )

    def __hash__(self) -> int:
        return hash((self.names, self.mappings))


Key = tuple[str | None, ...]
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Index = dict[K, dict[V, None]]
"""Members by key; the inner dicts serve as ordered sets."""


class RowTable(JavaMap[K, V]):
    """A table whose rows are put and removed by their keys in a `Change`.

    `sized_as`: attribute of `Capacities` with its initial number of buckets.
    """

    __slots__ = ()
    sized_as: ClassVar[str]
    hashed_by: ClassVar[Callable[[Any], int]] = string_hash

    def __init__(self, profile: Profile, *, computes: bool = False) -> None:
        capacity, hash_of = getattr(profile.capacities, self.sized_as), type(self).hashed_by
        super().__init__(capacity, hash_of, concurrent=profile.concurrent_maps, computes=computes)

    def own_key(self, key: Key) -> Any:
        """Return the table's own key for `key` of a `Change`."""
        return LiveKey(*key)

    def row(self, key: Key) -> object | None:
        """Return the row under `key`, or None."""
        return self.get(self.own_key(key))

    def change(self, key: Key, value: object | None, at_ms: int) -> None:  # noqa: ARG002  of live entries alone
        """Put the row, or remove it (`value` None). A live entry that is put is refreshed at `at_ms`."""
        if value is None:
            self.remove(self.own_key(key))
        else:
            self.put(self.own_key(key), value)  # type: ignore[arg-type]  # a Change says what its table holds

    def restart(self, profile: Profile) -> None:
        """Become the table of a fresh process of `profile`; call it when the table is empty."""
        self.capacity, self.concurrent = getattr(profile.capacities, self.sized_as), profile.concurrent_maps


class NestedTable(RowTable[str | None, JavaMap[str | None, V]]):
    """A map of maps: a row's key is (outer key, inner key). An outer key goes with its last row."""

    __slots__ = ()

    def row(self, key: Key) -> V | None:
        """See `RowTable`."""
        outer, inner = key
        values = self.get(outer)
        return None if values is None else values.get(inner)

    def change(self, key: Key, value: object | None, at_ms: int) -> None:  # noqa: ARG002  as in every table
        """See `RowTable`."""
        outer, inner = key
        rows = self.get(outer)
        if value is None:
            if rows is not None:
                rows.remove(inner)
                if not rows:
                    self.remove(outer)
            return
        if rows is None or self.computes:
            rows = rows or self._inner()
            self.put(outer, rows)
        rows.put(inner, value)  # type: ignore[arg-type]  # a Change says what its table holds

    def reserve(self, outer: str | None) -> None:
        """Insert `outer` into a table that is being rebuilt; its rows must follow."""
        if outer not in self:
            self.put(outer, self._inner())

    def _inner(self) -> JavaMap[str | None, V]:
        return string_map()


class UnmetRows(Protocol):
    """Rows that are not yet in a topicQueueTable; they are loaded when their broker name is first asked for."""

    def names(self, topic: str | None = None) -> Iterable[str | None]:
        """Return the broker names with unloaded rows: all, or those that have `topic`."""

    def of_name(self, broker_name: str | None) -> Iterable[tuple[str | None, QueueData]]:
        """Return topics and queue data of a broker name, in the order in which they came; a second call returns none."""


class QueueList(JavaMap[str | None, QueueData]):
    """Queue data of a topic before 4.9.4: in the order in which they were put, and equal only in the same order."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # as of any dict

    def __init__(self) -> None:
        super().__init__(16, _one_bucket, concurrent=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueueList) and [*self.items()] == [*other.items()]


def _one_bucket(_: str | None) -> int:
    return 0


class TopicQueueTable(NestedTable[QueueData]):
    """topicQueueTable: (topic, broker name) to QueueData. Rows may be loaded on demand (`begin_with`)."""

    __slots__ = ("_complete", "_is_of_lists", "_topics_of_name", "_unmet")
    sized_as = "topic"

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self._is_of_lists = profile.lists_queue_data
        self._topics_of_name: Index[str | None, str | None] = {}
        # By broker name, a table of topics that it once had completely and has lost nothing of since.
        self._complete: dict[str | None, TopicTable] = {}
        self._unmet: UnmetRows | None = None

    def restart(self, profile: Profile) -> None:
        """See `RowTable`."""
        super().restart(profile)
        self._is_of_lists = profile.lists_queue_data

    def _inner(self) -> JavaMap[str | None, QueueData]:
        return QueueList() if self._is_of_lists else string_map()

    def begin_with(self, unmet: UnmetRows, complete: Mapping[str | None, TopicTable]) -> None:
        """Add rows to be loaded on demand. `complete`: by broker name, a table whose topics it has all."""
        self._unmet = unmet
        self._complete.update(complete)

    def change(self, key: Key, value: object | None, at_ms: int) -> None:  # noqa: ARG002  as in every table
        """See `RowTable`."""
        topic, name = key
        self._meet(name)
        self._change(topic, name, value)

    def _change(self, topic: str | None, name: str | None, value: object | None) -> None:
        rows = self.get(topic)
        if value is not None and rows is not None and name in rows:
            rows.put(name, value)  # type: ignore[arg-type]  # the indexes know it already
            return
        if value is None:
            self._complete.pop(name, None)
        super().change((topic, name), value, 0)
        note(self._topics_of_name, name, topic, present=value is not None)

    def row(self, key: Key) -> QueueData | None:
        """See `RowTable`."""
        self._meet(key[1])
        return super().row(key)

    def names_of_topic(self, topic: str | None) -> list[str | None]:
        """Return the broker names with queue data for `topic`, in an order that does not depend on which rows are loaded."""
        if self._unmet is not None:
            for name in self._unmet.names(topic):
                self._meet(name)
        return sorted(self.get(topic, ()), key=_by_name)

    def keys_of_rows(self) -> Iterator[tuple[str | None, str | None]]:
        """Yield the keys of all rows, in such an order, too."""
        if self._unmet is not None:
            for name in self._unmet.names():
                self._meet(name)
        return ((topic, name) for topic in sorted(self, key=_by_name) for name in sorted(self[topic], key=_by_name))

    def _meet(self, broker_name: str | None) -> None:
        if self._unmet is not None:
            for topic, queue_data in self._unmet.of_name(broker_name):
                self._change(topic, broker_name, queue_data)

    def topics_of_name(self, broker_name: str | None) -> dict[str | None, None]:
        """Return the topics that have queue data of `broker_name`, as the keys of a dict. Shared: do not change it."""
        self._meet(broker_name)
        return self._topics_of_name.get(broker_name, {})

    def listed(self, topic: str | None) -> list[str | None]:
        """Return the broker names with queue data for `topic`, before 4.9.4 in the order of its list."""
        return self[topic].java_keys() if self.names_of_topic(topic) else []

    def found_of_name(self, broker_name: str | None) -> tuple[Collection[str | None], bool]:
        """Return the topics in which a search finds queue data of `broker_name`, and whether it ends with an exception.

        Before 4.9.4 it goes through the lists of all topics, and throws at queue data without a broker name.

        Source: RocketMQ 4.8.0 RouteInfoManager.removeTopicByBrokerName, .wipeWritePermOfBroker.
        """
        if not self._is_of_lists or not self.topics_of_name(None):
            return self.topics_of_name(broker_name), False
        found = []
        self.keys_of_rows()  # all rows are met
        for topic in self.java_keys():
            names = self[topic].java_keys()
            throws = None in names
            if broker_name in (names[: names.index(None)] if throws else names):
                found.append(topic)
            if throws:
                break
        return found, True

    def has_topics(self, broker_name: str | None, topics: TopicTable) -> bool:
        """Return whether `broker_name` has all of `topics`. Most registrations ask this, with the same table as before."""
        if self._complete.get(broker_name) is not topics:
            if not self.topics_of_name(broker_name).keys() >= topics.names:
                return False
            self._complete[broker_name] = topics
        return True


def _by_name(name: str | None) -> tuple[bool, str]:
    return name is not None, name or ""


class TopicQueueMappingTable(NestedTable[TopicQueueMappingInfo]):
    """topicQueueMappingInfoTable: (topic, bname) to TopicQueueMappingInfo."""

    __slots__ = ()
    sized_as = "topic"


class ClusterAddrTable(NestedTable[bool]):
    """clusterAddrTable: (cluster name, broker name) to True."""

    __slots__ = ("_clusters_of_name",)
    sized_as = "cluster"

    def __init__(self, profile: Profile) -> None:
        # Since 4.9.4 it calls computeIfAbsent; in 5.x on a ConcurrentHashMap, where that acts as put.
        super().__init__(profile, computes=profile.computes_clusters)
        self._clusters_of_name: Index[str | None, str | None] = {}

    def restart(self, profile: Profile) -> None:
        """See `RowTable`."""
        super().restart(profile)
        self.computes = profile.computes_clusters

    def change(self, key: Key, value: object | None, at_ms: int) -> None:
        """See `RowTable`."""
        super().change(key, value, at_ms)
        note(self._clusters_of_name, key[1], key[0], present=value is not None)

    def look_up(self, cluster_name: str | None) -> None:
        """Note that a registration has looked up a cluster: even if the cluster exists, the table may grow.

        Source: RocketMQ 4.9.7 RouteInfoManager.registerBroker; HashMap.computeIfAbsent.
        """
        if cluster_name in self:
            self.put(cluster_name, self[cluster_name])

    def clusters_of_name(self, broker_name: str | None) -> list[str | None]:
        """Return the clusters whose set holds `broker_name`."""
        return list(self._clusters_of_name.get(broker_name, ()))


class KvConfigTable(NestedTable[KvValue]):
    """configTable of KVConfigManager: (namespace, key) to KvValue; key None: the namespace itself. It outlives the process."""

    __slots__ = ()

    def __init__(self) -> None:
        JavaMap.__init__(self, 16, string_hash, concurrent=False)

    def restart(self, profile: Profile) -> None:  # noqa: ARG002  as in every table
        """See `RowTable`. The file has the keys in the order of the old maps; the new process fills its maps from it.

        Source: RocketMQ 4.9.7 and 5.4.0 KVConfigManager.load; java.util.HashMap.putAll sizes the outer one.
        """
        entries = list(self.java_items())
        for namespace, _ in entries:
            self.remove(namespace)
        self.capacity = table_size_for(int(len(entries) / 0.75) + 1) if entries else 16
        for namespace, values in entries:
            self.put(namespace, string_map(entries=values.java_items()))

    def change(self, key: Key, value: object | None, at_ms: int) -> None:  # noqa: ARG002  as in every table
        """See `RowTable`. A namespace stays when its last key goes."""
        namespace, name = key
        if value is None:
            if name is None:
                self.remove(namespace)
            elif namespace in self:
                self[namespace].remove(name)
            return
        self.reserve(namespace)
        if name is not None and isinstance(value, KvValue):
            self[namespace].put(name, value)


class BrokerAddrTable(RowTable[str | None, BrokerData]):
    """brokerAddrTable: (broker name,) to BrokerData."""

    __slots__ = ("_names_of_addr",)
    sized_as = "broker"

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self._names_of_addr: Index[str | None, str | None] = {}

    def own_key(self, key: Key) -> str | None:
        """See `RowTable`."""
        return key[0]

    def change(self, key: Key, value: object | None, at_ms: int) -> None:
        """See `RowTable`."""
        (name,) = key
        old = self.get(name)
        for _, addr in old.broker_addrs if old else ():
            note(self._names_of_addr, addr, name, present=False)
        super().change(key, value, at_ms)
        for _, addr in value.broker_addrs if isinstance(value, BrokerData) else ():
            note(self._names_of_addr, addr, name, present=True)

    def names_of_addr(self, broker_addr: str | None) -> list[str | None]:
        """Return the broker names whose group lists `broker_addr`."""
        return list(self._names_of_addr.get(broker_addr, ()))


class FilterServerTable(RowTable[LiveKey, tuple[str, ...]]):
    """filterServerTable: LiveKey to addresses."""

    __slots__ = ()
    sized_as = "live"
    hashed_by = live_key_hash


class BrokerLiveTable(RowTable[LiveKey, BrokerLiveInfo]):
    """brokerLiveTable: LiveKey to BrokerLiveInfo. It keeps lastUpdateTimestamp separately: heartbeats change nothing else."""

    __slots__ = ("_deadline_of", "_deadlines", "_ended", "_keys_of_channel", "_serial", "last_update_ms")
    sized_as = "live"
    hashed_by = live_key_hash

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self.last_update_ms: dict[LiveKey, int] = {}
        self._keys_of_channel: Index[str, LiveKey] = {}
        self._deadlines: list[tuple[int, int, LiveKey]] = []  # the serial avoids comparing keys, which may hold None
        self._serial = itertools.count()
        self._deadline_of: dict[LiveKey, int] = {}
        self._ended: dict[LiveKey, None] = {}

    def change(self, key: Key, value: object | None, at_ms: int) -> None:
        """See `RowTable`."""
        live_key = LiveKey(*key)
        old = self.get(live_key)
        if old is not None and old.channel_id:
            note(self._keys_of_channel, old.channel_id, live_key, present=False)
        self._ended.pop(live_key, None)
        if not isinstance(value, BrokerLiveInfo):
            self.remove(live_key)
            self.last_update_ms.pop(live_key, None)
            self._deadline_of.pop(live_key, None)
            return
        self.put(live_key, value)
        if value.channel_id:
            note(self._keys_of_channel, value.channel_id, live_key, present=True)
        self.last_update_ms[live_key] = at_ms
        self._watch(live_key, self.lease_end(live_key))

    def refresh(self, key: LiveKey, at_ms: int) -> None:
        """Set the lastUpdateTimestamp of a live entry."""
        self.last_update_ms[key] = at_ms
        if key in self._ended:
            del self._ended[key]
            self._watch(key, self.lease_end(key))

    def keys_of_channel(self, channel_id: str) -> list[LiveKey]:
        """Return the live entries that were registered over `channel_id`."""
        return list(self._keys_of_channel.get(channel_id, ()))

    def expired_at(self, now_ms: int) -> list[LiveKey]:
        """Return the live entries whose lease ends strictly before `now_ms`, in Java's iteration order.

        Costs the number of leases that could have ended, not the number of live entries.
        """
        while self._deadlines and self._deadlines[0][0] < now_ms:
            deadline, _, key = heapq.heappop(self._deadlines)
            if self._deadline_of.get(key) != deadline:
                continue
            del self._deadline_of[key]
            end = self.lease_end(key)
            if end < now_ms:
                self._ended[key] = None
            else:
                self._watch(key, end)
        return self.in_order(self._ended)

    def next_lease_end(self, *, as_noted: bool) -> int | None:
        """Return a time (ms) before which no further lease ends; None if no live entry has a lease to lose.

        It is the present end of a lease; with `as_noted`, the lease may have been renewed since.
        """
        while self._deadlines:
            deadline, _, key = self._deadlines[0]
            watched = self._deadline_of.get(key) == deadline
            if watched and (as_noted or self.lease_end(key) <= deadline):
                return deadline
            heapq.heappop(self._deadlines)
            if watched:
                del self._deadline_of[key]
                self._watch(key, self.lease_end(key))
        return None

    @property
    def has_ended_leases(self) -> bool:
        """Return whether a scan found an ended lease whose entry still exists (5.x leaves some)."""
        return bool(self._ended)

    def lease_end(self, key: LiveKey) -> int:
        """Return when (ms) the lease of a live entry ends."""
        return as_long(self.last_update_ms[key] + self[key].lease_ms)

    def _watch(self, key: LiveKey, end: int) -> None:
        """Check `key` again when its lease ends at `end`, unless an earlier check is due anyway."""
        if end < self._deadline_of.get(key, end + 1):
            self._deadline_of[key] = end
            heapq.heappush(self._deadlines, (end, next(self._serial), key))


def note(index: Index[K, V], key: K, member: V, *, present: bool) -> None:
    """Add `member` to, or remove it from, the members under `key` of an index."""
    if present:
        index.setdefault(key, {})[member] = None
    elif key in index:
        index[key].pop(member, None)
        if not index[key]:
            del index[key]
