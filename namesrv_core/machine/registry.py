"""The registry: RocketMQ's tables, and `apply`, the one place that changes them.

Transitions read a registry, collect changes in an overlay on it (`Draft`) and return them (`Step`); the owner of the registry
applies them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Any, Literal, NamedTuple, get_args

from namesrv_core.machine import tables
from namesrv_core.machine.past import Past
from namesrv_core.machine.profile import Profile
from namesrv_core.machine.tables import PERM_WRITE, BrokerData, BrokerLiveInfo, LiveKey, QueueData

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


TABLES: frozenset[str] = frozenset(get_args(TableName)) - {"pending_unregister", "scan_halted"}
"""Attributes of a `Registry` that are tables of rows."""


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
    """The state of one name server. Only `apply`, `restart` and `broker_live_table.refresh` change it."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.topic_queue_table = tables.TopicQueueTable(profile)
        self.broker_addr_table = tables.BrokerAddrTable(profile)
        self.cluster_addr_table = tables.ClusterAddrTable(profile)
        self.broker_live_table = tables.BrokerLiveTable(profile)
        self.filter_server_table = tables.FilterServerTable(profile)
        self.kv_config_table = tables.KvConfigTable()
        self.topic_queue_mapping_info_table = tables.TopicQueueMappingTable(profile)
        self.pending_unregister: tuple[object, ...] = ()
        self.scan_halted = False
        self.past: Past | None = None  # which of this is known; None: everything

    def copy(self) -> Registry:
        """Return an independent copy; rows never change and are shared."""
        twin = Registry(self.profile)
        for name in TABLES:
            setattr(twin, name, getattr(self, name).twin())
        twin.pending_unregister, twin.scan_halted = self.pending_unregister, self.scan_halted
        twin.past = None if self.past is None else Past.load(self.past.dump())
        return twin

    # -- reading -----------------------------------------------------------------------------------------------------

    def table(self, name: TableName) -> tables.RowTable[Any, Any]:
        """Return a table of rows by its name. Raises ValueError for an unknown name."""
        if name not in TABLES:
            raise ValueError(f"{name!r}: no such table")
        found: tables.RowTable[Any, Any] = getattr(self, name)
        return found

    @property
    def last_update_ms(self) -> dict[LiveKey, int]:
        """Return the lastUpdateTimestamp of each live entry. Shared: do not change it."""
        return self.broker_live_table.last_update_ms

    def queue_data(self, topic: str | None, broker_name: str | None) -> QueueData | None:
        """Return the queue data of `broker_name` for `topic`."""
        return self.topic_queue_table.row((topic, broker_name))

    def next_lease_end(self) -> int | None:
        """Return a time (ms) before which no further lease ends; None if no live entry has a lease to lose.

        While the past is unknown, this may be the old end of a lease that was renewed since: in that case even a tick
        that expires nothing tells something.
        """
        return self.broker_live_table.next_lease_end(as_noted=self.past is not None)

    def holds_the_same_as(self, other: Registry) -> bool:
        """Return whether all tables are equal, whatever the age of their keys and leases."""
        return all(getattr(self, name) == getattr(other, name) for name in get_args(TableName))

    # -- changing ----------------------------------------------------------------------------------------------------

    def apply(self, changes: Iterable[Change], at_ms: int, beats: Mapping[LiveKey, int] | None = None) -> None:
        """Apply `changes` in order; a live entry that is put is refreshed at its time in `beats`, else at `at_ms`."""
        for name, key, value in changes:
            if name == "pending_unregister":
                self.pending_unregister = value if isinstance(value, tuple) else ()
            elif name == "scan_halted":
                self.scan_halted = value is not None
            elif beats and name == "broker_live_table":
                self.broker_live_table.change(key, value, beats.get(LiveKey(*key), at_ms))
            else:
                self.table(name).change(key, value, at_ms)

    def restart(self, profile: Profile) -> None:
        """Make the tables those of a fresh process of `profile`; call it when the routes are empty."""
        self.profile = profile
        for name in TABLES:
            getattr(self, name).restart(profile)


class Outcome(str, Enum):
    """What became of an event."""

    APPLIED = "applied"  # at least one row changed
    REFRESHED = "refreshed"  # only a lease was renewed
    NO_EFFECT = "no_effect"  # nothing to do
    UNKNOWN_BROKER = "unknown_broker"  # a heartbeat from an address that is not in the live table
    VERSION_DIFFERS = "version_differs"  # 4.x: a version query that does not renew the lease
    REJECTED_STATE_VERSION = "rejected_state_version"  # the id is held by an address with a newer state version
    REFUSED_LONE_TOPIC = "refused_lone_topic"  # a first registration with exactly one topic
    REFUSED_REQUEST = "refused_request"  # the request layer answered with an error
    QUEUED = "queued"  # 5.x: an unregistration waits for its batch
    EXPIRED = "expired"  # a scan removed brokers whose lease had ended
    CHANNEL_LOST = "channel_lost"  # a lost channel took a broker down
    SCAN_FAILED = "scan_failed"  # 4.x: ConcurrentModificationException ends the periodic scan for good
    UNKNOWN_PAST = "unknown_past"  # an answer that differs from the registry only in rows that were not known
    SCAN_HALTED = "scan_halted"  # 4.x: the scan was due, but an earlier exception has ended it
    UNRECORDED = "unrecorded"  # a recording gap; from then on the registry is a best guess
    STARTED = "started"
    STOPPED = "stopped"


# Thrown, and mostly caught, by the server where a required field is missing.
NULL_POINTER = "java.lang.NullPointerException"


class Notification(NamedTuple):
    """A one-way NOTIFY_MIN_BROKER_ID_CHANGE (905) that the name server sends (5.x)."""

    to: str | None
    min_broker_id: int
    min_broker_addr: str | None
    offline_broker_addr: str | None
    ha_broker_addr: str | None


class Certainty(NamedTuple):
    """Rows that are known after an event, as (history table, key), while the past is not known completely.

    `known`: rows, changed or not, whose present value is known; `begun`: changed rows whose value before the event was
    known.
    """

    known: frozenset[tuple[str, tuple[object, ...]]]
    begun: frozenset[tuple[str, tuple[object, ...]]]


NOTHING_CERTAIN = Certainty(frozenset(), frozenset())


class Step(NamedTuple):
    """The effect of one event: the outcome, the changes to apply, the lease to renew, and what is returned or sent.

    `result`: return value of the Java method (see each transition). `closed`: channels on which close() was called, in
    order. `swallowed`: exceptions that the method caught; `exception`: the one that left it. `batch`: number of
    unregistrations applied as a batch (5.x). `certainty` None: everything is known.
    """

    outcome: Outcome
    changes: tuple[Change, ...] = ()
    refreshed: LiveKey | None = None
    result: object | None = None
    closed: tuple[str, ...] = ()
    notifications: tuple[Notification, ...] = ()
    swallowed: tuple[str, ...] = ()
    exception: str | None = None
    batch: int | None = None
    certainty: Certainty | None = None


class Draft:
    """An overlay on a registry: a transition sees its own earlier changes, and the registry stays unchanged.

    `changes`, `swallowed`: as in its `Step`.
    """

    __slots__ = ("_overlay", "changes", "registry", "swallowed")

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.changes: list[Change] = []
        self.swallowed: tuple[str, ...] = ()
        self._overlay: dict[tuple[str, tuple[str | None, ...]], object | None] = {}

    def put(self, table: TableName, key: tuple[str | None, ...], value: object | None) -> None:
        """Put a row, or remove it (`value` None). Record no change if the row already has this value."""
        if self._current(table, key) == value:
            return
        self._overlay[table, key] = value
        self.changes.append(Change(table, key, value))

    def group(self, broker_name: str | None) -> BrokerData | None:
        """Return the group of `broker_name`."""
        value = self._current("broker_addr_table", (broker_name,))
        return value if isinstance(value, BrokerData) else None

    def live(self, key: LiveKey) -> BrokerLiveInfo | None:
        """Return the live entry under `key`."""
        value = self._current("broker_live_table", key)
        return value if isinstance(value, BrokerLiveInfo) else None

    def names_of_addr(self, *broker_addrs: str | None) -> list[str | None]:
        """Return the names whose group lists one of `broker_addrs`, in Java's iteration order of the group table."""
        listed = [(name, addr) for addr in broker_addrs for name in self.registry.broker_addr_table.names_of_addr(addr)]
        groups = ((name, addr, self.group(name)) for name, addr in listed)
        names = {name: None for name, addr, group in groups if group and addr in group.addr_of.values()}
        return self.registry.broker_addr_table.in_order(names)

    def clusters_of_name(self, broker_name: str | None) -> list[str | None]:
        """Return the clusters whose set holds `broker_name`, in Java's iteration order of the cluster table."""
        table = self.registry.cluster_addr_table
        clusters = table.clusters_of_name(broker_name)
        return table.in_order([one for one in clusters if self._current("cluster_addr_table", (one, broker_name))])

    def live_keys_of_channel(self, channel_id: str) -> list[LiveKey]:
        """Return the live entries registered over `channel_id`, in Java's iteration order of the live table."""
        table = self.registry.broker_live_table
        return table.in_order([key for key in table.keys_of_channel(channel_id) if self.live(key)])

    def remove_live(self, key: LiveKey) -> None:
        """Remove the live entry and the filter servers under `key`."""
        self.put("broker_live_table", key, None)
        self.put("filter_server_table", key, None)

    def remove_topics_of(self, broker_name: str | None) -> None:
        """Remove the queue data of `broker_name` from all topics; a topic goes with its last queue data."""
        for topic in self._topics_found(broker_name):
            self.put("topic_queue_table", (topic, broker_name), None)

    def change_perms(self, broker_name: str | None, perm_of: Callable[[int], int]) -> int:
        """Replace the permission in all queue data of `broker_name`; return the number of its topics, 0 after an exception."""
        topics = self._topics_found(broker_name)
        for topic in topics:
            queue_data = self.registry.topic_queue_table[topic][broker_name]
            self.put("topic_queue_table", (topic, broker_name), queue_data._replace(perm=perm_of(queue_data.perm)))
        return 0 if self.swallowed else len(topics)

    def wipe_write_perm(self, broker_name: str | None) -> int:
        """Take the write bit from all queue data of `broker_name`; return what `change_perms` does."""
        return self.change_perms(broker_name, lambda perm: perm & ~PERM_WRITE)

    def step(self, outcome: Outcome) -> Step:
        """Return the step with `outcome`, or with NO_EFFECT if nothing changed."""
        outcome = outcome if self.changes else Outcome.NO_EFFECT
        return Step(outcome, tuple(self.changes), swallowed=self.swallowed)

    def _topics_found(self, broker_name: str | None) -> Collection[str | None]:
        topics, throws = self.registry.topic_queue_table.found_of_name(broker_name)
        self.swallowed += (NULL_POINTER,) * throws
        return topics

    def _current(self, table: TableName, key: tuple[str | None, ...]) -> object | None:
        overlay_key = (table, key)
        if overlay_key in self._overlay:
            return self._overlay[overlay_key]
        return self.registry.table(table).row(key)
