"""What a request or an answer becomes: the columns of its bronze row.

Header fields are read as `RemotingCommand.decodeCommandCustomHeader` does: one that is missing or cannot be
parsed is NULL, the name server logs that and goes on (both generations).
"""

from __future__ import annotations

import zlib

from namesrv_wire.bodies import TopicTable, decode_data_version, decode_queue_datas
from namesrv_wire.body_cache import BodyCache
from namesrv_wire.codes import EVENT_TABLES, request_name
from namesrv_wire.errors import LIMITS, DecodeError
from namesrv_wire.frames import Frame
from namesrv_wire.java_values import java_int, java_long
from namesrv_wire.rows import Row, Values

CRC32_MISMATCH = "crc32_mismatch"
UNDECODABLE_BODY = "undecodable_body"


def request_columns(frame: Frame, event_ms: int, bodies: BodyCache) -> tuple[Values, TopicTable | None]:
    """Return the columns that a request adds to its envelope, and the topic table of a registration.

    `event_ms` is the time of arrival, for data versions without a timestamp. Raises `DecodeError` for a body
    beyond our limits, or one that the name server could not decode (a registration is then kept, with its
    `refusal`).
    """
    table = EVENT_TABLES[frame.code]
    columns: Values = {
        "code": frame.code,
        "one_way": frame.is_one_way,
        "request_version": frame.version,
        "response_code": None,
        "response_remark": None,
    }
    if table == "admin_events":
        return columns | _admin_columns(frame), None
    ext = frame.ext.get
    columns |= {
        "cluster_name": ext("clusterName"),
        "broker_name": ext("brokerName"),
        "broker_addr": ext("brokerAddr"),
        "broker_id": java_long(ext("brokerId")),
    }
    if table == "heartbeats":
        columns["data_version"] = decode_data_version(frame.body, event_ms) if frame.code == 322 else None
    if table != "registrations":
        return columns, None
    body_columns, topics = _register_body_columns(frame, event_ms, bodies)
    acting, zone = ext("enableActingMaster"), ext("__ZONE_NAME")
    return columns | {
        "ha_server_addr": ext("haServerAddr"),
        "enable_acting_master": None if acting is None else acting.lower() == "true",
        "heartbeat_timeout_ms": java_long(ext("heartbeatTimeoutMillis")),
        "zone_name": zone,
        **body_columns,
        "compressed": _is_compressed(frame),
        "body_bytes": len(frame.body),
    }, topics


def _is_compressed(frame: Frame) -> bool:
    return (frame.ext.get("compressed") or "").lower() == "true"


def _register_body_columns(frame: Frame, event_ms: int, bodies: BodyCache) -> tuple[Values, TopicTable | None]:
    """Return what a registration's body says, or why the request layer refused it.

    Source: both generations `DefaultRequestProcessor.registerBroker`: the checksum is compared only if it is
    not 0.
    """
    refusal: str | None = None
    topics: TopicTable | None = None
    columns: Values = {
        "data_version": None,
        "topic_config_digest": None,
        "topic_count": None,
        "filter_servers": None,
    }
    expected = java_int(frame.ext.get("bodyCrc32")) or 0
    if expected and zlib.crc32(frame.body) & 0x7FFFFFFF != expected:
        refusal = CRC32_MISMATCH
    else:
        try:
            body = bodies.decode(frame.body, compressed=_is_compressed(frame), version=frame.version, now_ms=event_ms)
        except DecodeError as error:
            if error.reason in LIMITS:
                raise
            refusal = UNDECODABLE_BODY
        else:
            topics = body.topics
            columns = {
                "data_version": body.data_version,
                "topic_config_digest": topics.digest if topics else None,
                "topic_count": len(topics.topics) if topics else None,
                "filter_servers": body.filter_servers,
            }
    return columns | {"refusal": refusal}, topics


def _admin_columns(frame: Frame) -> Values:
    code, ext = frame.code, frame.ext.get
    kv = code in (100, 102)
    value = ext("value") if code == 100 else None
    if code == 318 and frame.body:
        value = frame.body.decode("utf-8", "replace")
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


def subject_of(frame: Frame) -> str | None:
    """Return what a question is about: the topic of 105, the cluster of 224."""
    return frame.ext.get({105: "topic", 224: "cluster"}.get(frame.code, ""))


def asks_standard_json(frame: Frame) -> bool:
    """Return whether a route question (105) accepts standard JSON only."""
    return frame.code == 105 and (frame.ext.get("acceptStandardJsonOnly") or "").lower() == "true"
