"""Bodies of answers: as JSON values, read in both dialects, compared, and what they show of the registry, as rows.

Bodies come from outside. One that does not have the form of an answer shows nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from namesrv_core.machine.codes import Answer, Question, RequestCode, ResponseCode
from namesrv_core.machine.rows import BrokerData, QueueData, TopicQueueMappingInfo

SHORT_BODY = 8_192
"""Bodies up to so many characters are kept as they were read, the last `KEPT_BODIES` of them: many answers say the same.

So are elements of routes, which most other answers have, too: `KEPT_ELEMENTS`.
"""
KEPT_BODIES = 2_048
KEPT_ELEMENTS = 16_384


def same_json(one: str | None, other: str | None, *, ordered: bool) -> bool:
    """Return whether two bodies say the same; without `ordered`, lists are compared as sets of their elements."""
    if one is None or other is None:
        return one == other
    unordered = _canonical_short if max(len(one), len(other)) <= SHORT_BODY else _canonical_body
    read = _read_body if ordered else unordered
    try:
        return bool(read(one) == read(other))
    except ValueError:
        return False


_GROUPS = '{"brokerDatas":[{'
_G = TypeVar("_G")
_Q = TypeVar("_Q")


def route_read(
    body: str, group: Callable[[str], _G], queue_data: Callable[[str], _Q], rest: Callable[[str], dict[str, Any]]
) -> tuple[list[_G], list[_Q], dict[str, Any]] | None:
    """Return what is read of each element of a route's two lists, and of all else in it; None where it is not written as usual.

    Functions get the text of an object, and raise ValueError if it is none: where each text between commas is an object by itself,
    all of them are the list, wherever they were cut.
    """
    head, begun, tail = body.partition('],"filterServerTable":')
    middle, listed, tail = tail.partition(',"queueDatas":[{')
    queue_datas, ended, tail = tail.partition("}]")
    is_usual = begun and listed and ended and head.startswith(_GROUPS) and head[-1] == "}"
    if not is_usual or not (tail == "}" or tail.startswith(',"')):
        return None
    try:
        others = {**rest(f'{{"filterServerTable":{middle}}}'), **(rest(f"{{{tail[1:]}") if tail != "}" else {})}
        if "brokerDatas" in others or "queueDatas" in others:  # the last one counts
            return None
        return (
            [group(f"{{{text}}}") for text in head[len(_GROUPS) : -1].split("},{")],
            [queue_data(f"{{{text}}}") for text in queue_datas.split("},{")],
            others,
        )
    except ValueError:
        return None


def read_json(text: str) -> Any:  # any JSON value
    """Return the value of a body, RocketMQ's unquoted integer keys included. Raises ValueError for anything else."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except json.JSONDecodeError:
        return json.loads(_quoted(text))


_STRING_OR_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|([{,])(-?\d+):')
_KEY = re.compile(r"([{,])(-?\d+):")


def _quoted(text: str) -> str:
    """Quote integer keys outside of strings."""
    if "\\" in text:
        return _STRING_OR_KEY.sub(lambda m: m[0] if m[2] is None else f'{m[1]}"{m[2]}":', text)
    parts = text.split('"')  # every second one lies outside
    parts[::2] = [_KEY.sub(r'\1"\2":', part) if ":" in part and len(part) > 2 else part for part in parts[::2]]
    return '"'.join(parts)


def _read_body(text: str) -> Any:  # any JSON value
    read = route_read(text, read_element, read_element, read_element)
    if read is None:
        return read_json(text)
    groups, queue_datas, others = read
    return {"brokerDatas": groups, "queueDatas": queue_datas, **others}


def _canonical_body(text: str) -> Any:  # any JSON value
    read = route_read(text, _canonical_element, _canonical_element, read_element)
    if read is None:
        return _canonical(read_json(text))
    groups, queue_datas, others = read
    return {"brokerDatas": sorted(groups), "queueDatas": sorted(queue_datas), **_canonical(others)}


_canonical_short = lru_cache(KEPT_BODIES)(_canonical_body)


@lru_cache(KEPT_ELEMENTS)
def read_element(text: str) -> Any:  # any JSON value
    """Return the value of a part of a body, as `read_json`. It is shared: do not change it."""
    return read_json(text)


@lru_cache(KEPT_ELEMENTS)
def _canonical_element(text: str) -> str:
    return _TEXT_OF.encode(_canonical(read_json(text)))


def _canonical(value: Any) -> Any:  # any JSON value
    if isinstance(value, dict):
        return {key: _canonical(m) if isinstance(m, (dict, list)) else m for key, m in value.items()}
    if isinstance(value, list):
        return sorted(_TEXT_OF.encode(_canonical(member)) for member in value)
    return value


_TEXT_OF = json.JSONEncoder(sort_keys=True)


_V = TypeVar("_V")


class ShownRoute(NamedTuple):
    """A route: queue data and groups by broker name, filter servers by address; `mappings` by broker name."""

    queue_datas: dict[str | None, QueueData]
    groups: dict[str | None, BrokerData]
    filter_servers: dict[str | None, tuple[str, ...]]
    order_topic_conf: str | None
    mappings: dict[str | None, TopicQueueMappingInfo]


class ShownCluster(NamedTuple):
    """Cluster info: all groups, and the names in each cluster set."""

    groups: dict[str | None, BrokerData]
    clusters: dict[str | None, tuple[str | None, ...]]


class ShownTopics(NamedTuple):
    """The list of all topics."""

    topics: frozenset[str | None]


Shown = ShownRoute | ShownCluster | ShownTopics


def shown_by(question: Question, answered: Answer) -> Shown | None:
    """Return what `answered` shows; None for an error, or a body that is no answer to `question`.

    It is shared by equal answers: do not change it.
    """
    if question.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and answered.code == ResponseCode.TOPIC_NOT_EXIST:
        return ShownRoute({}, {}, {}, None, {})
    if answered.code != ResponseCode.SUCCESS or answered.body is None or question.code not in _READERS:
        return None
    read = _read_short if len(answered.body) <= SHORT_BODY else _read
    return read(question.code, answered.body)


def entries_shown(answered: Answer) -> dict[str, str | None] | None:
    """Return the KV entries of a namespace that an answer lists; None: it is no such list."""
    try:
        table = read_json(answered.body or "")["table"] if answered.code == ResponseCode.SUCCESS else None
        return None if table is None else {_required(key): _text(value) for key, value in table.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _read(code: int, body: str) -> Shown | None:
    try:
        return _READERS[code](body)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


_read_short = lru_cache(KEPT_BODIES)(_read)


def _route_of(body: str) -> ShownRoute:
    read = route_read(body, partial(_element, _group_of), partial(_element, _queue_data_of), read_element)
    if read is None:
        others = read_json(body)
        groups = [_named(_group_of, value) for value in others["brokerDatas"]]
        queue_datas = [_named(_queue_data_of, value) for value in others["queueDatas"]]
    else:
        groups, queue_datas, others = read
    return ShownRoute(
        dict(queue_datas),
        dict(groups),
        {
            addr: tuple(_required(server) for server in servers)
            for addr, servers in (others.get("filterServerTable") or {}).items()
            if servers is not None
        },
        _text(others.get("orderTopicConf")),
        {name: _mapping_of(info) for name, info in (others.get("topicQueueMappingByBroker") or {}).items()},
    )


@lru_cache(2 * KEPT_ELEMENTS)
def _element(of: Callable[[dict[str, Any]], _V], text: str) -> tuple[str | None, _V]:
    return _named(of, read_json(text))


def _named(of: Callable[[dict[str, Any]], _V], value: dict[str, Any]) -> tuple[str | None, _V]:
    return _text(value["brokerName"]), of(value)


def _cluster_of(text: str) -> ShownCluster:
    body = read_json(text)
    return ShownCluster(
        {_text(name): _group_of(group) for name, group in body["brokerAddrTable"].items()},
        {_text(cluster): tuple(_text(name) for name in names) for cluster, names in body["clusterAddrTable"].items()},
    )


def _group_of(value: dict[str, Any]) -> BrokerData:
    addrs = tuple((int(broker_id), _text(addr)) for broker_id, addr in value["brokerAddrs"].items())
    acting = value.get("enableActingMaster") is True
    return BrokerData(_text(value.get("cluster")), addrs, acting, _text(value.get("zoneName")))


def _queue_data_of(value: dict[str, Any]) -> QueueData:
    return QueueData(
        _integer(value["readQueueNums"]),
        _integer(value["writeQueueNums"]),
        _integer(value["perm"]),
        _integer(value.get("topicSysFlag", value.get("topicSynFlag", 0))),
    )


def _mapping_of(value: dict[str, Any]) -> TopicQueueMappingInfo:
    current = value.get("currIdMap")
    return TopicQueueMappingInfo(
        _required(value["topic"]),
        _text(value["bname"]),
        _integer(value["totalQueues"]),
        _integer(value["epoch"]),
        value.get("dirty") is True,
        _text(value.get("scope")),
        json.dumps(current, separators=(",", ":")) if current else None,
    )


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
"""Questions whose answers show rows."""
