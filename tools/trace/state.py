"""A registry as plain JSON values: the canonical form of event traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from namesrv_core.machine import events
from namesrv_core.machine.registry import Registry, TableName
from namesrv_core.machine.tables import BrokerData, DataVersion, LiveKey, QueueData, TopicQueueMappingInfo

Json = dict[str, Any]
OuterKey = str | LiveKey | None


# Members of a state and the tables that they show. A table of a registry that its generation does not have is left out.
_MEMBERS: dict[str, TableName] = {
    "brokerAddrTable": "broker_addr_table",
    "brokerLiveTable": "broker_live_table",
    "clusterAddrTable": "cluster_addr_table",
    "filterServerTable": "filter_server_table",
    "kvConfig": "kv_config_table",
    "topicQueueTable": "topic_queue_table",
}
_MEMBERS_OF_5X: dict[str, TableName] = {**_MEMBERS, "topicQueueMappingInfoTable": "topic_queue_mapping_info_table"}


def state_of(registry: Registry) -> Json:
    """Return all tables of `registry` as plain JSON values, orders normalised."""
    st: Json = {
        member: {name_json(key): row_json(registry, table, key) for key in getattr(registry, table)}
        for member, table in members_of(registry).items()
    }
    return {**st, "pendingUnregister": pending_json(registry)} if registry.profile.batches_unregistrations else st


def members_of(registry: Registry) -> dict[str, TableName]:
    """Return the members of a state with the tables of `registry` that they show."""
    return _MEMBERS_OF_5X if registry.profile.stores_topic_queue_mapping else _MEMBERS


def row_json(registry: Registry, table: TableName, key: OuterKey) -> object:
    """Return what a table holds under an outer key: an address list, a group, all queue data of a topic."""
    return _ROWS[table](registry, key)


def pending_json(registry: Registry) -> list[Json]:
    """Return the unregistrations that wait for their batch, oldest first."""
    return [
        {"cluster": r.cluster_name, "addr": r.broker_addr, "name": r.broker_name, "id": r.broker_id}
        for r in registry.pending_unregister
        if isinstance(r, events.UnregisterBroker)
    ]


def name_json(key: OuterKey) -> str:
    """Return a key as the name of a JSON member, where null is a text like any other."""
    if not isinstance(key, LiveKey):
        return "null" if key is None else key
    addr = name_json(key.broker_addr)
    return addr if key.cluster_name is None else f"{key.cluster_name}|{addr}"


def version_json(version: DataVersion | None, *, five: bool) -> Json | None:
    """Return a data version as JSON; `five`: with what 5.x has more."""
    if version is None:
        return None
    plain: Json = {"timestamp": version.timestamp, "counter": version.counter}
    return {**plain, "stateVersion": version.state_version} if five else plain


def group_json(name: str | None, group: BrokerData, *, five: bool) -> Json:
    """Return a group as JSON; `five`: with what 5.x has more."""
    plain: Json = {
        "cluster": group.cluster_name,
        "brokerName": name,
        "brokerAddrs": {str(broker_id): addr for broker_id, addr in group.broker_addrs},
    }
    return {**plain, "enableActingMaster": group.enable_acting_master, "zoneName": group.zone_name} if five else plain


def queue_json(name: str | None, data: QueueData) -> Json:
    """Return queue data as JSON."""
    return {
        "brokerName": name,
        "readQueueNums": data.read_queue_nums,
        "writeQueueNums": data.write_queue_nums,
        "perm": data.perm,
        "topicSysFlag": data.topic_sys_flag,
    }


def _live_json(registry: Registry, key: LiveKey, *, five: bool) -> Json:
    live = registry.broker_live_table[key]
    plain: Json = {
        "lastUpdateTimestamp": registry.last_update_ms[key],
        "dataVersion": version_json(live.data_version, five=five),
        "channel": live.channel_id,
        "haServerAddr": live.ha_server_addr,
    }
    return {**plain, "heartbeatTimeoutMillis": live.heartbeat_timeout_ms} if five else plain


def mapping_json(info: TopicQueueMappingInfo) -> Json:
    """Return a logical queue mapping as JSON."""
    return {
        "topic": info.topic,
        "totalQueues": info.total_queues,
        "bname": info.bname,
        "epoch": info.epoch,
        "dirty": info.dirty,
    }


# What a table holds under one key.
_ROWS: dict[TableName, Callable[[Registry, Any], object]] = {
    "broker_addr_table": lambda registry, name: group_json(
        name, registry.broker_addr_table[name], five=registry.profile.live_key_has_cluster
    ),
    "broker_live_table": lambda registry, key: _live_json(registry, key, five=registry.profile.live_key_has_cluster),
    "cluster_addr_table": lambda registry, cluster: sorted(map(name_json, registry.cluster_addr_table[cluster])),
    "filter_server_table": lambda registry, key: list(registry.filter_server_table[key]),
    "kv_config_table": lambda registry, namespace: {
        key: value.text for key, value in registry.kv_config_table[namespace].items()
    },
    "topic_queue_mapping_info_table": lambda registry, topic: {
        name_json(bname): mapping_json(info) for bname, info in registry.topic_queue_mapping_info_table[topic].items()
    },
    "topic_queue_table": lambda registry, topic: {
        name_json(name): queue_json(name, data) for name, data in registry.topic_queue_table[topic].items()
    },
}
