"""What a request or an answer becomes: the columns of its bronze row.

Brokers and clients send the same bytes again and again, but for the number of the request: frames are decoded once. One is known
by its header without that number, and its body. Everything else is in the key, the length of the header included, so that nobody
can have a frame taken for another one. Header fields are read by the core (`namesrv_core.asking.requests`), so that a row holds
what the name server's logic sees.
"""

from __future__ import annotations

import re
import zlib
from functools import cached_property
from itertools import chain
from struct import Struct
from typing import Final, TypeVar

from namesrv_core.asking.answers import CRC32_MISMATCH, MISSING_BROKER_ID, UNDECODABLE_BODY, question_of, refusal_of
from namesrv_core.asking.requests import RegisterHeader, broker_header, crc32_matches, java_boolean, register_header
from namesrv_core.inference.settings import change_text
from namesrv_core.machine.codes import RequestCode, ResponseCode
from namesrv_core.machine.profile import profile_of_version
from namesrv_wire.codes import EVENT_TABLES, OBSERVED, request_name
from namesrv_wire.errors import KNOWN_FRAMES_BYTES, LIMITS, MAX_KNOWN_FRAME_BYTES, DecodeError
from namesrv_wire.json_text import canonical_json, require_short
from namesrv_wire.protocol.bodies import TopicTable, decode_data_version, decode_queue_datas, decode_register_body
from namesrv_wire.protocol.frames import JSON, ROCKETMQ, Frame, decode_frame
from namesrv_wire.rows import Row, Values

_K = TypeVar("_K")
_V = TypeVar("_V")
_HARD = "hard: "
"""How the `refusal` begins of a registration that only some releases can read."""
_FIELDS = ("addTopicCount", "changed", "haServerAddr", "masterAddr", "value", "wipeTopicCount")
_NAMES = frozenset(
    {
        *("cluster_name", "broker_name", "broker_addr", "ha_server_addr", "zone_name", "topic", "bname", "scope"),
        *("namespace", "config_key", "subject"),
    }
)
_NO_RESPONSE: Values = dict.fromkeys(("response_code", "response_remark", "response_fields", "response_body"))


def request_columns(frame: Frame, event_ms: int) -> tuple[Values, TopicTable | None]:
    """Return the columns that a request adds to its envelope, and the topic table of a registration.

    `event_ms` is the time of arrival, for data versions without a timestamp. Raises `DecodeError` for a body or a name
    beyond our limits, or a body that the name server could not decode (a registration is then kept, with its `refusal`,
    which is not final: `refused_as`).
    """
    table, topics = EVENT_TABLES[frame.code], None
    columns: Values = {
        "code": frame.code,
        "one_way": frame.is_one_way,
        "request_version": frame.version,
        **_NO_RESPONSE,
    }
    if table == "admin_events":
        columns |= _admin_columns(frame)
    else:
        columns |= broker_header(frame.ext)._asdict()
    if table == "heartbeats":
        columns["data_version"] = decode_data_version(frame.body, event_ms) if frame.code == 322 else None
    elif table == "registrations":
        header = register_header(frame.ext)
        body_columns, topics = _register_body_columns(frame, header, event_ms)
        columns |= {
            "ha_server_addr": header.ha_server_addr,
            "enable_acting_master": header.enable_acting_master,
            "heartbeat_timeout_ms": header.heartbeat_timeout_ms,
            "zone_name": header.zone_name,
            **body_columns,
            "compressed": header.compressed,
            "body_bytes": len(frame.body),
        }
    require_short_names(columns)
    for queue in columns.get("queue_datas") or ():
        require_short_names(queue)
    for filter_server in columns.get("filter_servers") or ():
        require_short("filter_servers", filter_server)
    for record in chain(topics.topics, topics.mappings) if topics is not None else ():
        require_short_names(record)
    return columns, topics


def require_short_names(columns: Values) -> None:
    """Raise `DecodeError` if one of the names among some columns is longer than a name is."""
    for what in _NAMES & columns.keys():
        require_short(what, columns[what])


def _register_body_columns(frame: Frame, header: RegisterHeader, event_ms: int) -> tuple[Values, TopicTable | None]:
    """Return what a registration's body says, or why the request layer refused it."""
    columns: Values = dict.fromkeys(("data_version", "topic_config_digest", "topic_count", "filter_servers", "refusal"))
    if not crc32_matches(header, zlib.crc32(frame.body) & 0x7FFFFFFF if frame.body else None):
        return columns | {"refusal": CRC32_MISMATCH}, None
    try:
        body = decode_register_body(frame.body, compressed=header.compressed, version=frame.version, now_ms=event_ms)
    except DecodeError as error:
        if error.reason in LIMITS:
            raise
        return columns | {"refusal": UNDECODABLE_BODY}, None
    topics, refusal = body.topics, _HARD + " ".join(body.hard) if body.hard else None
    if broker_header(frame.ext).broker_id is None:
        refusal = MISSING_BROKER_ID
    if topics is not None:
        columns |= {"topic_config_digest": topics.digest, "topic_count": len(topics.topics)}
    own = {"data_version": body.data_version, "filter_servers": body.filter_servers, "refusal": refusal}
    return columns | own, topics


def refused_as(columns: Values, answered: Values, namesrv_version: int | None) -> str | None:
    """Return why a registration was refused, by its columns: by itself, by that release, by its answer.

    `columns` as of `request_columns`, where the release was not known.
    """
    refusal: str | None = columns["refusal"]
    if refusal is not None and refusal.startswith(_HARD):
        hard = refusal.removeprefix(_HARD).split(" ")
        unreadable = () if namesrv_version is None else profile_of_version(namesrv_version).unreadable
        was_taken = answered.get("response_code") == ResponseCode.SUCCESS
        refusal = UNDECODABLE_BODY if not was_taken and any(word in unreadable for word in hard) else None
    return refusal or refusal_of(answered.get("response_code"), answered.get("response_remark"), columns["topic_count"])


def _admin_columns(frame: Frame) -> Values:
    code, ext = frame.code, frame.ext.get
    kv = code in (100, 102)
    value = ext("value") if code == 100 else None
    if code == RequestCode.UPDATE_NAMESRV_CONFIG and frame.body:
        value = change_text(frame.body.decode("utf-8", "replace"))
    return {
        "operation": request_name(code),
        "broker_name": ext("brokerName") if code in (205, 327) else None,
        "cluster_name": ext("clusterName") if code == 216 else None,
        "topic": ext("topic") if code in (216, 217) else None,
        "queue_datas": decode_queue_datas(frame.body) if code == 217 else None,
        "namespace": ext("namespace") if kv else None,
        "config_key": ext("key") if kv else None,
        "config_value": value,
    }


def fields_json(response: Frame) -> str | None:
    """Return the header fields of a response that say something about the registry, as JSON; None for none."""
    fields = {name: response.ext[name] for name in _FIELDS if response.ext.get(name) is not None}
    return canonical_json(fields) if fields else None


def body_text(frame: Frame) -> str | None:
    """Return a body as text; None for none."""
    return frame.body.decode("utf-8", "replace") if frame.body else None


def topic_configs_row(table: TopicTable) -> Row:
    """Return the row that stores a topic table under its digest."""
    return Row(
        "topic_configs",
        {
            "topic_config_digest": table.digest,
            "topics": table.topics,
            "mappings": table.mappings,
            "topic_count": len(table.topics),
        },
    )


_NAME: Final = b'"opaque":'  # of 9 bytes
_NUMBER: Final = re.compile(rb"(?:0|-?[1-9][0-9]{0,9})(?=[,}])")
_MOST: Final = 0x7FFFFFFF
_LENGTHS: Final = Struct(">II")
_OPAQUE: Final = Struct(">i")
# What a frame takes as objects, beyond its bytes.
_OBJECT_BYTES: Final = 2_048


class Kept(dict[_K, _V]):
    """What was made of bytes that may come again, bounded in bytes: all is forgotten together."""

    kept_bytes = 0

    def keep(self, key: _K, value: _V, size: int) -> bool:
        """Keep a value that takes `size` bytes, unless that is too much; return whether it is kept."""
        if size > MAX_KNOWN_FRAME_BYTES:
            return False
        if self.kept_bytes + size > KNOWN_FRAMES_BYTES:
            self.clear()
            self.kept_bytes = 0
        self[key] = value
        self.kept_bytes += size
        return True


class KnownFrame:
    """A decoded frame, whatever its opaque, and what rows are made of it, made when it is asked for and once."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.is_kept = False
        self.request_name = f"request:{frame.code}"
        """What a request is counted under that is no event."""
        self._request: tuple[Values, TopicTable | None] | None = None

    def request(self, event_ms: int) -> tuple[Values, TopicTable | None]:
        """As `requests.request_columns`."""
        if self._request is not None:
            return self._request
        found = request_columns(self.frame, event_ms)
        # A data version without a time has that of arrival: it is another for each frame.
        version = found[0].get("data_version")
        if self.is_kept and (version is None or version["timestamp"] != event_ms):
            self._request = found
        return found

    @cached_property
    def question(self) -> Values | None:
        """What a request adds to the row of its answer; None for one whose answers are not observed.

        Raises `DecodeError` for a name beyond our limits.
        """
        frame = self.frame
        if frame.code not in OBSERVED:
            return None
        is_asked = java_boolean(frame.ext.get("acceptStandardJsonOnly"))
        standard_json = bool(is_asked) and frame.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
        asked = question_of(frame.code, frame.ext, standard_json=standard_json)
        question = {
            "code": frame.code,
            "subject": asked.subject,
            "scope": asked.scope,
            "standard_json": standard_json,
            "request_version": frame.version,
            "language": frame.language,
        }
        require_short_names(question)
        return question

    @cached_property
    def answer(self) -> Values:
        """The columns that the response to an event adds to its row."""
        return {
            "response_code": self.frame.code,
            "response_remark": self.frame.remark,
            "response_fields": fields_json(self.frame) or "{}",  # not null: it was recorded
            "response_body": body_text(self.frame),
        }

    @cached_property
    def observed(self) -> Values:
        """What an answer to a question adds to its row."""
        return {
            "response_code": self.frame.code,
            "response_version": self.frame.version,
            "remark": self.frame.remark,
            "response_fields": fields_json(self.frame),
            "body": body_text(self.frame),
        }


class KnownFrames:
    """Decodes frames; equal ones, and ones that differ only in their opaque, once."""

    def __init__(self) -> None:
        self._known = Kept[tuple[bytes, bytes], KnownFrame]()

    def decode(self, data: bytes) -> tuple[KnownFrame, int]:
        """Return the frame in `data`, its length bytes included, and its opaque. Raises `DecodeError` and nothing else."""
        place, opaque = _place_of(data)
        known = None if place is None else self._known.get(place)
        if known is not None:
            return known, opaque
        known = KnownFrame(decode_frame(data))
        # What was taken for the opaque is that and nothing else: in a JSON header that has its name once, and spells no letter
        # as a number, no other key and no value can be it.
        header = data[8 : 8 + int.from_bytes(data[5:8], "big")]
        is_exact = known.frame.serialization == ROCKETMQ or (header.count(b"opaque") == 1 and b"\\u" not in header)
        if place is not None and known.frame.opaque == opaque and is_exact:
            # A decoded topic table is several times its text.
            factor = 8 if EVENT_TABLES.get(known.frame.code) == "registrations" else 1
            size = sum(map(len, place)) * factor + _OBJECT_BYTES
            known.is_kept = self._known.keep(place, known, size)
        return known, known.frame.opaque


def _place_of(data: bytes) -> tuple[tuple[bytes, bytes] | None, int]:
    """Return what a frame is known by, which is all of it but its opaque, in two parts, and that; None: it is decoded each time."""
    length, word = _LENGTHS.unpack_from(data) if len(data) >= 17 else (0, 0)
    if length == len(data) - 4:
        if word >> 24 == JSON:
            stop = 8 + (word & 0xFFFFFF)
            at = data.find(_NAME, 8, stop) + 9
            number = _NUMBER.match(data, at, stop) if at > 8 else None
            if number is not None and stop <= len(data) and -_MOST <= (opaque := int(number[0])) <= _MOST:
                # The length in front says how many digits there were: else some might be taken for the header's end.
                return (data[4:at] + data[number.end() : stop], data[stop:]), opaque
        elif word >> 24 == ROCKETMQ:
            # Where its body begins its fields say, whatever the length of its header: it is all header here.
            return (data[:13] + data[17:], b""), _OPAQUE.unpack_from(data, 13)[0]
    return None, 0
