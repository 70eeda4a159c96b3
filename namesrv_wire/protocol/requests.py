"""What a request or an answer becomes: the columns of its bronze row.

Header fields are read by the core (`namesrv_core.asking.requests`), so that a row holds what the name server's logic sees.
"""

from __future__ import annotations

import zlib
from itertools import chain

from namesrv_core.asking.answers import CRC32_MISMATCH, MISSING_BROKER_ID, UNDECODABLE_BODY, refusal_told
from namesrv_core.asking.requests import RegisterHeader, broker_header, crc32_matches, java_boolean, register_header
from namesrv_core.inference.configuration import told_text
from namesrv_core.machine.codes import RequestCode, ResponseCode
from namesrv_core.machine.profile import profile_of_version
from namesrv_wire.codes import EVENT_TABLES, request_name
from namesrv_wire.errors import LIMITS, DecodeError
from namesrv_wire.json_text import canonical_json
from namesrv_wire.protocol.bodies import BodyCache, TopicTable, decode_data_version, decode_queue_datas
from namesrv_wire.protocol.frames import Frame
from namesrv_wire.rows import Row, Values
from namesrv_wire.values import require_short

_HARD = "hard: "
"""How the `refusal` begins of a registration that only some releases can read."""
_TOLD_FIELDS = ("addTopicCount", "changed", "haServerAddr", "masterAddr", "value", "wipeTopicCount")
_NAMES = frozenset(
    {
        *("cluster_name", "broker_name", "broker_addr", "ha_server_addr", "zone_name", "topic", "bname", "scope"),
        *("namespace", "config_key", "subject"),
    }
)
_NO_RESPONSE: Values = dict.fromkeys(("response_code", "response_remark", "response_fields", "response_body"))


def request_columns(frame: Frame, event_ms: int, bodies: BodyCache) -> tuple[Values, TopicTable | None]:
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
        body_columns, topics = _register_body_columns(frame, header, event_ms, bodies)
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


def asks_standard_json(frame: Frame) -> bool:
    """Return whether a route question (105) accepts standard JSON only."""
    return frame.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and bool(
        java_boolean(frame.ext.get("acceptStandardJsonOnly"))
    )


def _register_body_columns(
    frame: Frame, header: RegisterHeader, event_ms: int, bodies: BodyCache
) -> tuple[Values, TopicTable | None]:
    """Return what a registration's body says, or why the request layer refused it."""
    refusal: str | None = None
    topics: TopicTable | None = None
    hard: tuple[str, ...] = ()
    columns: Values = dict.fromkeys(("data_version", "topic_config_digest", "topic_count", "filter_servers"))
    if not crc32_matches(header, zlib.crc32(frame.body) & 0x7FFFFFFF if frame.body else None):
        refusal = CRC32_MISMATCH
    else:
        try:
            body = bodies.decode(frame.body, compressed=header.compressed, version=frame.version, now_ms=event_ms)
        except DecodeError as error:
            if error.reason in LIMITS:
                raise
            refusal = UNDECODABLE_BODY
        else:
            topics, hard = body.topics, body.hard
            columns = {
                "data_version": body.data_version,
                "topic_config_digest": topics.digest if topics else None,
                "topic_count": len(topics.topics) if topics else None,
                "filter_servers": body.filter_servers,
            }
    if refusal is None and broker_header(frame.ext).broker_id is None:
        refusal = MISSING_BROKER_ID
    if refusal is None and hard:
        refusal = _HARD + " ".join(hard)
    return columns | {"refusal": refusal}, topics


def refused_as(said: Values, answered: Values, namesrv_version: int | None) -> str | None:
    """Return why a registration was refused, which says and was answered this: by itself, by that release, by its answer.

    `said` as of `request_columns`, where the release was not known.
    """
    refusal: str | None = said["refusal"]
    if refusal is not None and refusal.startswith(_HARD):
        hard = refusal.removeprefix(_HARD).split(" ")
        unreadable = () if namesrv_version is None else profile_of_version(namesrv_version).unreadable
        was_taken = answered.get("response_code") == ResponseCode.SUCCESS
        refusal = UNDECODABLE_BODY if not was_taken and any(word in unreadable for word in hard) else None
    return refusal or refusal_told(answered.get("response_code"), answered.get("response_remark"), said["topic_count"])


def _admin_columns(frame: Frame) -> Values:
    code, ext = frame.code, frame.ext.get
    kv = code in (100, 102)
    value = ext("value") if code == 100 else None
    if code == RequestCode.UPDATE_NAMESRV_CONFIG and frame.body:
        value = told_text(frame.body.decode("utf-8", "replace"))
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


def response_columns(response: Frame) -> Values:
    """Return the columns that the response to an event adds to its row."""
    return {
        "response_code": response.code,
        "response_remark": response.remark,
        "response_fields": fields_json(response) or "{}",  # not null: it was recorded
        "response_body": body_text(response),
    }


def fields_json(response: Frame) -> str | None:
    """Return the header fields of a response that say something about the registry, as JSON; None for none."""
    told = {name: response.ext[name] for name in _TOLD_FIELDS if response.ext.get(name) is not None}
    return canonical_json(told) if told else None


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
