"""Answers as text: the JSON that the name server writes, byte for byte.

Standard JSON has its keys sorted and every key quoted; RocketMQ's own JSON (older clients, cluster info) keeps the
order of its maps and writes integer keys without quotes. Nulls are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from namesrv_core import queries
from namesrv_core.profile import Namesrv
from namesrv_core.queries import RouteBroker, TopicRouteData
from namesrv_core.registry import Registry
from namesrv_core.rows import QueueData, TopicQueueMappingInfo

SUCCESS, SYSTEM_ERROR, TOPIC_NOT_EXIST = 0, 1, 17
GET_ROUTEINFO_BY_TOPIC, GET_BROKER_CLUSTER_INFO, GET_ALL_TOPIC_LIST = 105, 106, 206
GET_TOPICS_BY_CLUSTER, GET_SYSTEM_TOPIC_LIST = 224, 304
GET_UNIT_TOPIC_LIST, GET_HAS_UNIT_SUB_TOPIC_LIST, GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 311, 312, 313
_UNIT_LISTS: dict[int, tuple[bool | None, bool | None]] = {
    GET_UNIT_TOPIC_LIST: (True, None),
    GET_HAS_UNIT_SUB_TOPIC_LIST: (None, True),
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (False, True),
}
LIST_CODES = frozenset({GET_ALL_TOPIC_LIST, GET_TOPICS_BY_CLUSTER, GET_SYSTEM_TOPIC_LIST, *_UNIT_LISTS})


class Question(NamedTuple):
    """What was asked: request code, topic or cluster, and whether the asker takes standard JSON only."""

    code: int
    subject: str | None = None
    standard_json: bool = True


class Answer(NamedTuple):
    """Response code, remark and body text."""

    code: int
    body: str | None
    remark: str | None = None


def answer(registry: Registry, question: Question, namesrv: Namesrv) -> Answer:
    """Return the name server's answer to `question`. Raises ValueError for a code that asks nothing about routes.

    Source: RocketMQ 4.9.7 DefaultRequestProcessor; 5.4.0 DefaultRequestProcessor and ClientRequestProcessor.
    """
    code = question.code
    if code == GET_ROUTEINFO_BY_TOPIC:
        route = queries.pickup_topic_route_data(registry, question.subject, namesrv)
        if route is None:
            return Answer(TOPIC_NOT_EXIST, None, _no_route(question.subject, namesrv))
        return Answer(SUCCESS, route_json(route, namesrv, standard=question.standard_json))
    if code == GET_BROKER_CLUSTER_INFO:
        return Answer(SUCCESS, cluster_info_json(registry, namesrv))
    return _topic_list_answer(registry, question, namesrv)


def _topic_list_answer(registry: Registry, question: Question, namesrv: Namesrv) -> Answer:
    code, config = question.code, namesrv.config
    enabled = config.enable_all_topic_list if code == GET_ALL_TOPIC_LIST else config.enable_topic_list
    if not enabled and code != GET_SYSTEM_TOPIC_LIST:
        return Answer(SYSTEM_ERROR, None, "disable")
    if code == GET_ALL_TOPIC_LIST:
        body = topic_list_json(queries.all_topic_list(registry, namesrv))
    elif code == GET_TOPICS_BY_CLUSTER:
        body = topic_list_json(queries.topics_by_cluster(registry, question.subject, namesrv))
    elif code == GET_SYSTEM_TOPIC_LIST:
        body = topic_list_json(*queries.system_topic_list(registry, namesrv))
    elif code in _UNIT_LISTS:
        unit, sub = _UNIT_LISTS[code]
        body = topic_list_json(queries.unit_topic_list(registry, namesrv, unit=unit, sub=sub))
    else:
        raise ValueError(f"request code {code}: not a question about routes")
    return Answer(SUCCESS, body)


def route_json(route: TopicRouteData, namesrv: Namesrv, *, standard: bool) -> str:
    """Return a route as the name server writes it; `standard` also escapes what is not ASCII."""
    write = _Writer(standard=standard)
    fields = [
        ("brokerDatas", write.array(_broker_data(write, broker, namesrv) for broker in route.broker_datas)),
        (
            "filterServerTable",
            write.mapping(
                (addr, write.strings(servers)) for addr, servers in route.filter_server_table if servers is not None
            ),
        ),
        ("orderTopicConf", write.text(route.order_topic_conf)),
        ("queueDatas", write.array(_queue_data(write, name, data) for name, data in route.queue_datas)),
    ]
    if route.topic_queue_mapping_by_broker is not None:
        mappings = ((name, _mapping(write, info)) for name, info in route.topic_queue_mapping_by_broker)
        fields.append(("topicQueueMappingByBroker", write.mapping(mappings)))
    return write.record(fields)


def cluster_info_json(registry: Registry, namesrv: Namesrv) -> str:
    """Return the answer to GET_BROKER_CLUSTER_INFO: the groups with their true ids, and the cluster sets."""
    write = _Writer(standard=False)
    groups = (
        (
            name,
            _broker_data(
                write,
                RouteBroker(name, g.cluster_name, tuple(g.java_addrs()), g.enable_acting_master, g.zone_name),
                namesrv,
            ),
        )
        for name, g in registry.broker_addr_table.java_items()
    )
    clusters = (
        (cluster, write.strings(names.java_keys())) for cluster, names in registry.cluster_addr_table.java_items()
    )
    return write.record([("brokerAddrTable", write.mapping(groups)), ("clusterAddrTable", write.mapping(clusters))])


def topic_list_json(topics: list[str | None], broker_addr: str | None = None) -> str:
    """Return a topic list; only the system list has a broker address."""
    write = _Writer(standard=False)
    return write.record([("brokerAddr", write.text(broker_addr)), ("topicList", write.strings(topics))])


def _no_route(topic: str | None, namesrv: Namesrv) -> str:
    site = f"{namesrv.profile.faq_scheme}://rocketmq.apache.org/docs/"
    return f"No topic route info in name server for the topic: {topic}\nSee {site}"


def remark_matches(answered: str | None, expected: str | None) -> bool:
    """Return whether a remark is the expected one. What follows the documentation's address differs between builds."""
    return answered == expected or (expected is not None and (answered or "").startswith(expected))


def _broker_data(write: _Writer, broker: RouteBroker, namesrv: Namesrv) -> str:
    addrs = write.integer_mapping((broker_id, write.text(addr)) for broker_id, addr in broker.broker_addrs)
    fields = [
        ("brokerAddrs", addrs),
        ("brokerName", write.text(broker.broker_name)),
        ("cluster", write.text(broker.cluster_name)),
    ]
    if namesrv.profile.live_key_has_cluster:
        fields.append(("enableActingMaster", "true" if broker.enable_acting_master else "false"))
        fields.append(("zoneName", write.text(broker.zone_name)))
    return write.record(fields)


def _queue_data(write: _Writer, name: str | None, data: QueueData) -> str:
    return write.record(
        [
            ("brokerName", write.text(name)),
            ("perm", str(data.perm)),
            ("readQueueNums", str(data.read_queue_nums)),
            ("topicSysFlag", str(data.topic_sys_flag)),
            ("writeQueueNums", str(data.write_queue_nums)),
        ]
    )


def _mapping(write: _Writer, info: TopicQueueMappingInfo) -> str:
    current = json.loads(info.curr_id_map) if info.curr_id_map else {}
    ids = write.integer_mapping((int(key), str(value)) for key, value in current.items())
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
    """Writes one of the two dialects; a value that is None is left out by `record` and `mapping`."""

    def __init__(self, *, standard: bool) -> None:
        self.standard = standard

    def text(self, value: str | None) -> str | None:
        if value is None:
            return None
        if not self.standard:
            return json.dumps(value, ensure_ascii=False)
        return _browser_text(value)

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
        return "{" + ",".join(f"{self.text(key) or 'null'}:{value}" for key, value in found) + "}"

    def integer_mapping(self, entries: Iterable[tuple[int, str | None]]) -> str:
        found = [(key, value) for key, value in entries if value is not None]
        if self.standard:
            found.sort()
            return "{" + ",".join(f'"{key}":{value}' for key, value in found) + "}"
        return "{" + ",".join(f"{key}:{value}" for key, value in found) + "}"


def _browser_text(value: str) -> str:
    """Return a JSON string in which everything outside printable ASCII is escaped with upper-case hex digits."""
    out = ['"']
    for char in value:
        if char in '"\\':
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be", errors="surrogatepass")
            out += [f"\\u{units[i] << 8 | units[i + 1]:04X}" for i in range(0, len(units), 2)]
    out.append('"')
    return "".join(out)
