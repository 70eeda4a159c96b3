"""Canonical JSON of a registry and of what its events return, as event traces write it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from namesrv_core import events
from namesrv_core.draft import Notification
from namesrv_core.registry import Registry
from namesrv_core.rows import BrokerData, DataVersion, LiveKey, QueueData, TopicQueueMappingInfo

Json = dict[str, Any]


def state_hash(st: Json) -> str:
    """Return the first 16 hex digits of the SHA-256 of a state's canonical JSON."""
    text = json.dumps(st, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()[:16]


def state_of(registry: Registry) -> Json:
    """Return all tables of `registry` as plain JSON values, orders normalised."""
    five = registry.profile.live_key_has_cluster
    st: Json = {
        "clusterAddrTable": {_name(c): sorted(map(_name, names)) for c, names in registry.cluster_addr_table.items()},
        "brokerAddrTable": {
            _name(name): group_json(name, group, five=five) for name, group in registry.broker_addr_table.items()
        },
        "topicQueueTable": {
            _name(topic): {_name(name): queue_json(name, data) for name, data in table.items()}
            for topic, table in registry.topic_queue_table.items()
        },
        "brokerLiveTable": {live_name(key): _live_json(registry, key, five=five) for key in registry.broker_live_table},
        "filterServerTable": {live_name(key): list(v) for key, v in registry.filter_server_table.items()},
        "kvConfig": {ns: {k: v.text for k, v in entries.items()} for ns, entries in registry.kv_config_table.items()},
    }
    if five:
        st["topicQueueMappingInfoTable"] = {
            topic: {bname: mapping_json(info) for bname, info in table.items()}
            for topic, table in registry.topic_queue_mapping_info_table.items()
        }
        st["pendingUnregister"] = [
            {"cluster": r.cluster_name, "addr": r.broker_addr, "name": r.broker_name, "id": r.broker_id}
            for r in registry.pending_unregister
            if isinstance(r, events.UnregisterBroker)
        ]
    return st


def _name(name: str | None) -> str:
    """Return a name as the key of a JSON object, where null is a text like any other."""
    return "null" if name is None else name


def live_name(key: LiveKey) -> str:
    """Return the key of a live entry as the key of a JSON object."""
    addr = _name(key.broker_addr)
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


def notification_json(notification: Notification) -> Json:
    """Return a notification as JSON, with its request code."""
    return {
        "to": notification.to,
        "code": 905,
        "minBrokerId": notification.min_broker_id,
        "minBrokerAddr": notification.min_broker_addr,
        "offlineBrokerAddr": notification.offline_broker_addr,
        "haBrokerAddr": notification.ha_broker_addr,
        "brokerName": None,
    }
