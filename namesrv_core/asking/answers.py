"""Answers of a name server: codes, remarks, and JSON bodies byte for byte.

Standard JSON sorts its keys and quotes all of them. RocketMQ's own JSON (older clients, cluster info) keeps the order
of its maps and writes integer keys without quotes. Both omit nulls. The escaped characters depend on the release, up
to 5.3.x also on the dialect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache, lru_cache

from namesrv_core.asking import queries
from namesrv_core.asking.queries import TopicRouteData, routed
from namesrv_core.asking.requests import Fields, zone_of
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer, Question, RequestCode, ResponseCode
from namesrv_core.machine.draft import NULL_POINTER, Outcome, Step
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.register import REGISTER_FAILED, RegisterResult
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import BrokerData, DataVersion, QueueData, TopicQueueMappingInfo
from namesrv_core.machine.step import ORDER_TOPIC_CONFIG, QueryDataVersionResult

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
        route = queries.pickup_topic_route_data(registry, question.subject, namesrv)
        if route is None:
            site = f"{namesrv.profile.faq_scheme}://rocketmq.apache.org/docs/"
            remark = f"No topic route info in name server for the topic: {_shown(question.subject)}\nSee {site}"
            return Answer(ResponseCode.TOPIC_NOT_EXIST, None, remark)
        standard = question.standard_json and namesrv.profile.writes_standard_json
        if question.scope is not None and namesrv.profile.filters_routes_by_zone:
            # The filter parses the answer and writes it again, always in RocketMQ's own JSON.
            route, standard = queries.within_zone(route, question.scope, sorted_maps=standard), False
        return Answer(ResponseCode.SUCCESS, route_json(route, namesrv, standard=standard))
    if code == RequestCode.GET_BROKER_CLUSTER_INFO:
        return Answer(ResponseCode.SUCCESS, _cluster_info(registry, namesrv))
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
    return _topic_list_answer(registry, question, namesrv)


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


def _topic_list_answer(registry: Registry, question: Question, namesrv: Namesrv) -> Answer:
    code, config = question.code, namesrv.config
    listed = code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    enabled = config.enable_all_topic_list if listed else config.enable_topic_list
    if not enabled and code != RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS:
        return Answer(ResponseCode.SYSTEM_ERROR, None, "disable")
    broker_addr = None
    if listed:
        topics = queries.all_topic_list(registry, namesrv)
    elif code == RequestCode.GET_TOPICS_BY_CLUSTER:
        topics = queries.topics_by_cluster(registry, question.subject, namesrv)
    elif code == RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS:
        topics, broker_addr = queries.system_topic_list(registry, namesrv)
    elif code in _UNIT_LISTS:
        unit, sub = _UNIT_LISTS[code]
        topics = queries.unit_topic_list(registry, namesrv, unit=unit, sub=sub)
    else:
        raise ValueError(f"request code {code}: not a question that the registry answers")
    write = writer(namesrv)
    body = write.record([("brokerAddr", write.text(broker_addr)), ("topicList", write.strings(topics))])
    return Answer(ResponseCode.SUCCESS, body)


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


def _cluster_info(registry: Registry, namesrv: Namesrv) -> str:
    """Return the JSON of the cluster info: the groups with their true ids, and the cluster sets."""
    write = writer(namesrv)
    groups = registry.broker_addr_table.java_items()
    sets = ((cluster, write.strings(names.java_keys())) for cluster, names in registry.cluster_addr_table.java_items())
    by_name = write.mapping((name, broker_data(write, name, routed(group, None))) for name, group in groups)
    return write.record([("brokerAddrTable", by_name), ("clusterAddrTable", write.mapping(sets))])


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


def refusal_told(code: int | None, remark: str | None, topic_count: int | None = None) -> str | None:
    """Return why a request was refused, from the remark or code of its answer; None for no answer, or success.

    `topic_count`: topics of a registration. A refusal without recorded remark is put down to a lone topic (5.x).
    """
    if code in (None, ResponseCode.SUCCESS):
        return None
    if remark:
        return remark[:MAX_REASON]
    return REGISTER_FAILED if (code, topic_count) == (ResponseCode.SYSTEM_ERROR, 1) else f"response code {code}"
