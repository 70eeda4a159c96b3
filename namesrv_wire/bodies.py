"""Request bodies: registrations in their layouts, data versions, topic routes, configuration text.

Source: 4.9.7 and 5.4.0 `RegisterBrokerBody.decode`, `TopicConfig.decode`,
`DefaultRequestProcessor.registerBroker`.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

from namesrv_wire.codes import V3_0_11, V5_0_0
from namesrv_wire.errors import DecodeError, Reason
from namesrv_wire.inflate import Inflated
from namesrv_wire.json_text import canonical_json, parse_json
from namesrv_wire.limits import MAX_TOPICS

DEFAULT_QUEUE_NUMS: Final = 16
"""Source: `TopicConfig.readQueueNums`, `writeQueueNums` when the JSON has none."""
DEFAULT_PERM: Final = 6
FILTER_TYPES: Final = frozenset({"SINGLE_TAG", "MULTI_TAG"})
INT: Final = (-(1 << 31), (1 << 31) - 1)
LONG: Final = (-(1 << 63), (1 << 63) - 1)

Record = dict[str, Any]


class TopicTable(NamedTuple):
    """The topics and mappings of a registration; `digest` identifies the content, whatever its order."""

    digest: str
    topics: list[Record]
    mappings: list[Record]


class RegisterBody(NamedTuple):
    """A decoded registration body.

    `topics` is None for a null topic table, `filter_servers` None for a null list.
    """

    data_version: Record | None
    topics: TopicTable | None
    filter_servers: list[str] | None


def decode_register_body(body: bytes, *, compressed: bool, version: int, now_ms: int) -> RegisterBody:
    """Return the content of a REGISTER_BROKER body.

    `version` is the request's protocol version: from V3_0_11 on the body is a `RegisterBrokerBody`, before it
    is the topic wrapper alone and the filter list null. `now_ms` stands for the server's clock, which a data
    version without timestamp gets. Raises `DecodeError`; its reason tells a body that the server refuses from
    one beyond our limits.
    """
    if version < 0:
        raise _refused(f"protocol version {version}")
    whole = version >= V3_0_11
    if not body:
        return RegisterBody(_version(0, 0, 0), topic_table([], []), [] if whole else None)
    if whole and compressed:
        return _compressed_body(body, version, now_ms)
    value = _object(parse_json(body, "register body"), "register body")
    if not whole:
        return RegisterBody(*_wrapper(value, now_ms), None)
    filters = _strings(value["filterServerList"]) if "filterServerList" in value else []
    if "topicConfigSerializeWrapper" not in value:
        return RegisterBody(_version(0, now_ms, 0), topic_table([], []), filters)
    wrapper = value["topicConfigSerializeWrapper"]
    if wrapper is None:
        return RegisterBody(None, None, filters)
    return RegisterBody(*_wrapper(_object(wrapper, "topic wrapper"), now_ms), filters)


def decode_data_version(body: bytes, now_ms: int) -> Record | None:
    """Return the data version in the body of QUERY_DATA_VERSION, None for no body or null."""
    return data_version_of(parse_json(body, "data version"), now_ms) if body else None


def data_version_of(value: object, now_ms: int) -> Record | None:
    """Return a data version: no counter is 0, a null one None; no timestamp is the server's clock."""
    if value is None:
        return None
    fields = _object(value, "data version")
    no_counter = "counter" in fields and fields["counter"] is None
    return _version(
        _integer(fields, "stateVersion", 0, LONG),
        _integer(fields, "timestamp", now_ms, LONG),
        None if no_counter else _integer(fields, "counter", 0, LONG),
    )


def decode_queue_datas(body: bytes) -> list[Record] | None:
    """Return the queue data of a REGISTER_TOPIC_IN_NAMESRV body, None for no body or a null list."""
    if not body:
        return None
    route = parse_json(body, "topic route")
    queues = None if route is None else _object(route, "topic route").get("queueDatas")
    if queues is None:
        return None
    if not isinstance(queues, list):
        raise _refused("queueDatas is no list")
    _require_topics(len(queues))
    return [_queue_data(_object(queue, "queue data")) for queue in queues]


def topic_table(topics: list[Record], mappings: list[Record]) -> TopicTable:
    """Return a topic table with its digest.

    SHA-256 over canonical JSON, sorted by name, first 32 hex digits.
    """
    ordered = [
        sorted(list(topic.values()) for topic in topics),
        sorted([list(mapping.values()) for mapping in mappings], key=canonical_json),
    ]
    return TopicTable(hashlib.sha256(canonical_json(ordered).encode()).hexdigest()[:32], topics, mappings)


def java_long(text: str | None) -> int | None:
    """Return the number that `Long.parseLong` reads.

    None for what it refuses (the name server logs that and goes on).
    """
    if text is None:
        return None
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits or len(digits) > 40 or not (digits.isascii() and digits.isdigit()):
        return None
    value = int(text)
    return value if LONG[0] <= value <= LONG[1] else None


def java_int(text: str | None) -> int | None:
    """Return the number that `Integer.parseInt` reads; None for what it refuses."""
    value = java_long(text)
    return value if value is not None and INT[0] <= value <= INT[1] else None


def _wrapper(value: Record, now_ms: int) -> tuple[Record | None, TopicTable | None]:
    version = data_version_of(value["dataVersion"], now_ms) if "dataVersion" in value else _version(0, now_ms, 0)
    table = value.get("topicConfigTable", {})
    if table is None:
        return version, None
    entries = _object(table, "topicConfigTable")
    _require_topics(len(entries))
    infos = value.get("topicQueueMappingInfoMap")
    mappings = {} if infos is None else _object(infos, "topicQueueMappingInfoMap")
    _require_topics(len(mappings))
    return version, topic_table(
        [_topic(name, _object(topic, "topic")) for name, topic in entries.items()],
        [_mapping(name, _object(info, "mapping")) for name, info in mappings.items()],
    )


def _topic(key: str, value: Record) -> Record:
    name = value.get("topicName")
    return {
        "topic": name if isinstance(name, str) else key,
        "read_queue_nums": _integer(value, "readQueueNums", DEFAULT_QUEUE_NUMS),
        "write_queue_nums": _integer(value, "writeQueueNums", DEFAULT_QUEUE_NUMS),
        "perm": _integer(value, "perm", DEFAULT_PERM),
        "topic_sys_flag": _integer(value, "topicSysFlag", 0),
    }


def _mapping(key: str, value: Record) -> Record:
    ids = value.get("currIdMap")
    topic, bname, scope = value.get("topic"), value.get("bname"), value.get("scope", "__global__")
    return {
        "topic": topic if isinstance(topic, str) else key,
        "bname": bname if isinstance(bname, str) else None,
        "total_queues": _integer(value, "totalQueues", 0),
        "epoch": _integer(value, "epoch", 0, LONG),
        "dirty": value.get("dirty", False) in (True, "true"),
        "scope": scope if isinstance(scope, str) else None,
        "curr_id_map": None if ids is None else canonical_json(_object(ids, "currIdMap")),
    }


def _queue_data(value: Record) -> Record:
    name = value.get("brokerName")
    return {
        "broker_name": name if isinstance(name, str) else None,
        "read_queue_nums": _integer(value, "readQueueNums", 0),
        "write_queue_nums": _integer(value, "writeQueueNums", 0),
        "perm": _integer(value, "perm", 0),
        "topic_sys_flag": _integer(value, "topicSysFlag", 0),
    }


def _compressed_body(body: bytes, version: int, now_ms: int) -> RegisterBody:
    """Decode the compressed layout: data version, topics as text, filter list, from V5_0_0 on mappings.

    Source: `RegisterBrokerBody.decode`. Such topics have no topicSysFlag: it becomes 0.
    """
    parts = Inflated(body)
    data_version = data_version_of(parse_json(parts.block(), "data version"), now_ms)
    topics: dict[str, Record] = {}
    for _ in range(parts.count("topics")):
        topic = _topic_text(parts.block().decode("utf-8", "replace"))
        topics[topic["topic"]] = topic
    filters = _lenient_strings(parts.block())
    mappings: dict[str, Record] = {}
    if version >= V5_0_0:
        for _ in range(parts.count("mappings")):
            mapping = _mapping("", _object(parse_json(parts.block(), "mapping"), "mapping"))
            mappings[mapping["topic"]] = mapping
    return RegisterBody(data_version, topic_table(list(topics.values()), list(mappings.values())), filters)


def _topic_text(text: str) -> Record:
    """Return a topic from 'name read write perm filterType [attributes]'.

    A space in the name shifts all, as in Java.
    """
    words = text.split(" ")
    if len(words) < 5:
        raise _refused("a topic with fewer than 5 words")
    numbers = [java_int(word) for word in words[1:4]]
    if None in numbers or words[4] not in FILTER_TYPES:
        raise _refused("a topic whose numbers or filter type cannot be read")
    return {
        "topic": words[0],
        "read_queue_nums": numbers[0],
        "write_queue_nums": numbers[1],
        "perm": numbers[2],
        "topic_sys_flag": 0,
    }


def _lenient_strings(raw: bytes) -> list[str] | None:
    """Return the filter list of a compressed body; one that cannot be parsed is empty there."""
    try:
        return _strings(parse_json(raw, "filter list")) if raw else None
    except DecodeError:
        return []


def _strings(value: object) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _refused("a list of filter servers that is no list of strings")
    _require_topics(len(value))
    return list(value)


def _version(state_version: int, timestamp: int, counter: int | None) -> Record:
    return {"state_version": state_version, "timestamp": timestamp, "counter": counter}


def _object(value: object, what: str) -> Record:
    if not isinstance(value, dict):
        raise _refused(f"{what} is no object")
    return value


def _integer(fields: Record, name: str, default: int, bounds: tuple[int, int] = INT) -> int:
    """Return a field as Java's JSON reader sets it.

    Absent or null leaves the default, text and whole fractions are cast.
    """
    number: object = fields.get(name)
    if type(number) is int and bounds[0] <= number <= bounds[1]:
        return number
    if number is None:
        return default
    if isinstance(number, str):
        number = java_long(number)
    elif isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not bounds[0] <= number <= bounds[1]:
        raise _refused(f"{name}: a number that cannot be read or is out of range")
    return number


def _require_topics(count: int) -> None:
    if count > MAX_TOPICS:
        raise DecodeError(Reason.TOO_MANY_TOPICS, f"{count} entries, at most {MAX_TOPICS}")


def _refused(detail: str) -> DecodeError:
    return DecodeError(Reason.BAD_BODY, detail)
