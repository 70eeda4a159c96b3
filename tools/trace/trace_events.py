"""Events of a trace, from JSON values to events of the core; whatever has another form than it should is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from namesrv_core.machine import events
from namesrv_core.machine.tables import DataVersion, QueueData, TopicConfig, TopicQueueMappingInfo, TopicTable

V = TypeVar("V")
Fields = Mapping[str, Any]

_GLOBAL_SCOPE = "__global__"  # what a mapping has that names no scope: MixAll.METADATA_SCOPE_GLOBAL


def event_of(op: str, ev: Fields, remotes: Mapping[str, str]) -> events.Event:
    """Return the event that `ev` describes; `remotes` are the addresses of channels that it may name.

    Raises KeyError for an unknown operation or a missing field, TypeError and ValueError for a field of another type or
    beyond Java's range.
    """
    return _EVENTS[op](ev, remotes)


def text(fields: Fields, name: str) -> str | None:
    """Return a text that may be missing or null."""
    return _optional(fields, name, str)


def flag(fields: Fields, name: str) -> bool | None:
    """Return a truth value that may be missing or null."""
    return _optional(fields, name, bool)


def integer(fields: Fields, name: str, bits: int = 64) -> int:
    """Return a number that Java holds in `bits` bits."""
    value = fields[name]
    if type(value) is not int:
        raise TypeError(f"{name} is {value!r}, expected an integer")
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"{name} needs more than {bits} bits")
    return value


def members(fields: Fields, name: str) -> Mapping[str, Any]:
    """Return an object; an empty one if it is missing or null."""
    return _optional(fields, name, dict) or {}


def _optional(fields: Fields, name: str, kind: type[V]) -> V | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}, expected {kind.__name__} or null")
    return value


def _optional_integer(fields: Fields, name: str) -> int | None:
    return None if fields.get(name) is None else integer(fields, name)


def _texts(fields: Fields, name: str) -> tuple[str, ...] | None:
    values = _optional(fields, name, list)
    if values is None:
        return None
    if not all(isinstance(value, str) for value in values):
        raise TypeError(f"{name} is {values!r}, expected texts")
    return tuple(values)


def _version(ev: Fields) -> DataVersion | None:
    if ev.get("dv") is None:
        return None
    dv = members(ev, "dv")
    return DataVersion(_optional_integer(dv, "state") or 0, integer(dv, "ts"), _optional_integer(dv, "counter"))


def _topics(ev: Fields) -> TopicTable | None:
    mapping = members(ev, "mapping")
    if _optional(ev, "topics", list) is None:
        return None
    return _topic_table(json.dumps([ev["topics"], mapping]))


@lru_cache(maxsize=1 << 10)
def _topic_table(written: str) -> TopicTable:
    """Return the table of `[topics, mapping]`; brokers send the same one again and again."""
    topics, mapping = json.loads(written)
    configs = [TopicConfig(_required_text(topic, "name"), *_queue_data(topic)) for topic in topics]
    infos = [
        TopicQueueMappingInfo(
            topic, text(info, "bname"), integer(info, "totalQueues", 32), integer(info, "epoch"), scope=_GLOBAL_SCOPE
        )
        for topic, info in mapping.items()
    ]
    return TopicTable(configs, infos)


def _required_text(fields: Fields, name: str) -> str:
    value = text(fields, name)
    if value is None:
        raise TypeError(f"{name} is null, expected a text")
    return value


def _queue_data(fields: Fields) -> QueueData:
    return QueueData(*(integer(fields, name, 32) for name in ("r", "w", "perm", "sys")))


def _register(ev: Fields, _: Mapping[str, str]) -> events.RegisterBroker:
    return events.RegisterBroker(
        text(ev, "cluster"),
        text(ev, "addr"),
        text(ev, "name"),
        integer(ev, "id"),
        text(ev, "ha"),
        _version(ev),
        _topics(ev),
        _texts(ev, "filters"),
        text(ev, "ch"),
        flag(ev, "acting"),
        _optional_integer(ev, "timeout"),
        text(ev, "zone"),
    )


def _unregister(ev: Fields, _: Mapping[str, str]) -> events.UnregisterBroker:
    return events.UnregisterBroker(
        text(ev, "cluster"), text(ev, "addr"), text(ev, "name"), integer(ev, "id"), bool(flag(ev, "defer"))
    )


def _register_topic(ev: Fields, _: Mapping[str, str]) -> events.RegisterTopic:
    queues = _optional(ev, "queues", list)
    if queues is None:
        return events.RegisterTopic(text(ev, "topic"), None)
    return events.RegisterTopic(text(ev, "topic"), tuple((text(queue, "name"), _queue_data(queue)) for queue in queues))


def _channel(ev: Fields, remotes: Mapping[str, str]) -> events.ChannelDestroyed:
    channel = text(ev, "ch")
    remote = text(ev, "remote") if "remote" in ev else remotes.get(channel or "")
    return events.ChannelDestroyed(channel, remote, bool(flag(ev, "defer")))


_EVENTS: dict[str, Callable[[Fields, Mapping[str, str]], events.Event]] = {
    "restart": lambda *_: events.NamesrvStarted(),
    "register": _register,
    "unregister": _unregister,
    "drain": lambda *_: events.DrainUnregistrations(),
    "heartbeat": lambda ev, _: events.BrokerHeartbeat(text(ev, "cluster"), text(ev, "addr")),
    "query_dv": lambda ev, _: events.QueryDataVersion(text(ev, "cluster"), text(ev, "addr"), _version(ev)),
    "scan": lambda ev, _: events.ScanNotActiveBroker(bool(flag(ev, "defer"))),
    "channel_destroy": _channel,
    "wipe_perm": lambda ev, _: events.WipeWritePerm(text(ev, "name")),
    "add_perm": lambda ev, _: events.AddWritePerm(text(ev, "name")),
    "delete_topic": lambda ev, _: events.DeleteTopic(text(ev, "topic"), text(ev, "cluster")),
    "register_topic": _register_topic,
    "kv_put": lambda ev, _: events.PutKvConfig(text(ev, "ns"), text(ev, "key"), text(ev, "value")),
    "kv_delete": lambda ev, _: events.DeleteKvConfig(text(ev, "ns"), text(ev, "key")),
}
