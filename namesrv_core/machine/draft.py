"""The result of a transition (`Step`), and the overlay on a registry in which a transition collects it (`Draft`)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from namesrv_core.machine.registry import Change, Registry, TableName
from namesrv_core.machine.rows import PERM_WRITE, BrokerData, BrokerLiveInfo, LiveKey


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
    """An overlay on a registry: a transition sees its own earlier changes, and the registry stays unchanged."""

    __slots__ = ("_overlay", "changes", "registry")

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.changes: list[Change] = []
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
        for topic in self.registry.topic_queue_table.topics_of_name(broker_name):
            self.put("topic_queue_table", (topic, broker_name), None)

    def change_perms(self, broker_name: str | None, perm_of: Callable[[int], int]) -> None:
        """Replace the permission in all queue data of `broker_name`."""
        for topic in self.registry.topic_queue_table.topics_of_name(broker_name):
            queue_data = self.registry.topic_queue_table[topic][broker_name]
            self.put("topic_queue_table", (topic, broker_name), queue_data._replace(perm=perm_of(queue_data.perm)))

    def wipe_write_perm(self, broker_name: str | None) -> None:
        """Take the write bit from all queue data of `broker_name`."""
        self.change_perms(broker_name, lambda perm: perm & ~PERM_WRITE)

    def step(self, outcome: Outcome) -> Step:
        """Return the step with `outcome`, or with NO_EFFECT if nothing changed."""
        return Step(outcome if self.changes else Outcome.NO_EFFECT, tuple(self.changes))

    def _current(self, table: TableName, key: tuple[str | None, ...]) -> object | None:
        overlay_key = (table, key)
        if overlay_key in self._overlay:
            return self._overlay[overlay_key]
        return self.registry.table(table).row(key)
