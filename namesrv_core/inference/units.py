"""Units: brokers that share nothing with the others, and what answers say of one such unit alone.

Broker names, addresses and connections that meet in an event, or in the registry, belong to one unit. What happens to a
unit is told without the others: by the events that concern it, on a registry that holds its rows only, and by its part of
each answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from namesrv_core.asking.body_json import read_json
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer, Question, RequestCode, ResponseCode
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.machine.rows import KvValue
from namesrv_core.replay.loop import TimedEvent

Node = tuple[str, str | None]
"""A kind (name, addr, channel) and what is called so."""
_SEEN = (events.AnswerObserved, events.ResponseObserved)


class Unit(NamedTuple):
    """Brokers that belong together. `topics`: what they ever register; `own_topics`: what no other unit does."""

    names: frozenset[str | None]
    addrs: frozenset[str | None]
    channels: frozenset[str | None]
    topics: frozenset[str | None]
    own_topics: frozenset[str | None]

    def concerns(self, event: events.Event) -> bool:
        """Return whether an event may do something to the unit: one of its own does, and one that names no broker."""
        nodes = nodes_of(event)
        return any(map(self._has, nodes)) if nodes else not isinstance(event, _SEEN)

    def _has(self, node: Node) -> bool:
        kind, value = node
        return value in {"name": self.names, "addr": self.addrs, "channel": self.channels}[kind]

    def own(self, registry: Registry) -> Registry:
        """Return a registry with the rows of this unit, and KV entries; all of it is taken to be known."""
        own = Registry(registry.profile)
        rows: list[Change] = []
        for namespace, values in registry.kv_config_table.java_items():
            rows.append(Change("kv_config_table", (namespace, None), KvValue(None)))
            rows += [Change("kv_config_table", (namespace, key), value) for key, value in values.java_items()]
        for name in self.names:
            for topic in registry.topic_queue_table.topics_of_name(name):
                rows.append(Change("topic_queue_table", (topic, name), registry.queue_data(topic, name)))
            for cluster in registry.cluster_addr_table.clusters_of_name(name):
                rows.append(Change("cluster_addr_table", (cluster, name), value=True))
            rows.append(Change("broker_addr_table", (name,), registry.broker_addr_table.get(name)))
        for topic, mappings in registry.topic_queue_mapping_info_table.items():
            for name in self.names.intersection(mappings):
                rows.append(Change("topic_queue_mapping_info_table", (topic, name), mappings[name]))
        for key, live in registry.broker_live_table.items():
            if key.broker_addr in self.addrs:
                rows.append(Change("broker_live_table", key, live))
        for key, servers in registry.filter_server_table.items():
            if key.broker_addr in self.addrs:
                rows.append(Change("filter_server_table", key, servers))
        own.apply(rows, 0, registry.last_update_ms)
        own.pending_unregister, own.scan_halted = registry.pending_unregister, registry.scan_halted
        return own

    def part_of(self, question: Question | events.Event, answered: Answer) -> str | None:
        """Return what an answer says of this unit, for comparisons; None: it says nothing, or nothing of it alone."""
        if not isinstance(question, Question):
            if not any(map(self._has, nodes_of(question))):
                return None
            is_registration = isinstance(question, events.RegisterBroker)  # its body shows KV entries
            return repr((answered.code, answered.fields, None if is_registration else answered.body))
        try:
            return self._shown(question, answered)
        except (ValueError, KeyError, TypeError, AttributeError):  # a body that is no answer to the question
            return None

    def _shown(self, question: Question, answered: Answer) -> str | None:
        code = question.code
        whole = answered.code, answered.body
        if code in (RequestCode.GET_KV_CONFIG, RequestCode.GET_KVLIST_BY_NAMESPACE):
            return repr(whole)
        if code == RequestCode.GET_BROKER_MEMBER_GROUP:
            return repr(whole) if question.subject in self.names else None
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            if question.subject not in self.topics or question.scope:
                return None
            if answered.code == ResponseCode.TOPIC_NOT_EXIST:
                return "{}"
        if answered.code != ResponseCode.SUCCESS or answered.body is None:
            return None
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            body = read_json(answered.body)
            servers, mappings = body.get("filterServerTable") or {}, body.get("topicQueueMappingByBroker") or {}
            part = {
                "brokerDatas": [group for group in body["brokerDatas"] if group["brokerName"] in self.names],
                "queueDatas": [data for data in body["queueDatas"] if data["brokerName"] in self.names],
                "filterServerTable": {addr: given for addr, given in servers.items() if addr in self.addrs},
                "mappings": {name: mapping for name, mapping in mappings.items() if name in self.names},
            }
        elif code == RequestCode.GET_BROKER_CLUSTER_INFO:
            body = read_json(answered.body)
            clusters = {
                cluster: sorted(map(str, self.names.intersection(names)))
                for cluster, names in body["clusterAddrTable"].items()
            }
            groups = {name: group for name, group in body["brokerAddrTable"].items() if name in self.names}
            part = {
                "brokerAddrTable": groups,
                "clusterAddrTable": {cluster: names for cluster, names in clusters.items() if names},
            }
        elif code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
            part = {"topicList": list(self.own_topics.intersection(read_json(answered.body)["topicList"]))}
        else:
            return None
        # Whatever the order of its lists.
        return _sorted({k: sorted(map(_sorted, of)) if isinstance(of, list) else of for k, of in part.items() if of})


def _sorted(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def unit_around(registry: Registry, met: Iterable[Node], timed_events: Sequence[TimedEvent]) -> Unit:
    """Return the unit of some brokers as a registry has them, with what meets them in the events after it."""
    nodes, edges = set(met), {nodes_of(timed.event) for timed in timed_events}
    for name, group in registry.broker_addr_table.items():
        edges.add(frozenset({("name", name), *(("addr", addr) for _, addr in group.broker_addrs)}))
    for key, live in registry.broker_live_table.items():
        edges.add(frozenset({("addr", key.broker_addr), ("channel", live.channel_id)} - {("channel", None)}))
    while joined := {node for edge in edges if not edge.isdisjoint(nodes) for node in edge} - nodes:
        nodes |= joined
    names, addrs, channels = (
        frozenset(value for kind, value in nodes if kind == wanted) for wanted in ("name", "addr", "channel")
    )
    topics = {topic for name in names for topic in registry.topic_queue_table.topics_of_name(name)}
    others = set[str | None]()
    registered = (timed.event for timed in timed_events if isinstance(timed.event, events.RegisterBroker))
    # Each table of topics once: most registrations bring the same.
    tables = {(id(one.topics), one.broker_name in names): one.topics for one in registered if one.topics is not None}
    for (_, is_own), table in tables.items():
        (topics if is_own else others).update(table.names)
    own = {t for t in topics if t not in others and names.issuperset(registry.topic_queue_table.names_of_topic(t))}
    return Unit(names, addrs, channels, frozenset(topics), frozenset(own))


def nodes_of(event: events.Event) -> frozenset[Node]:
    """Return the broker names, addresses and connections that an event mentions."""
    if isinstance(event, events.RefreshRun):
        event = event.beat
    if isinstance(event, events.RegisterTopic):
        return frozenset(("name", name) for name, _ in event.queue_datas or ())
    fields = (("name", "broker_name"), ("addr", "broker_addr"), ("channel", "channel_id"))
    found = {(kind, getattr(event, field)) for kind, field in fields if hasattr(event, field)}
    if isinstance(event, events.ChannelDestroyed):
        found.add(("addr", event.remote_addr))  # 4.x takes it for a broker's
    return frozenset(found - {("channel", None)})
