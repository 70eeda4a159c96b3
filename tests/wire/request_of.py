"""Frames as the requests that the request layer takes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from namesrv_core.asking.requests import register_header
from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.rows import TopicConfig, TopicQueueMappingInfo, TopicTable
from namesrv_wire.codes import V3_0_11
from namesrv_wire.errors import LIMITS, DecodeError, Reason
from namesrv_wire.json_text import data_version_of, queue_datas_of
from namesrv_wire.protocol.bodies import decode_data_version, decode_queue_datas, decode_register_body
from namesrv_wire.protocol.frames import Frame
from namesrv_wire.protocol.requests import body_text
from tests.core.request_layer import Body, QueueDatas, RegisterBody, Request, Undecodable

_BODY_ERROR = "org.apache.rocketmq.remoting.exception.RemotingCommandException: Failed to decode RegisterBrokerBody"
_VERSION_ERROR = "java.lang.ArrayIndexOutOfBoundsException"


def request_of(frame: Frame, now_ms: int, channel_id: str | None = None) -> Request:
    """Return a frame as the request that the core's dispatch takes.

    `now_ms` stands for the server's clock. A body that the server's JSON reader might understand all the same counts as
    undecodable. Raises `DecodeError` for one beyond our limits only.
    """
    body: Body
    try:
        body = _body_of(frame, now_ms)
    except DecodeError as error:
        if error.reason in LIMITS and error.reason is not Reason.AMBIGUOUS_JSON:
            raise
        body = Undecodable(_error_of(frame))
    return Request(
        frame.code,
        frame.ext,
        frame.version,
        body,
        zlib.crc32(frame.body) & 0x7FFFFFFF if frame.body else None,
        frame.is_one_way,
        channel_id,
    )


def _body_of(frame: Frame, now_ms: int) -> Body:
    if frame.code == RequestCode.REGISTER_BROKER:
        compressed = register_header(frame.ext).compressed
        decoded = decode_register_body(frame.body, compressed=compressed, version=frame.version, now_ms=now_ms)
        return RegisterBody(
            data_version_of(decoded.data_version),
            None if decoded.topics is None else topic_table_of(decoded.topics.topics, decoded.topics.mappings),
            None if decoded.filter_servers is None else tuple(decoded.filter_servers),
        )
    if frame.code == RequestCode.QUERY_DATA_VERSION:
        return data_version_of(decode_data_version(frame.body, now_ms))
    if frame.code == RequestCode.REGISTER_TOPIC_IN_NAMESRV:
        return QueueDatas(queue_datas_of(decode_queue_datas(frame.body)))
    if frame.code == RequestCode.UPDATE_NAMESRV_CONFIG:
        return body_text(frame)
    return None


def _error_of(frame: Frame) -> str:
    """Return how the text of the exception begins that a body which cannot be decoded makes of a request."""
    if frame.code != RequestCode.REGISTER_BROKER:
        return ""
    if frame.version < 0:
        return _VERSION_ERROR
    return _BODY_ERROR if frame.version >= V3_0_11 else ""


def topic_table_of(topics: Sequence[Mapping[str, Any]], mappings: Sequence[Mapping[str, Any]] | None) -> TopicTable:
    """Return the core's topic table of topic and mapping records."""
    configs = [
        TopicConfig(t["topic"], t["read_queue_nums"], t["write_queue_nums"], t["perm"], t["topic_sys_flag"])
        for t in topics
    ]
    return TopicTable(configs, [mapping_of(m) for m in mappings or ()])


def mapping_of(record: Mapping[str, Any]) -> TopicQueueMappingInfo:
    """Return the core's mapping of a record that has one."""
    return TopicQueueMappingInfo(
        record["topic"],
        record["bname"],
        record["total_queues"],
        record["epoch"],
        record["dirty"],
        record["scope"],
        record["curr_id_map"],
    )
