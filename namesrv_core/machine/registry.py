"""The registry: RocketMQ's tables, and `apply`, the one place that changes them.

Transitions read a registry and return changes; the owner of the registry applies them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from namesrv_core.machine import tables
from namesrv_core.machine.past import Past
from namesrv_core.machine.profile import Profile
from namesrv_core.machine.rows import LiveKey, QueueData

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
