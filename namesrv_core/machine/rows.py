"""The rows of the registry's tables: immutable values under RocketMQ's names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from namesrv_core.machine.java_map import JavaMap, long_hash, string_hash, string_map
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
