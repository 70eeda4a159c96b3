"""A registry at an instant as a file: what a recording that begins mid-life can start from.

One JSON object: `format` ("namesrv-snapshot/1"), `namesrv_id`, `profile` (4.9.7 or 5.4.0), `time` (ISO 8601, UTC), and
`state`, the whole state in the canonical form of event traces (`trace_json.state_of`). `kvConfig` may be absent: then
the KV table is not known. Files come from outside: every value is checked, and the error says where it is.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from namesrv_core.history.registry_json import state_of
from namesrv_core.machine.events import StateKnown
from namesrv_core.machine.profile import PROFILES, Profile
from namesrv_core.machine.registry import Change, Registry
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
    reader = _State(top.node("state"), five=profile.live_key_has_cluster)
    live = dict(reader.live())
    event = StateKnown(
        profile.name,
        tuple(reader.changes()),
        tuple((key, beat_ms) for key, (_, beat_ms) in live.items()),
        knows_kv="kvConfig" in reader.state.fields(),
    )
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


class _Node:
    """A value of the file and where it stands."""

    def __init__(self, value: object, path: str) -> None:
        self.value, self.path = value, path

    def fields(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return self.value

    def node(self, name: str) -> _Node:
        fields = self.fields()
        if name not in fields:
            raise SnapshotError(f"{self.path}.{name} is missing")
        return _Node(fields[name], f"{self.path}.{name}")

    def nodes(self, name: str) -> Iterator[tuple[str, _Node]]:
        """Yield the entries of the object under `name`; none if it is absent."""
        if name in self.fields():
            for key in (table := self.node(name)).fields():
                yield key, table.node(key)

    def items(self) -> list[_Node]:
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        return [_Node(item, f"{self.path}[{number}]") for number, item in enumerate(self.value)]

    def as_text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong("a text")
        return self.value

    def text(self, name: str) -> str:
        return self.node(name).as_text()

    def text_or_none(self, name: str) -> str | None:
        return None if self.fields().get(name) is None else self.text(name)

    def integer(self, name: str) -> int:
        node = self.node(name)
        if type(node.value) is not int or not -_LONG <= node.value < _LONG:
            raise node.wrong("a 64-bit integer")
        return node.value

    def flag(self, name: str) -> bool:
        node = self.node(name)
        if not isinstance(node.value, bool):
            raise node.wrong("true or false")
        return node.value

    def wrong(self, expected: str) -> SnapshotError:
        return SnapshotError(f"{self.path} is {json.dumps(self.value)[:60]}, expected {expected}")


class _State:
    """The tables of a state, as changes of an empty registry."""

    def __init__(self, state: _Node, *, five: bool) -> None:
        self.state, self.five = state, five

    def changes(self) -> Iterator[Change]:
        """Yield a change for each row."""
        yield from self._routes()
        for key, (live, _) in self.live():
            yield Change("broker_live_table", key, live)
        for name, servers in self.state.nodes("filterServerTable"):
            yield Change("filter_server_table", self._key(name), tuple(server.as_text() for server in servers.items()))
        for namespace, entries in self.state.nodes("kvConfig"):
            yield Change("kv_config_table", (namespace, None), KvValue(None))
            for key_name in entries.fields():
                yield Change("kv_config_table", (namespace, key_name), KvValue(entries.text_or_none(key_name)))

    def _routes(self) -> Iterator[Change]:
        for name, group in self.state.nodes("brokerAddrTable"):
            yield Change("broker_addr_table", (name,), self._group(group))
        for cluster, names in self.state.nodes("clusterAddrTable"):
            for member in names.items():
                yield Change("cluster_addr_table", (cluster, member.as_text()), value=True)
        for topic, table in self.state.nodes("topicQueueTable"):
            for name in table.fields():
                yield Change("topic_queue_table", (topic, name), _queue_data(table.node(name)))
        for topic, mappings in self.state.nodes("topicQueueMappingInfoTable"):
            for bname in mappings.fields():
                yield Change("topic_queue_mapping_info_table", (topic, bname), _mapping(mappings.node(bname)))

    def live(self) -> Iterator[tuple[LiveKey, tuple[BrokerLiveInfo, int]]]:
        """Yield the live entries with their lastUpdateTimestamp."""
        for name, entry in self.state.nodes("brokerLiveTable"):
            timeout = entry.integer("heartbeatTimeoutMillis") if self.five else 120_000
            live = BrokerLiveInfo(
                self._version(entry),
                timeout,
                entry.text_or_none("channel") or UNRECORDED,
                entry.text_or_none("haServerAddr"),
                entry.text_or_none("brokerName"),
            )
            yield self._key(name), (live, entry.integer("lastUpdateTimestamp"))

    def _key(self, name: str) -> LiveKey:
        if not self.five:
            return LiveKey(None, name)
        cluster, bar, addr = name.rpartition("|")
        if not bar:
            raise SnapshotError(f"snapshot.state: live key {name!r}, expected cluster|address")
        return LiveKey(cluster, addr)

    def _group(self, group: _Node) -> BrokerData:
        addrs = group.node("brokerAddrs")
        members = []
        for broker_id in addrs.fields():
            if not (broker_id.isascii() and broker_id.isdigit() and len(broker_id) < 19):
                raise SnapshotError(f"{addrs.path}: broker id {broker_id[:30]!r}, expected a number")
            members.append((int(broker_id), addrs.text(broker_id)))
        acting = group.flag("enableActingMaster") if self.five else False
        return BrokerData(group.text_or_none("cluster"), tuple(members), acting, group.text_or_none("zoneName"))

    def _version(self, entry: _Node) -> DataVersion | None:
        if entry.fields().get("dataVersion") is None:
            return None
        version = entry.node("dataVersion")
        counter = None if version.fields().get("counter") is None else version.integer("counter")
        return DataVersion(version.integer("stateVersion") if self.five else 0, version.integer("timestamp"), counter)


def _queue_data(queue: _Node) -> QueueData:
    names = ("readQueueNums", "writeQueueNums", "perm", "topicSysFlag")
    return QueueData(*(queue.integer(name) for name in names))


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
