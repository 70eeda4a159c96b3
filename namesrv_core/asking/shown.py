"""Parsing answer bodies: as JSON values of either dialect, to compare them, and as the rows that they show.

Bodies come from outside. A body that does not have the form of an answer shows nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from namesrv_core.asking.answers import TopicRouteData
from namesrv_core.machine.codes import Answer, Question, RequestCode, ResponseCode
from namesrv_core.machine.tables import BrokerData, QueueData, TopicQueueMappingInfo

_V = TypeVar("_V")
SHORT_BODY = 8_192
"""Bodies up to this many characters are cached parsed, the last `KEPT_BODIES` of them: many answers are equal."""
KEPT_BODIES = 2_048
NULL_KEY = "\ud800"
"""Stands for the key `null` (a cluster or a broker without a name): a text that UTF-8 cannot hold."""


def same_json(one: str | None, other: str | None, *, ordered: bool) -> bool:
    """Return whether two bodies are equal as JSON; without `ordered`, regardless of the order of lists."""
    if one is None or other is None:
        return one == other
    unordered = _canonical_short if max(len(one), len(other)) <= SHORT_BODY else _canonical_body
    read = read_json if ordered else unordered
    try:
        return bool(read(one) == read(other))
    except ValueError:
        return False


def read_json(text: str) -> Any:  # any JSON value
    """Return the JSON value of a body. RocketMQ's unquoted keys are read, too: integers, and null as `NULL_KEY`.

    Raises ValueError for anything else.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except json.JSONDecodeError:
        return json.loads(_quoted(text))


_STRING_OR_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|([{,])(-?\d+|null):')
_KEY = re.compile(r"([{,])(-?\d+):")
_NAMED = {"null": NULL_KEY}


def _quoted(text: str) -> str:
    """Quote keys outside of strings."""
    if "\\" in text:
        return _STRING_OR_KEY.sub(lambda m: m[0] if m[2] is None else f'{m[1]}"{_NAMED.get(m[2], m[2])}":', text)
    parts = text.split('"')  # every second one lies outside
    parts[::2] = [
        _KEY.sub(r'\1"\2":', part).replace("null:", f'"{NULL_KEY}":') if ":" in part and len(part) > 2 else part
        for part in parts[::2]
    ]
    return '"'.join(parts)


def _canonical_body(text: str) -> Any:  # any JSON value
    return _canonical(read_json(text))


_canonical_short = lru_cache(KEPT_BODIES)(_canonical_body)


def _canonical(value: Any) -> Any:  # any JSON value
    if isinstance(value, dict):
        return {key: _canonical(m) if isinstance(m, (dict, list)) else m for key, m in value.items()}
    if isinstance(value, list):
        return sorted(_TEXT_OF.encode(_canonical(member)) for member in value)
    return value


_TEXT_OF = json.JSONEncoder(sort_keys=True)


class ShownRoute(NamedTuple):
    """Rows in a route: queue data, groups and `mappings` by broker name, filter servers by address."""

    queue_datas: dict[str | None, QueueData]
    groups: dict[str | None, BrokerData]
    filter_servers: dict[str | None, tuple[str, ...]]
    order_topic_conf: str | None
    mappings: dict[str | None, TopicQueueMappingInfo]


class ShownCluster(NamedTuple):
    """Rows in cluster info: all groups, and the names in each cluster set."""

    groups: dict[str | None, BrokerData]
    clusters: dict[str | None, tuple[str | None, ...]]


class ShownTopics(NamedTuple):
    """Topics in the list of all topics."""

    topics: frozenset[str | None]


Shown = ShownRoute | ShownCluster | ShownTopics


def shown_by(question: Question, answered: Answer) -> Shown | None:
    """Return the rows that `answered` shows; None for an error, or a body that is no answer to `question`."""
    if question.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and answered.code == ResponseCode.TOPIC_NOT_EXIST:
        return ShownRoute({}, {}, {}, None, {})
    if answered.code != ResponseCode.SUCCESS or answered.body is None or question.code not in _READERS:
        return None
    try:
        return _READERS[question.code](answered.body)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def shown_in(route: TopicRouteData) -> ShownRoute:
    """Return the rows that an answer with this route shows: what `shown_by` reads in it, without reading it."""
    return ShownRoute(
        dict(route.queue_datas),
        dict(route.broker_datas),
        {addr: servers for addr, servers in route.filter_server_table if servers is not None},
        route.order_topic_conf,
        dict(route.topic_queue_mapping_by_broker or ()),
    )


def shown_of(shown: ShownRoute | ShownCluster, names: Container[str | None]) -> ShownRoute | ShownCluster:
    """Return the part of an answer about `names`; the names in a cluster are sorted."""
    groups = _of(shown.groups, names)
    if isinstance(shown, ShownCluster):
        clusters = {name: tuple(sorted((n for n in of if n in names), key=str)) for name, of in shown.clusters.items()}
        return ShownCluster(groups, {name: of for name, of in clusters.items() if of})
    addrs = {addr for group in groups.values() for _, addr in group.broker_addrs}
    return ShownRoute(
        _of(shown.queue_datas, names),
        groups,
        {addr: servers for addr, servers in shown.filter_servers.items() if addr in addrs},
        shown.order_topic_conf,
        _of(shown.mappings, names),
    )


def _of(by_name: dict[str | None, _V], names: Container[str | None]) -> dict[str | None, _V]:
    return {name: value for name, value in by_name.items() if name in names}


def entries_shown(answered: Answer) -> dict[str, str | None] | None:
    """Return the KV entries of a namespace in an answer; None if it is no such list."""
    try:
        table = read_json(answered.body or "")["table"] if answered.code == ResponseCode.SUCCESS else None
        return None if table is None else {_required(_name(key)): _text(value) for key, value in table.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _route_of(text: str) -> ShownRoute:
    body = read_json(text)
    return ShownRoute(
        {
            _text(data["brokerName"]): QueueData(
                _integer(data["readQueueNums"]),
                _integer(data["writeQueueNums"]),
                _integer(data["perm"]),
                _integer(data.get("topicSysFlag", data.get("topicSynFlag", 0))),
            )
            for data in body["queueDatas"]
        },
        {_text(group["brokerName"]): _group_of(group) for group in body["brokerDatas"]},
        {
            _name(key): tuple(_required(server) for server in servers)
            for key, servers in (body.get("filterServerTable") or {}).items()
            if servers is not None
        },
        _text(body.get("orderTopicConf")),
        {_name(key): _mapping_of(info) for key, info in (body.get("topicQueueMappingByBroker") or {}).items()},
    )


def _cluster_of(text: str) -> ShownCluster:
    body = read_json(text)
    return ShownCluster(
        {_name(key): _group_of(group) for key, group in body["brokerAddrTable"].items()},
        {_name(key): tuple(_text(name) for name in names) for key, names in body["clusterAddrTable"].items()},
    )


def _group_of(value: dict[str, Any]) -> BrokerData:
    addrs = tuple((int(broker_id), _text(addr)) for broker_id, addr in value["brokerAddrs"].items())
    acting = value.get("enableActingMaster") is True
    return BrokerData(_text(value.get("cluster")), addrs, acting, _text(value.get("zoneName")))


def _mapping_of(value: dict[str, Any]) -> TopicQueueMappingInfo:
    current = value.get("currIdMap", {})
    return TopicQueueMappingInfo(
        _required(value["topic"]),
        _text(value["bname"]),
        _integer(value["totalQueues"]),
        _integer(value["epoch"]),
        value.get("dirty") is True,
        _text(value.get("scope")),
        None
        if current is None
        else json.dumps({str(k): v for k, v in current.items()}, sort_keys=True, separators=(",", ":")),
    )


def _name(key: str) -> str | None:
    return None if key == NULL_KEY else key


def _text(value: object) -> str | None:
    return None if value is None else _required(value)


def _required(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _integer(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not an integer")
    return value


_READERS: dict[int, Callable[[str], Shown]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _route_of,
    RequestCode.GET_BROKER_CLUSTER_INFO: _cluster_of,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: lambda text: ShownTopics(
        frozenset(_text(topic) for topic in read_json(text)["topicList"])
    ),
}
SHOWING_CODES = frozenset(_READERS)
"""Codes of questions whose answers show rows."""
