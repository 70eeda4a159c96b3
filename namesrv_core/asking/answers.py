"""Answers of a name server: queries over its registry, codes, remarks, and JSON bodies byte for byte.

Standard JSON sorts its keys and quotes all of them. RocketMQ's own JSON (older clients, cluster info) keeps the order
of its maps and writes integer keys without quotes. Both omit nulls. The escaped characters depend on the release, up
to 5.3.x also on the dialect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple, TypeVar

from namesrv_core.asking.requests import Fields, zone_of
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer, Question, RequestCode, ResponseCode
from namesrv_core.machine.java_map import JavaMap, string_map, table_size_for
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import NULL_POINTER, Outcome, Registry, Step
from namesrv_core.machine.step import ORDER_TOPIC_CONFIG, REGISTER_FAILED, QueryDataVersionResult, RegisterResult
from namesrv_core.machine.tables import (
    MASTER_ID,
    PERM_WRITE,
    BrokerData,
    DataVersion,
    LiveKey,
    QueueData,
    TopicQueueMappingInfo,
)

SYNC_BROKER_MEMBER_GROUP_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
_UNIT_FLAG, _UNIT_SUB_FLAG = 1, 2
_V = TypeVar("_V")


class TopicRouteData(NamedTuple):
    """A route, with its lists in the order in which the name server builds them.

    `broker_datas`: groups by broker name, as `routed` returns them. `filter_server_table`: address -> list or None.
    `topic_queue_mapping_by_broker`: None if the server has no such table or entry. `order_topic_conf`: only with
    orderMessageEnable.
    """

    queue_datas: tuple[tuple[str | None, QueueData], ...]
    broker_datas: tuple[tuple[str | None, BrokerData], ...]
    filter_server_table: tuple[tuple[str | None, tuple[str, ...] | None], ...]
    order_topic_conf: str | None
    topic_queue_mapping_by_broker: tuple[tuple[str | None, TopicQueueMappingInfo], ...] | None


def pickup_topic_route_data(registry: Registry, topic: str | None, namesrv: Namesrv) -> TopicRouteData | None:
    """Return the route of `topic`; None if it is unknown or none of its broker names has a group (TOPIC_NOT_EXIST).

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.pickupTopicRouteData, and the request processors for
    orderTopicConf.
    """
    table = registry.topic_queue_table.get(topic)
    if table is None:
        return None
    queue_datas = tuple(table.java_items())
    groups = [
        (name, group)
        for name in _name_set(tuple(table.java_keys()), namesrv.profile.sized_name_set)
        if (group := registry.broker_addr_table.get(name)) is not None
    ]
    if not groups:
        return None
    servers_by_addr: JavaMap[str | None, tuple[str, ...] | None] = string_map()
    if registry.filter_server_table:
        has_cluster = namesrv.profile.live_key_has_cluster
        if has_cluster:
            broken = (any(_has_no_hash(of.cluster_name, a) for _, a in of.broker_addrs) for _, of in groups)
            groups = groups[: next((n for n, is_last in enumerate(broken, 1) if is_last), None)]
        for _, group in groups:
            cluster = group.cluster_name if has_cluster else None
            for _, addr in group.java_addrs():
                if has_cluster and _has_no_hash(cluster, addr):
                    break
                servers = registry.filter_server_table.get(LiveKey(cluster, addr))
                if servers is not None or namesrv.profile.lists_absent_filter_servers:
                    servers_by_addr.put(addr, servers)
    acts = acts_for(topic, namesrv)
    brokers = tuple((name, routed(group, table.get(name) if acts else None)) for name, group in groups)
    order_topic_conf = None
    if namesrv.config.order_message_enable:
        entry = registry.kv_config_table.row((ORDER_TOPIC_CONFIG, topic))
        order_topic_conf = None if entry is None else entry.text
    mappings = registry.topic_queue_mapping_info_table.get(topic)
    return TopicRouteData(
        queue_datas,
        brokers,
        tuple(servers_by_addr.java_items()),
        order_topic_conf,
        None if mappings is None else tuple(mappings.java_items()),
    )


def acts_for(topic: str | None, namesrv: Namesrv) -> bool:
    """Return whether routes of a topic show a slave as master if the group has none."""
    return namesrv.config.support_acting_master and not (topic or "").startswith(SYNC_BROKER_MEMBER_GROUP_PREFIX)


def within_zone(route: TopicRouteData, zone: str, *, sorted_maps: bool) -> TopicRouteData:
    """Return a route without the groups that have a master and are in another zone (names compared without case).

    Their queue data and filter servers go with them. The filter parses the route from its JSON, which fills its maps
    again: without nulls, and in the order of the keys if the JSON was sorted (`sorted_maps`).

    Source: RocketMQ 5.4.0 ZoneRouteRPCHook.
    """
    dropped = {
        name: group
        for name, group in route.broker_datas
        if MASTER_ID in group.addr_of and (group.zone_name or "").lower() != zone.lower()
    }
    gone = {addr for group in dropped.values() for _, addr in group.broker_addrs}
    mappings = route.topic_queue_mapping_by_broker
    servers = ((addr, found) for addr, found in route.filter_server_table if found is not None)
    return route._replace(
        queue_datas=tuple(entry for entry in route.queue_datas if entry[0] not in dropped),
        broker_datas=tuple(entry for entry in route.broker_datas if entry[0] not in dropped),
        filter_server_table=tuple(entry for entry in _refilled(servers, sorted_maps) if entry[0] not in gone),
        topic_queue_mapping_by_broker=None if mappings is None else _refilled(mappings, sorted_maps),
    )


def _refilled(entries: Iterable[tuple[str | None, _V]], in_order: bool) -> tuple[tuple[str | None, _V], ...]:  # noqa: FBT001
    ordered = sorted(entries, key=lambda entry: entry[0] or "") if in_order else entries
    return tuple(string_map(entries=ordered).java_items())


@lru_cache(256)
def _name_set(table: tuple[str | None, ...], is_sized: bool) -> list[str | None]:  # noqa: FBT001  hashed at each call
    """Return the topic's broker names in the order of the server's HashSet of them. The list is shared."""
    capacity = max(16, table_size_for(int(len(table) / 0.75) + 1)) if is_sized else 16
    return string_map(capacity, ((name, True) for name in table)).java_keys()


@lru_cache(4_096)
def routed(group: BrokerData, acting_for: QueueData | None) -> BrokerData:
    """Return the group as a route shows it, with its members in Java's iteration order.

    `acting_for`: the group's queue data of the topic, on a server that supports acting masters. Then the smallest id
    is shown as master if the group has none and enables acting masters, and the queue data lacks the write bit.
    """
    addrs = group.java_addrs()
    if (
        acting_for is not None
        and addrs
        and group.enable_acting_master
        and MASTER_ID not in group.addr_of
        and not acting_for.perm & PERM_WRITE
    ):
        min_id = min(group.addr_of)
        members = (*(member for member in addrs if member[0] != min_id), (MASTER_ID, group.addr_of[min_id]))
        addrs = BrokerData(group.cluster_name, members).java_addrs()
    return group._replace(broker_addrs=tuple(addrs))


def _has_no_hash(cluster_name: str | None, addr: str | None) -> bool:
    """Return whether a lookup by this live key throws in 5.x: the route then ends with that broker.

    Source: RocketMQ 5.4.0 BrokerAddrInfo.hashCode.
    """
    return cluster_name is None or (cluster_name != "" and addr is None)


def all_topic_list(registry: Registry, namesrv: Namesrv) -> list[str | None]:
    """Return all topics, in the order of the set into which the server copies them.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.getAllTopicList, TopicList.
    """
    return _topic_set(registry.topic_queue_table.java_keys(), namesrv)


def topics_by_cluster(registry: Registry, cluster_name: str | None, namesrv: Namesrv) -> list[str | None]:
    """Return the topics with queue data of a broker name in the cluster's set; an unknown cluster has none.

    Source: RocketMQ 4.9.2, 4.9.7 and 5.4.0 RouteInfoManager.getTopicsByCluster.
    """
    members = registry.cluster_addr_table.get(cluster_name)
    names = [] if members is None else members.java_keys()
    if namesrv.profile.lists_queue_data and None in names:
        names = names[: names.index(None)]  # comparing a null name with another throws
    topics = [
        topic for name in names for topic, queue_datas in registry.topic_queue_table.java_items() if name in queue_datas
    ]
    return _topic_set(topics, namesrv)


def system_topic_list(registry: Registry, namesrv: Namesrv) -> tuple[list[str | None], str | None]:
    """Return all cluster names with the names in their sets, and the first address of the first group that has one.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.getSystemTopicList.
    """
    names = [
        entry
        for cluster, members in registry.cluster_addr_table.java_items()
        for entry in (cluster, *members.java_keys())
    ]
    if namesrv.profile.topic_list == "newKeySet" and None in names:
        return _topic_set(names[: names.index(None)], namesrv), None  # the list takes no null: the query ends there
    addr = next((g.java_addrs()[0][1] for _, g in registry.broker_addr_table.java_items() if g.broker_addrs), None)
    return _topic_set(names, namesrv), addr


def unit_topic_list(registry: Registry, namesrv: Namesrv, *, unit: bool | None, sub: bool | None) -> list[str | None]:
    """Return the topics whose first queue data has the unit bit and the unit-sub bit as asked; None: either.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.getUnitTopics, .getHasUnitSubTopicList,
    .getHasUnitSubUnUnitTopicList.
    """
    topics = []
    for topic, queue_datas in registry.topic_queue_table.java_items():
        flag = queue_datas[queue_datas.java_keys()[0]].topic_sys_flag
        is_unit, is_sub = bool(flag & _UNIT_FLAG), bool(flag & _UNIT_SUB_FLAG)
        if unit in (None, is_unit) and sub in (None, is_sub):
            topics.append(topic)
    return _topic_set(topics, namesrv)


def _topic_set(topics: list[str | None], namesrv: Namesrv) -> list[str | None]:
    kind = namesrv.profile.topic_list
    if kind == "CopyOnWriteArraySet":
        return list(dict.fromkeys(topics))
    return string_map(entries=((topic, True) for topic in topics), concurrent=kind == "newKeySet").java_keys()


STANDARD_JSON_SINCE = 401
"""MQVersion ordinal of 4.9.4: clients from this version on get standard JSON without asking for it."""
ROUTE_QUESTIONS = frozenset(
    {
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    }
)
"""Questions about routes, clusters and topics."""
QUESTIONS = ROUTE_QUESTIONS | {
    RequestCode.GET_KV_CONFIG,
    RequestCode.GET_KVLIST_BY_NAMESPACE,
    RequestCode.GET_BROKER_MEMBER_GROUP,
}
"""All questions that are answered from the registry."""
_UNIT_LISTS: dict[int, tuple[bool | None, bool | None]] = {
    RequestCode.GET_UNIT_TOPIC_LIST: (True, None),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: (None, True),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (False, True),
}
_SUBJECTS = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: "topic",
    RequestCode.GET_TOPICS_BY_CLUSTER: "cluster",
    RequestCode.GET_KV_CONFIG: "key",
    RequestCode.GET_KVLIST_BY_NAMESPACE: "namespace",
    RequestCode.GET_BROKER_MEMBER_GROUP: "brokerName",
}
_KEPT_FRAGMENTS = 4_096
LIST_CODES = ROUTE_QUESTIONS - {RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO}
"""Questions about lists of topics."""


def question_of(code: int, fields: Fields, *, standard_json: bool) -> Question:
    """Return the question in a request with a code in QUESTIONS; only routes come in two dialects."""
    if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        return Question(code, fields.get("topic"), standard_json, zone_of(fields))
    subject = fields.get(_SUBJECTS[code]) if code in _SUBJECTS else None  # type: ignore[index]
    scope = {RequestCode.GET_KV_CONFIG: "namespace", RequestCode.GET_BROKER_MEMBER_GROUP: "clusterName"}.get(code)  # type: ignore[call-overload]
    return Question(code, subject, scope=fields.get(scope) if scope else None)


def answer(registry: Registry, question: Question, namesrv: Namesrv) -> Answer:
    """Return the name server's answer to `question`. Raises ValueError for a code that is not in QUESTIONS.

    Source: RocketMQ 4.9.7 DefaultRequestProcessor; 5.4.0 DefaultRequestProcessor and ClientRequestProcessor.
    """
    code = question.code
    if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        return route_answer(pickup_topic_route_data(registry, question.subject, namesrv), question, namesrv)
    if code == RequestCode.GET_BROKER_CLUSTER_INFO:
        # The groups with their true ids, and the cluster sets.
        write, groups = writer(namesrv), registry.broker_addr_table.java_items()
        sets = ((name, write.strings(of.java_keys())) for name, of in registry.cluster_addr_table.java_items())
        by_name = write.mapping((name, broker_data(write, name, routed(group, None))) for name, group in groups)
        body = write.record([("brokerAddrTable", by_name), ("clusterAddrTable", write.mapping(sets))])
        return Answer(ResponseCode.SUCCESS, body)
    if code in (RequestCode.GET_KV_CONFIG, RequestCode.GET_KVLIST_BY_NAMESPACE):
        return _kv_answer(registry, question, namesrv)
    if code == RequestCode.GET_BROKER_MEMBER_GROUP:
        # Source: RocketMQ 5.4.0 RouteInfoManager.getBrokerMemberGroup. It repeats the cluster of the question.
        write, group = writer(namesrv), registry.broker_addr_table.get(question.subject)
        addrs = write.integer_mapping(
            (number, write.text(addr)) for number, addr in (group.java_addrs() if group else ())
        )
        name, cluster = write.text(question.subject), write.text(question.scope)
        members = write.record([("brokerAddrs", addrs), ("brokerName", name), ("cluster", cluster)])
        body = write.record([("brokerMemberGroup", members)])
        return Answer(ResponseCode.SUCCESS, body, "not set any response code")  # a fresh response's remark
    config, broker_addr = namesrv.config, None
    lists_all = code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    is_enabled = config.enable_all_topic_list if lists_all else config.enable_topic_list
    if not is_enabled and code != RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS:
        return Answer(ResponseCode.SYSTEM_ERROR, None, "disable")
    if lists_all:
        topics = all_topic_list(registry, namesrv)
    elif code == RequestCode.GET_TOPICS_BY_CLUSTER:
        topics = topics_by_cluster(registry, question.subject, namesrv)
    elif code == RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS:
        topics, broker_addr = system_topic_list(registry, namesrv)
    elif code in _UNIT_LISTS:
        unit, sub = _UNIT_LISTS[code]
        topics = unit_topic_list(registry, namesrv, unit=unit, sub=sub)
    else:
        raise ValueError(f"request code {code}: not a question that the registry answers")
    write = writer(namesrv)
    body = write.record([("brokerAddr", write.text(broker_addr)), ("topicList", write.strings(topics))])
    return Answer(ResponseCode.SUCCESS, body)


def route_answer(route: TopicRouteData | None, question: Question, namesrv: Namesrv) -> Answer:
    """Return the answer that holds the route for which `question` asks; None: there is none."""
    if route is None:
        site = f"{namesrv.profile.faq_scheme}://rocketmq.apache.org/docs/"
        remark = f"No topic route info in name server for the topic: {_shown(question.subject)}\nSee {site}"
        return Answer(ResponseCode.TOPIC_NOT_EXIST, None, remark)
    standard = question.standard_json and namesrv.profile.writes_standard_json
    if question.scope is not None and namesrv.profile.filters_routes_by_zone:
        # The filter parses the answer and writes it again, always in RocketMQ's own JSON.
        route, standard = within_zone(route, question.scope, sorted_maps=standard), False
    return Answer(ResponseCode.SUCCESS, route_json(route, namesrv, standard=standard))


def _kv_answer(registry: Registry, question: Question, namesrv: Namesrv) -> Answer:
    """Return a value (in a header field) or the entries of a namespace (in the body)."""
    if question.code == RequestCode.GET_KVLIST_BY_NAMESPACE:
        body = kv_list_json(registry, question.subject, namesrv)
        if body is None:
            return Answer(ResponseCode.QUERY_NOT_FOUND, None, f"No config item, Namespace: {_shown(question.subject)}")
        return Answer(ResponseCode.SUCCESS, body)
    entry = registry.kv_config_table.row((question.scope, question.subject))
    if entry is None or entry.text is None:
        remark = f"No config item, Namespace: {_shown(question.scope)} Key: {_shown(question.subject)}"
        return Answer(ResponseCode.QUERY_NOT_FOUND, None, remark)
    return Answer(ResponseCode.SUCCESS, None, fields=(("value", entry.text),))


def route_json(route: TopicRouteData, namesrv: Namesrv, *, standard: bool) -> str:
    """Return the JSON of a route, standard or RocketMQ's own."""
    write = writer(namesrv, standard=standard)
    servers = ((addr, write.strings(of)) for addr, of in route.filter_server_table if of is not None)
    fields = [
        ("brokerDatas", write.array(broker_data(write, name, group) for name, group in route.broker_datas)),
        ("filterServerTable", write.mapping(servers)),
        ("orderTopicConf", write.text(route.order_topic_conf)),
        ("queueDatas", write.array(queue_data(write, name, data) for name, data in route.queue_datas)),
    ]
    if route.topic_queue_mapping_by_broker is not None:
        mappings = ((name, mapping(write, info)) for name, info in route.topic_queue_mapping_by_broker)
        fields.append(("topicQueueMappingByBroker", write.mapping(mappings)))
    return write.record(fields)


def kv_list_json(registry: Registry, namespace: str | None, namesrv: Namesrv) -> str | None:
    """Return the JSON of the entries of a KV namespace; None if it does not exist."""
    entries = registry.kv_config_table.get(namespace)
    if entries is None:
        return None
    write = writer(namesrv)
    table = write.mapping((key, write.text(value.text)) for key, value in entries.java_items())
    return write.record([("table", table)])


def data_version_json(version: DataVersion, namesrv: Namesrv) -> str:
    """Return the JSON of a data version in an answer to QUERY_DATA_VERSION."""
    state_version = str(version.state_version) if namesrv.profile.has_state_version else None
    counter = None if version.counter is None else str(version.counter)
    fields = [("counter", counter), ("stateVersion", state_version), ("timestamp", str(version.timestamp))]
    return writer(namesrv).record(fields)


def _shown(text: str | None) -> str:
    """Return a text as Java concatenates it into a message: null as `null`."""
    return "null" if text is None else text


def remark_matches(answered: str | None, expected: str | None) -> bool:
    """Return whether a remark starts as expected. The text after the documentation's address differs between builds."""
    return answered == expected or (expected is not None and (answered or "").startswith(expected))


@lru_cache(_KEPT_FRAGMENTS)
def broker_data(write: _Writer, name: str | None, group: BrokerData) -> str:
    """Return an element of brokerDatas. `group`: as in a route (`routed`)."""
    addrs = write.integer_mapping((broker_id, write.text(addr)) for broker_id, addr in group.broker_addrs)
    fields = [
        ("brokerAddrs", addrs),
        ("brokerName", write.text(name)),
        ("cluster", write.text(group.cluster_name)),
    ]
    if write.has_zones:
        fields.append(("enableActingMaster", "true" if group.enable_acting_master else "false"))
        fields.append(("zoneName", write.text(group.zone_name)))
    return write.record(fields)


@lru_cache(_KEPT_FRAGMENTS)
def queue_data(write: _Writer, name: str | None, data: QueueData) -> str:
    """Return an element of queueDatas."""
    return write.record(
        [
            ("brokerName", write.text(name)),
            ("perm", str(data.perm)),
            ("readQueueNums", str(data.read_queue_nums)),
            (write.sys_flag_name, str(data.topic_sys_flag)),
            ("writeQueueNums", str(data.write_queue_nums)),
        ]
    )


def mapping(write: _Writer, info: TopicQueueMappingInfo) -> str:
    """Return a value of topicQueueMappingByBroker."""
    ids = write.integer_mapping((key, str(value)) for key, value in info.queue_ids.items())
    return write.record(
        [
            ("bname", write.text(info.bname)),
            ("currIdMap", ids),
            ("dirty", "true" if info.dirty else "false"),
            ("epoch", str(info.epoch)),
            ("scope", write.text(info.scope)),
            ("topic", write.text(info.topic)),
            ("totalQueues", str(info.total_queues)),
        ]
    )


class _Writer:
    """Writes JSON in one of the two dialects. `record` and the mappings omit values that are None."""

    def __init__(self, *, old_json: bool, standard: bool, has_zones: bool, sys_flag_name: str) -> None:
        self.standard, self.has_zones, self.sys_flag_name = standard, has_zones, sys_flag_name
        self._escape = _old_escape if old_json else None
        self._special = _BROWSER_SPECIAL if standard else _SPECIAL

    def text(self, value: str | None) -> str | None:
        if value is None:
            return None
        if self._escape is None:
            return _QUOTING.encode(value)
        return '"' + self._special.sub(self._escape, value) + '"'

    def strings(self, values: Iterable[str | None]) -> str:
        return self.array(self.text(value) or "null" for value in values)

    def array(self, values: Iterable[str]) -> str:
        return "[" + ",".join(values) + "]"

    def record(self, fields: Iterable[tuple[str, str | None]]) -> str:
        return "{" + ",".join(f'"{name}":{value}' for name, value in fields if value is not None) + "}"

    def mapping(self, entries: Iterable[tuple[str | None, str | None]]) -> str:
        found = [(key, value) for key, value in entries if value is not None]
        if self.standard:
            found.sort(key=lambda entry: entry[0] or "")
        null = '"null"' if self.standard else "null"
        return "{" + ",".join(f"{self.text(key) or null}:{value}" for key, value in found) + "}"

    def integer_mapping(self, entries: Iterable[tuple[int, str | None]]) -> str:
        found = [(key, value) for key, value in entries if value is not None]
        if self.standard:
            found.sort()
            return "{" + ",".join(f'"{key}":{value}' for key, value in found) + "}"
        return "{" + ",".join(f"{key}:{value}" for key, value in found) + "}"


_QUOTING = json.JSONEncoder(ensure_ascii=False)
_SPECIAL = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]')
_BROWSER_SPECIAL = re.compile('["\\\\/\x00-\x1f\x7f-\U0010ffff]')
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\", "/": "\\/"}


def _old_escape(found: re.Match[str]) -> str:
    """Return a character as fastjson 1 escapes it: in its short form, else as UTF-16 units in upper-case hex digits."""
    short = _SHORT.get(found[0])
    if short is not None:
        return short
    units = found[0].encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04X}" for i in range(0, len(units), 2))


_writer = cache(_Writer)


def writer(namesrv: Namesrv, *, standard: bool = False) -> _Writer:
    """Return the JSON writer of a name server: one object for all that write alike."""
    of = namesrv.profile
    return _writer(
        old_json=of.old_json, standard=standard, has_zones=of.live_key_has_cluster, sys_flag_name=of.sys_flag_name
    )


CRC32_MISMATCH = "crc32_mismatch"
UNDECODABLE_BODY = "undecodable_body"
MISSING_BROKER_ID = "missing_broker_id"
_REMARKS = {CRC32_MISMATCH: "crc32 not match", UNDECODABLE_BODY: "", MISSING_BROKER_ID: NULL_POINTER}
_COUNTS: dict[type, str] = {events.WipeWritePerm: "wipeTopicCount", events.AddWritePerm: "addTopicCount"}
MAX_REASON = 200
"""Number of characters of a remark that are kept as the reason of a refusal."""


def answer_to(event: events.Event, taken: Step, registry: Registry, namesrv: Namesrv) -> Answer:
    """Return the answer to the request of `event`, whose step was `taken`; `registry` as before or after it.

    An exception that leaves the processor becomes SYSTEM_ERROR with the exception's text. Which properties a release
    refuses in UPDATE_NAMESRV_CONFIG is not reproduced; only the recorded answer tells.
    """
    if taken.exception is not None:
        return Answer(ResponseCode.SYSTEM_ERROR, None, taken.exception)
    if isinstance(event, events.RegisterBroker):
        if not isinstance(taken.result, RegisterResult):
            return Answer(ResponseCode.SYSTEM_ERROR, None, REGISTER_FAILED)
        named = (("haServerAddr", taken.result.ha_server_addr), ("masterAddr", taken.result.master_addr))
        returns_body = namesrv.config.return_order_topic_config_to_broker
        body = kv_list_json(registry, ORDER_TOPIC_CONFIG, namesrv) if returns_body else None
        return Answer(ResponseCode.SUCCESS, body, fields=tuple((n, value) for n, value in named if value is not None))
    if taken.outcome == Outcome.REFUSED_REQUEST:
        reason = None if taken.result is None else str(taken.result)
        return Answer(ResponseCode.SYSTEM_ERROR, None, None if reason is None else _REMARKS.get(reason, reason))
    if isinstance(taken.result, QueryDataVersionResult):
        has_version = not isinstance(event, events.QueryDataVersion) or event.data_version is not None
        if namesrv.profile.throws_without_version and not has_version:
            return Answer(ResponseCode.SYSTEM_ERROR, None, NULL_POINTER)
        changed, version = taken.result
        body = None if version is None else data_version_json(version, namesrv)
        return Answer(ResponseCode.SUCCESS, body, fields=(("changed", "true" if changed else "false"),))
    count = _COUNTS.get(type(event))
    return Answer(ResponseCode.SUCCESS, None, fields=((count, str(taken.result)),) if count else ())


def refusal_of(code: int | None, remark: str | None, topic_count: int | None = None) -> str | None:
    """Return why a request was refused, from the remark or code of its answer; None for no answer, or success.

    `topic_count`: topics of a registration. A refusal without recorded remark is put down to a lone topic (5.x).
    """
    if code in (None, ResponseCode.SUCCESS):
        return None
    if remark:
        return remark[:MAX_REASON]
    return REGISTER_FAILED if (code, topic_count) == (ResponseCode.SYSTEM_ERROR, 1) else f"response code {code}"
