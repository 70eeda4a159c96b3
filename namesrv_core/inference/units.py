"""Units: brokers that share nothing with the others, and what answers say of one such unit alone.

Broker names, addresses and connections that meet in an event, or in the registry, belong to one unit. What happens to a
unit is told without the others: by the events that concern it, on a registry that holds its rows only, and by its part of
each answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from namesrv_core.asking.body_json import read_json
from namesrv_core.machine import events
from namesrv_core.machine.codes import RequestCode, ResponseCode
from namesrv_core.machine.question import Answer, Question
from namesrv_core.machine.registry import Change, Registry, TableName
from namesrv_core.replay.loop import TimedEvent

_Node = tuple[str, str | None]  # a kind (name, addr, channel) and what is called so
_NO_ROWS = "{}"
_NOBODYS = (events.AnswerObserved, events.ResponseObserved, events.PutKvConfig, events.DeleteKvConfig)


class Unit(NamedTuple):
    """Brokers that belong together. `topics`: what they ever register; `own_topics`: what no other unit does."""

    names: frozenset[str | None]
    addrs: frozenset[str | None]
    channels: frozenset[str | None]
    topics: frozenset[str | None]
    own_topics: frozenset[str | None]

    def concerns(self, event: events.Event) -> bool:
        """Return whether an event may do something to the unit: one of its own does, and one that names no broker."""
        node = next(_nodes(event), None)
        if node is None:
            return type(event) not in _NOBODYS
        kind, value = node
        return value in {"name": self.names, "addr": self.addrs, "channel": self.channels}[kind]

    def own(self, registry: Registry) -> Registry:
        """Return a registry with the rows of this unit, and KV entries; all of it is taken to be known."""
        twin = registry.copy()
        twin.past = None
        twin.apply([Change(table, key, None) for table, key in _rows(registry) if not self._has(table, key)], 0)
        return twin

    def _has(self, table: TableName, key: tuple[str | None, ...]) -> bool:
        if table in ("broker_live_table", "filter_server_table"):
            return key[1] in self.addrs
        return key[-1] in self.names

    def part_of(self, question: Question | events.Event, answered: Answer) -> str | None:
        """Return what an answer says of this unit, for comparisons; None: it says nothing, or nothing of it alone."""
        if not isinstance(question, Question):
            if not self.concerns(question) or next(_nodes(question), None) is None:
                return None
            is_registration = isinstance(question, events.RegisterBroker)  # its body shows KV entries
            return repr((answered.code, answered.fields, None if is_registration else answered.body))
        try:
            return self._shown(question, answered)
        except (ValueError, KeyError, TypeError, AttributeError):  # a body that is no answer to the question
            return None

    def _shown(self, question: Question, answered: Answer) -> str | None:
        code = question.code
        if code == RequestCode.GET_BROKER_MEMBER_GROUP:
            return repr((answered.code, answered.body)) if question.subject in self.names else None
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC and (question.subject not in self.topics or question.scope):
            return None
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC and answered.code == ResponseCode.TOPIC_NOT_EXIST:
            return _NO_ROWS
        reads = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._listed,
        }
        if answered.code != ResponseCode.SUCCESS or answered.body is None or code not in reads:
            return None
        return _text(reads[RequestCode(code)](read_json(answered.body)))

    def _listed(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"topicList": list(self.own_topics.intersection(body["topicList"]))}

    def _route(self, body: dict[str, Any]) -> dict[str, Any]:
        servers, mappings = body.get("filterServerTable") or {}, body.get("topicQueueMappingByBroker") or {}
        return {
            "brokerDatas": [group for group in body["brokerDatas"] if group["brokerName"] in self.names],
            "queueDatas": [data for data in body["queueDatas"] if data["brokerName"] in self.names],
            "filterServerTable": {addr: given for addr, given in servers.items() if addr in self.addrs},
            "mappings": {name: mapping for name, mapping in mappings.items() if name in self.names},
        }

    def _cluster(self, body: dict[str, Any]) -> dict[str, Any]:
        clusters = {
            cluster: sorted(map(str, self.names.intersection(names)))
            for cluster, names in body["clusterAddrTable"].items()
        }
        return {
            "brokerAddrTable": {name: group for name, group in body["brokerAddrTable"].items() if name in self.names},
            "clusterAddrTable": {cluster: names for cluster, names in clusters.items() if names},
        }


def _text(part: dict[str, Any]) -> str:
    """Return the text of a part, whatever the order of its lists."""
    lists = {
        key: sorted(map(_sorted, value)) if isinstance(value, list) else value for key, value in part.items() if value
    }
    return _sorted(lists)


def _sorted(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def units_of(registry: Registry, timed_events: Sequence[TimedEvent]) -> list[Unit]:
    """Return the units of the brokers that stand in a registry or register."""
    topics: dict[str | None, set[str | None]] = {}
    for topic, rows in registry.topic_queue_table.java_items():
        topics.setdefault(topic, set()).update(rows.java_keys())
    for timed in timed_events:
        if isinstance(timed.event, events.RegisterBroker) and timed.event.topics is not None:
            for topic in timed.event.topics.names:
                topics.setdefault(topic, set()).add(timed.event.broker_name)
    found = []
    for nodes in _together(_edges(registry, timed_events)):
        names, addrs, channels = (
            frozenset(value for kind, value in nodes if kind == wanted) for wanted in ("name", "addr", "channel")
        )
        served = frozenset(topic for topic, of in topics.items() if of & names)
        own = frozenset(topic for topic in served if topics[topic] <= names)
        if names:
            found.append(Unit(names, addrs, channels, served, own))
    return found


def _edges(registry: Registry, timed_events: Iterable[TimedEvent]) -> Iterator[list[_Node]]:
    """Yield what belongs together: what an event mentions, a group, a live entry and its connection."""
    yield from (list(_nodes(timed.event)) for timed in timed_events)
    for name, group in registry.broker_addr_table.java_items():
        yield [("name", name), *(("addr", addr) for _, addr in group.broker_addrs)]
    for key, live in registry.broker_live_table.java_items():
        yield [("addr", key.broker_addr), ("channel", live.channel_id)]


def _together(edges: Iterable[Sequence[_Node]]) -> Iterable[set[_Node]]:
    """Return the connected components."""
    found: dict[_Node, set[_Node]] = {}
    for edge in edges:
        joined = {node for met in edge for node in found.get(met, {met})}
        found.update(dict.fromkeys(joined, joined))
    return {id(nodes): nodes for nodes in found.values()}.values()


def _nodes(event: events.Event) -> Iterator[_Node]:
    """Yield the broker names, addresses and connections that an event mentions."""
    if isinstance(event, events.RefreshRun):
        event = event.beat
    if isinstance(event, events.RegisterTopic):
        yield from (("name", name) for name, _ in event.queue_datas or ())
        return
    for node_kind, field in (("name", "broker_name"), ("addr", "broker_addr"), ("channel", "channel_id")):
        if hasattr(event, field):
            yield node_kind, getattr(event, field)
    if isinstance(event, events.ChannelDestroyed):
        yield "addr", event.remote_addr  # 4.x takes it for a broker's


def _rows(registry: Registry) -> Iterator[tuple[TableName, tuple[str | None, ...]]]:
    """Yield the table and key of each row that belongs to a broker."""
    for topic, rows in registry.topic_queue_table.java_items():
        yield from (("topic_queue_table", (topic, name)) for name in rows.java_keys())
    for topic, mappings in registry.topic_queue_mapping_info_table.java_items():
        yield from (("topic_queue_mapping_info_table", (topic, name)) for name in mappings.java_keys())
    for cluster, names in registry.cluster_addr_table.java_items():
        yield from (("cluster_addr_table", (cluster, name)) for name in names.java_keys())
    yield from (("broker_addr_table", (name,)) for name in registry.broker_addr_table.java_keys())
    yield from (("broker_live_table", key) for key in registry.broker_live_table.java_keys())
    yield from (("filter_server_table", key) for key in registry.filter_server_table.java_keys())
