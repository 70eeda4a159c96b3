"""Request bodies: registrations in their layouts, data versions, topic routes, configuration text.

Source: 4.9.7 and 5.4.0 `RegisterBrokerBody.decode`, `TopicConfig.decode`,
`DefaultRequestProcessor.registerBroker`.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable
from io import BytesIO
from typing import Any, Final, NamedTuple

from namesrv_core.asking.requests import java_int
from namesrv_core.machine.profile import MORE_WORDS, NO_MAPPINGS, NO_UTF8
from namesrv_wire.codes import V3_0_11, V5_0_0
from namesrv_wire.errors import (
    INFLATE_FREE_BYTES,
    INFLATE_STEP_BYTES,
    MAX_INFLATE_RATIO,
    MAX_INFLATED_BYTES,
    MAX_TOPICS,
    DecodeError,
    Reason,
)
from namesrv_wire.json_text import (
    INT,
    LONG,
    ambiguous,
    canonical_json,
    java_integer,
    java_text,
    object_of,
    parse_json,
    text_of,
)

DEFAULT_QUEUE_NUMS: Final = 16
"""Source: `TopicConfig.readQueueNums`, `writeQueueNums` when the JSON has none."""
DEFAULT_PERM: Final = 6
FILTER_TYPES: Final = frozenset({"SINGLE_TAG", "MULTI_TAG"})
_FILTER_VALUES: Final = (None, 0, 1, "SINGLE_TAG", "MULTI_TAG")
_NO_NAMES: Final[frozenset[str]] = frozenset()
_REGISTRATION: Final = frozenset({"topicConfigSerializeWrapper", "filterServerList"})
_WRAPPER: Final = frozenset(
    {
        *("topicConfigTable", "dataVersion", "topicQueueMappingInfoMap"),
        *("topicQueueMappingDetailMap", "mappingDataVersion"),
    }
)
_DATA_VERSION: Final = frozenset({"stateVersion", "timestamp", "counter"})
_TOPIC: Final = frozenset(
    {
        *("topicName", "readQueueNums", "writeQueueNums", "perm", "topicSysFlag"),
        *("topicFilterType", "order", "attributes"),
    }
)
_MAPPING: Final = frozenset({"topic", "scope", "totalQueues", "bname", "epoch", "dirty", "currIdMap"})
_ROUTE: Final = frozenset(
    {
        *("queueDatas", "brokerDatas", "filterServerTable", "orderTopicConf", "topicQueueMappingByBroker"),
        *("topicQueueMappingInfo",),
    }
)
_QUEUE_COLUMNS: Final = {
    "read_queue_nums": "readQueueNums",
    "write_queue_nums": "writeQueueNums",
    "perm": "perm",
    "topic_sys_flag": "topicSysFlag",
}
_QUEUE: Final = frozenset({"brokerName", "readQueueNums", "writeQueueNums", "perm", "topicSysFlag", "topicSynFlag"})
_INTEGER_KEY = re.compile(r"-?[0-9]{1,9}")
_CHUNK_BYTES = 4_096

Record = dict[str, Any]


class TopicTable(NamedTuple):
    """The topics and mappings of a registration; `digest` identifies the content, whatever its order."""

    digest: str
    topics: list[Record]
    mappings: list[Record]


class RegisterBody(NamedTuple):
    """A decoded registration body.

    `topics` is None for a null topic table, `filter_servers` None for a null list. `hard`: what not every release can
    read, words of `Profile.unreadable`.
    """

    data_version: Record | None
    topics: TopicTable | None
    filter_servers: list[str] | None
    hard: tuple[str, ...] = ()


def decode_register_body(body: bytes, *, compressed: bool, version: int, now_ms: int) -> RegisterBody:
    """Return the content of a REGISTER_BROKER body.

    `version` is the request's protocol version: from V3_0_11 on the body is a `RegisterBrokerBody`, before it
    is the topic wrapper alone and the filter list null. `now_ms` is the server's clock, which a data
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
    try:
        value = parse_json(body, "register body")
    except DecodeError as error:
        if whole or error.reason is not Reason.BAD_JSON or not isinstance(error.__cause__, UnicodeDecodeError):
            raise
        return RegisterBody(None, None, None, (NO_UTF8,))
    if not whole:
        return RegisterBody(*_wrapper(value, now_ms, mapped=False), None)
    if value is None:
        raise _refused("null for a register body")
    fields = object_of(value, _REGISTRATION, "register body")
    filters = _strings(fields["filterServerList"]) if "filterServerList" in fields else []
    return RegisterBody(*_wrapper(fields.get("topicConfigSerializeWrapper", {}), now_ms, mapped=True), filters)


def decode_data_version(body: bytes, now_ms: int) -> Record | None:
    """Return the data version in the body of QUERY_DATA_VERSION, None for no body or null."""
    return data_version_of(parse_json(body, "data version"), now_ms) if body else None


def data_version_of(value: object, now_ms: int) -> Record | None:
    """Return a data version: no counter is 0, a null one None; no timestamp is the server's clock."""
    if value is None:
        return None
    fields = object_of(value, _DATA_VERSION, "data version")
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
    if route is None:
        return None
    fields = object_of(route, _ROUTE, "topic route")
    if fields.get("queueDatas", ()) is None:
        return None
    queues = _list(fields.get("queueDatas"), "queueDatas")
    return [
        {"broker_name": text_of(each.get("brokerName"), "brokerName")}
        | {column: _integer(each, name, 0) for column, name in _QUEUE_COLUMNS.items()}
        for each in (object_of(queue, _QUEUE, "queue data") for queue in queues)
    ]


def topic_table(topics: list[Record], mappings: list[Record]) -> TopicTable:
    """Return a topic table with its digest."""
    digest = content_digest([tuple(topic.values()) for topic in topics], [tuple(m.values()) for m in mappings])
    return TopicTable(digest, topics, mappings)


def content_digest(topics: Iterable[tuple[Any, ...]], mappings: Iterable[tuple[Any, ...]]) -> str:
    """Return the digest of topics and mappings, each as its values: SHA-256 over canonical JSON, sorted, first 32 hex digits."""
    ordered = [sorted(topics), sorted(mappings, key=canonical_json)]
    return hashlib.sha256(canonical_json(ordered).encode()).hexdigest()[:32]


def _wrapper(value: object, now_ms: int, *, mapped: bool) -> tuple[Record | None, TopicTable | None]:
    """Return version and topics of a topic wrapper; the class that old requests decode into has no mappings."""
    if value is None:
        return None, None
    fields = object_of(value, _WRAPPER, "topic wrapper")
    version = data_version_of(fields["dataVersion"], now_ms) if "dataVersion" in fields else _version(0, now_ms, 0)
    data_version_of(fields.get("mappingDataVersion"), now_ms)
    _entries(fields.get("topicQueueMappingDetailMap"), "topicQueueMappingDetailMap")
    infos = _entries(fields.get("topicQueueMappingInfoMap") if mapped else None, "topicQueueMappingInfoMap")
    mappings = [_mapping(name, info) for name, info in infos.items()]
    table = fields.get("topicConfigTable", {})
    if table is None:
        return version, None
    topics = [_topic(name, topic) for name, topic in _entries(table, "topicConfigTable").items()]
    return version, topic_table(topics, mappings)


def _entries(value: object, what: str) -> Record:
    entries = {} if value is None else object_of(value, _NO_NAMES, what)
    _require_topics(len(entries))
    return entries


def _topic(key: str, value: object) -> Record:
    fields = object_of(value, _TOPIC, "topic")
    if not (
        fields.get("topicFilterType") in _FILTER_VALUES
        and not isinstance(fields.get("topicFilterType"), bool)
        and fields.get("order") in (None, True, False)
        and (fields.get("attributes") is None or isinstance(fields["attributes"], dict))
    ):
        raise ambiguous("a topic whose filter type, order or attributes are of another type")
    name = text_of(fields.get("topicName"), "topicName")
    return {
        "topic": key if name is None else name,
        "read_queue_nums": _integer(fields, "readQueueNums", DEFAULT_QUEUE_NUMS),
        "write_queue_nums": _integer(fields, "writeQueueNums", DEFAULT_QUEUE_NUMS),
        "perm": _integer(fields, "perm", DEFAULT_PERM),
        "topic_sys_flag": _integer(fields, "topicSysFlag", 0),
    }


def _mapping(key: str, value: object) -> Record:
    fields = object_of(value, _MAPPING, "mapping")
    ids = fields.get("currIdMap", {})
    if ids is not None and not all(_INTEGER_KEY.fullmatch(key) for key in object_of(ids, _NO_NAMES, "currIdMap")):
        raise ambiguous("a queue id that is no number")
    if fields.get("dirty") not in (None, True, False):
        raise ambiguous("dirty is no truth value")
    topic = text_of(fields.get("topic"), "topic")
    return {
        "topic": key if topic is None else topic,
        "bname": text_of(fields.get("bname"), "bname"),
        "total_queues": _integer(fields, "totalQueues", 0),
        "epoch": _integer(fields, "epoch", 0, LONG),
        "dirty": bool(fields.get("dirty")),
        "scope": text_of(fields.get("scope", "__global__"), "scope"),
        "curr_id_map": None
        if ids is None
        else canonical_json({str(int(key)): _integer(ids, key, None) for key in ids}),
    }


def _compressed_body(body: bytes, version: int, now_ms: int) -> RegisterBody:
    """Decode the compressed layout: data version, topics as text, filter list, from V5_0_0 on mappings.

    Source: `RegisterBrokerBody.decode`. Such topics have no topicSysFlag: it becomes 0.
    """
    parts = Inflated(body)
    data_version = decode_data_version(parts.block(), now_ms)
    topics: dict[str, Record] = {}
    more_words = False
    for _ in range(parts.count("topics")):
        topic, words = _topic_text(java_text(parts.block()))
        topics[topic["topic"]] = topic
        more_words |= words > 5
    filters, raw = None, parts.block()
    if raw:
        try:
            filters = _strings(parse_json(raw, "filter list"))
        except DecodeError as error:  # a list that cannot be parsed is empty there
            if error.reason is not Reason.BAD_JSON or not raw.strip():
                raise ambiguous(f"filter list: {error.detail}") from error
            filters = []
    mappings: dict[str, Record] = {}
    if version >= V5_0_0:
        for _ in range(parts.count("mappings")):
            mapping = _mapping("", parse_json(parts.block(), "mapping"))
            mappings[mapping["topic"]] = mapping
    table = topic_table(list(topics.values()), list(mappings.values()))
    # What is behind the fifth word came with 5.0, and so did the mappings.
    hard = (*([MORE_WORDS] if more_words else ()), *([NO_MAPPINGS] if version < V5_0_0 else ()))
    return RegisterBody(data_version, table, filters, hard)


def _topic_text(text: str) -> tuple[Record, int]:
    """Return a topic from 'name read write perm filterType [attributes]', and of how many words it is.

    A space in the name shifts all, as in Java.
    """
    words = text.rstrip(" ").split(" ")
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
    }, len(words)


def _strings(value: object) -> list[str] | None:
    if value is None:
        return None
    texts = [text_of(item, "a filter server") for item in _list(value, "filter list")]
    if None in texts:
        raise ambiguous("a filter server that is null")
    return [text for text in texts if text is not None]


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ambiguous(f"{what} is no list")
    _require_topics(len(value))
    return value


def _version(state_version: int, timestamp: int, counter: int | None) -> Record:
    return {"state_version": state_version, "timestamp": timestamp, "counter": counter}


def _integer(fields: Record, name: str, default: int | None, bounds: tuple[int, int] = INT) -> int:
    """Return a field as Java's JSON readers set it; `default` if it is absent.

    Null becomes 0 in one of them and leaves the default in the other.
    """
    value = fields.get(name, default)
    if type(value) is int and bounds[0] <= value <= bounds[1]:
        return value
    if value is None and default != 0:
        raise ambiguous(f"{name} is null")
    return java_integer(value, bounds, name)


def _require_topics(count: int) -> None:
    if count > MAX_TOPICS:
        raise DecodeError(Reason.TOO_MANY_TOPICS, f"{count} entries, at most {MAX_TOPICS}")


def _refused(detail: str) -> DecodeError:
    return DecodeError(Reason.BAD_BODY, detail)


class Inflated:
    """Reads a zlib stream part by part and inflates no further than it is asked for.

    Java's stream does the same, so what is behind the last part is never looked at.
    """

    def __init__(self, packed: bytes) -> None:
        self._inflater, self._packed = zlib.decompressobj(), BytesIO(packed)
        self._pending = b""
        """What was read of `packed`, and the inflater has not looked at yet."""
        self._total = 0

    def block(self) -> bytes:
        """Return the next part: a four-byte length and that many bytes. Raises `DecodeError`."""
        size = self._int()
        if size < 0:
            raise DecodeError(Reason.BAD_BODY, f"a part of {size} bytes")
        return self._take(size)

    def count(self, what: str) -> int:
        """Return the next number, a count of `what`. Raises `DecodeError` above the limit."""
        number = self._int()
        if number > MAX_TOPICS:
            for _ in range(MAX_TOPICS):  # a count that is a lie is refused by the server as well
                self._take(max(self._int(), 0))
            raise DecodeError(Reason.TOO_MANY_TOPICS, f"{number} {what}, at most {MAX_TOPICS}")
        return number

    def _int(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def _take(self, size: int) -> bytes:
        """Return the next `size` bytes. The stream is inflated to their end: damage behind it does no harm."""
        whole = bytearray()
        while len(whole) < size:
            self._pending = self._pending or self._packed.read(_CHUNK_BYTES)
            at_end = not self._pending or self._inflater.eof
            try:
                more = self._inflater.decompress(self._pending, min(size - len(whole), INFLATE_STEP_BYTES))
            except zlib.error as error:
                raise DecodeError(Reason.BAD_BODY, f"no zlib stream ({str(error)[:80]})") from None
            self._pending = self._inflater.unconsumed_tail
            if at_end and not more:
                raise DecodeError(Reason.BAD_BODY, f"the inflated body ends before a part of {size} bytes")
            whole += more
            self._total += len(more)
            used = self._packed.tell() - len(self._pending)
            is_beyond = self._total > INFLATE_FREE_BYTES and self._total > MAX_INFLATE_RATIO * max(used, 1)
            if self._total > MAX_INFLATED_BYTES or is_beyond:
                raise DecodeError(Reason.INFLATED_TOO_BIG, f"{used} bytes inflate to more than {self._total}")
        return bytes(whole)
