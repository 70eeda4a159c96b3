"""A registry at an instant as a file: what a recording that begins mid-life can start from.

One JSON object: `format` ("namesrv-snapshot/1"), `namesrv_id`, `profile` (4.9.7 or 5.4.0), `time` (ISO 8601, UTC), and
`state`, the whole state in the canonical form of event traces (`state_of`). `kvConfig` may be absent: then
the KV table is not known. Files come from outside: every value is checked, and the error says where it is.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from namesrv_core.machine import events
from namesrv_core.machine.events import StateKnown
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS, PROFILES, Profile
from namesrv_core.machine.registry import Change, Registry, TableName
from namesrv_core.machine.rows import (
    UNRECORDED,
    BrokerData,
    BrokerLiveInfo,
    DataVersion,
    KvValue,
    LiveKey,
    QueueData,
    TopicQueueMappingInfo,
)

FORMAT = "namesrv-snapshot/1"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_LONG = 1 << 63
_T = TypeVar("_T")


class SnapshotError(ValueError):
    """A text that is not a snapshot; the message says what is wrong where."""


class Snapshot(NamedTuple):
    """A snapshot as read: whose state, when (microseconds since the epoch), and the event that restores it."""

    namesrv_id: str
    profile: Profile
    at_us: int
    event: StateKnown


def snapshot_text(registry: Registry, namesrv_id: str, at_us: int, *, with_kv: bool = True) -> str:
    """Return `registry` as a snapshot. `with_kv` False: the KV table is not known and left out."""
    state = state_of(registry)
    if not with_kv:
        del state["kvConfig"]
    time = (_EPOCH + dt.timedelta(microseconds=at_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")
    value = {"format": FORMAT, "namesrv_id": namesrv_id, "profile": registry.profile.name, "time": time, "state": state}
    return json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1) + "\n"


def snapshot_of(text: str) -> Snapshot:
    """Return the snapshot in `text`. Raises SnapshotError."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"not JSON: {error}") from error
    top = _Node(value, "snapshot")
    if top.text("format") != FORMAT:
        raise SnapshotError(f"snapshot.format is {value['format']!r}, expected {FORMAT!r}")
    name = top.text("profile")
    if name not in PROFILES:
        raise SnapshotError(f"snapshot.profile is {name!r}, expected one of {', '.join(PROFILES)}")
    profile = PROFILES[name]
    state, five = top.node("state"), profile.live_key_has_cluster
    live = dict(_live(state, five=five))
    beats = tuple((key, beat_ms) for key, (_, beat_ms) in live.items())
    changes = tuple(_changes(state, live, five=five))
    event = StateKnown(profile.name, changes, beats, knows_kv="kvConfig" in state.of(dict))
    return Snapshot(top.text("namesrv_id"), profile, _instant_us(top.text("time")), event)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON value")


def _instant_us(text: str) -> int:
    try:
        time = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise SnapshotError(f"snapshot.time is {text!r}, expected ISO 8601 such as 2026-11-21T09:00:00Z") from error
    if time.tzinfo is None:
        raise SnapshotError(f"snapshot.time is {text!r}, expected a time zone, such as Z")
    return (time - _EPOCH) // dt.timedelta(microseconds=1)


_KINDS = {dict: "an object", list: "a list", str: "a text", int: "a 64-bit integer", bool: "true or false"}


class _Node:
    """A value of the file and where it stands."""

    def __init__(self, value: object, path: str) -> None:
        self.value, self.path = value, path

    def of(self, kind: type[_T]) -> _T:
        """Return the value, which must be of this kind."""
        if type(self.value) is not kind or (isinstance(self.value, int) and not -_LONG <= self.value < _LONG):
            raise self.wrong(_KINDS[kind])
        return self.value

    def node(self, name: str) -> _Node:
        fields = self.of(dict)
        if name not in fields:
            raise SnapshotError(f"{self.path}.{name} is missing")
        return _Node(fields[name], f"{self.path}.{name}")

    def nodes(self, name: str) -> Iterator[tuple[str, _Node]]:
        """Yield the entries of the object under `name`; none if it is absent."""
        if name in self.of(dict):
            for key in (table := self.node(name)).of(dict):
                yield key, table.node(key)

    def items(self) -> list[_Node]:
        return [_Node(item, f"{self.path}[{number}]") for number, item in enumerate(self.of(list))]

    def text(self, name: str) -> str:
        return self.node(name).of(str)

    def text_or_none(self, name: str) -> str | None:
        return None if self.of(dict).get(name) is None else self.text(name)

    def integer(self, name: str) -> int:
        return self.node(name).of(int)

    def flag(self, name: str) -> bool:
        return self.node(name).of(bool)

    def wrong(self, expected: str) -> SnapshotError:
        return SnapshotError(f"{self.path} is {json.dumps(self.value)[:60]}, expected {expected}")


def _changes(state: _Node, live: Mapping[LiveKey, tuple[BrokerLiveInfo, int]], *, five: bool) -> Iterator[Change]:
    """Yield a change of an empty registry for each row of a state."""
    for name, group in state.nodes("brokerAddrTable"):
        addrs = group.node("brokerAddrs")
        members = []
        for broker_id in addrs.of(dict):
            if not (broker_id.isascii() and broker_id.isdigit() and len(broker_id) < 19):
                raise SnapshotError(f"{addrs.path}: broker id {broker_id[:30]!r}, expected a number")
            members.append((int(broker_id), addrs.text(broker_id)))
        acting = group.flag("enableActingMaster") if five else False
        row = BrokerData(group.text_or_none("cluster"), tuple(members), acting, group.text_or_none("zoneName"))
        yield Change("broker_addr_table", (name,), row)
    for cluster, names in state.nodes("clusterAddrTable"):
        for member in names.items():
            yield Change("cluster_addr_table", (cluster, member.of(str)), value=True)
    for topic, table in state.nodes("topicQueueTable"):
        for name in table.of(dict):
            numbers = map(table.node(name).integer, ("readQueueNums", "writeQueueNums", "perm", "topicSysFlag"))
            yield Change("topic_queue_table", (topic, name), QueueData(*numbers))
    for topic, mappings in state.nodes("topicQueueMappingInfoTable"):
        for bname in mappings.of(dict):
            yield Change("topic_queue_mapping_info_table", (topic, bname), _mapping(mappings.node(bname)))
    for key, (info, _) in live.items():
        yield Change("broker_live_table", key, info)
    for name, servers in state.nodes("filterServerTable"):
        yield Change("filter_server_table", _key(name, five=five), tuple(one.of(str) for one in servers.items()))
    for namespace, entries in state.nodes("kvConfig"):
        yield Change("kv_config_table", (namespace, None), KvValue(None))
        for name in entries.of(dict):
            yield Change("kv_config_table", (namespace, name), KvValue(entries.text_or_none(name)))


def _live(state: _Node, *, five: bool) -> Iterator[tuple[LiveKey, tuple[BrokerLiveInfo, int]]]:
    """Yield the live entries with their lastUpdateTimestamp."""
    for name, entry in state.nodes("brokerLiveTable"):
        version = None
        if entry.of(dict).get("dataVersion") is not None:
            told = entry.node("dataVersion")
            counter = None if told.of(dict).get("counter") is None else told.integer("counter")
            version = DataVersion(told.integer("stateVersion") if five else 0, told.integer("timestamp"), counter)
        info = BrokerLiveInfo(
            version,
            entry.integer("heartbeatTimeoutMillis") if five else BROKER_CHANNEL_EXPIRED_MS,
            entry.text_or_none("channel") or UNRECORDED,
            entry.text_or_none("haServerAddr"),
            entry.text_or_none("brokerName"),
        )
        yield _key(name, five=five), (info, entry.integer("lastUpdateTimestamp"))


def _key(name: str, *, five: bool) -> LiveKey:
    if not five:
        return LiveKey(None, name)
    cluster, bar, addr = name.rpartition("|")
    if not bar:
        raise SnapshotError(f"snapshot.state: live key {name!r}, expected cluster|address")
    return LiveKey(cluster, addr)


def _mapping(mapping: _Node) -> TopicQueueMappingInfo:
    found = TopicQueueMappingInfo(
        mapping.text("topic"),
        mapping.text_or_none("bname"),
        mapping.integer("totalQueues"),
        mapping.integer("epoch"),
        mapping.flag("dirty"),
        mapping.text_or_none("scope"),
        mapping.text_or_none("currIdMap"),
    )
    try:
        _ = found.queue_ids
    except ValueError as error:
        raise mapping.node("currIdMap").wrong("a JSON object of queue ids") from error
    return found


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
