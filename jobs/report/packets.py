"""What the packets behind events say, in words: code, header fields by RocketMQ's names, the body in short, the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jobs.printable import printable
from jobs.store.coverage import text_of
from namesrv_wire.codes import request_name, version_name

_LONGEST = 800
_FIELDS: Mapping[str, str] = {
    "cluster_name": "clusterName",
    "broker_name": "brokerName",
    "broker_addr": "brokerAddr",
    "broker_id": "brokerId",
    "ha_server_addr": "haServerAddr",
    "enable_acting_master": "enableActingMaster",
    "heartbeat_timeout_ms": "heartbeatTimeoutMillis",
    "zone_name": "__ZONE_NAME",
    "topic": "topic",
    "namespace": "namespace",
    "config_key": "key",
    "config_value": "value",
    "refusal": "refused",
    "kind": "what",
    "closed_by": "closed by",
    "silent_ms": "silent, ms",
    "pending_requests": "requests without answer",
    "evidence": "as the recording shows",
    "properties": "properties",
    "response_remark": "answer's remark",
    "response_fields": "answer's fields",
    "response_body": "answer's body",
}
"""Columns of the tables of events that are said as they are, in this order, and what they are called."""


def said_of(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a row of `schemas/sql/report/packets.sql` as names with values, printable and cut where they are very long."""
    return [
        (name, value) for name, value in ((name, _cut(value)) for name, value in _parts(row)) if value not in ("", "{}")
    ]


def _parts(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    code = row["code"]
    if code is not None:
        how = ", one-way" if row["one_way"] else ""
        yield "request", f"{request_name(code).upper()} ({code}){how}, version {version_name(row['request_version'])}"
    yield "received", text_of(row["event_time"])
    yield "took effect", text_of(row["effect_time"])
    via = "" if row["proxied_addr"] is None else f", for {row['proxied_addr']}"
    yield "connection", None if row["channel_id"] is None else f"{row['channel_id']}{via}"
    *asked, remark, fields, body = ((label, row[name]) for name, label in _FIELDS.items())
    yield from asked
    if row["body_bytes"]:
        packed = ", compressed" if row["compressed"] else ""
        yield "body", f"{row['body_bytes']:,} bytes{packed}"
    if (version := row["data_version"]) is not None:
        yield "dataVersion", ", ".join(f"{name} {value}" for name, value in version.items() if value is not None)
    if row["topics"]:
        more = (row["topic_count"] or 0) - len(row["topics"])
        yield "topics", "; ".join([*map(_topic, row["topics"]), *([f"{more:,} more"] if more > 0 else [])])
    yield "filterServerList", row["filter_servers"] and ", ".join(row["filter_servers"])
    yield "queueDatas", row["queue_datas"] and "; ".join(map(_topic, row["queue_datas"]))
    if code is not None:
        yield "answer", "none was seen" if row["response_code"] is None else f"code {row['response_code']}"
    yield from (remark, fields, body)
    yield "recorded in", f"{row['source_file']}, packet or line {row['source_offset']:,}"


def _topic(one: Mapping[str, Any]) -> str:
    name = one.get("topic", one.get("broker_name"))
    return f"{name} (read {one['read_queue_nums']}, write {one['write_queue_nums']}, perm {one['perm']})"


def _cut(value: object) -> str:
    shown = "" if value is None else printable(str(value))
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
