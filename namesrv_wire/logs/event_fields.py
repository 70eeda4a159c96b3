"""The fields of an event log's lines: name, column, type, default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from namesrv_wire.errors import DecodeError, Reason
from namesrv_wire.java_values import INT, LONG
from namesrv_wire.limits import MAX_TOPICS

Type = Literal["string", "int", "long", "boolean", "strings", "data_version", "queue_datas"]
REQUIRED: Final = object()
"""Marks a field without default."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: the column it fills, its type, and what stands for it when it is absent."""

    column: str
    type: Type
    default: Any = None
    choices: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of line: its bronze table and its fields."""

    table: str
    fields: dict[str, Field]


def _fields(**fields: Field | Type) -> dict[str, Field]:
    return {name: field if isinstance(field, Field) else Field(name, field) for name, field in fields.items()}


def _request(code: object, **fields: Field | Type) -> dict[str, Field]:
    return _fields(
        code=Field("code", "int", code),
        one_way=Field("one_way", "boolean", False),
        request_version=Field("request_version", "int", 0),
        response_code="int",
        response_remark="string",
        response_fields="string",
        response_body="string",
        **fields,
    )


_BROKER: Final[dict[str, Field | Type]] = {
    "cluster_name": "string",
    "broker_name": "string",
    "broker_addr": "string",
    "broker_id": "long",
}

NAMESRV_KINDS: Final = frozenset(
    {
        "started",
        "stopped",
        "observed_from",
        "identified",
        "configured",
        "idle_limit_outlasted",
        "min_broker_id_notified",
        "recording_gap",
        "clock_went_back",
        "address_started",
        "address_stopped",
        "address_observed_from",
        "address_recording_gap",
    }
)

COMMON: Final = _fields(
    namesrv_id=Field("namesrv_id", "string", REQUIRED),
    namesrv_addr="string",
    time=Field("event_time", "string", REQUIRED),
    effect_time="string",
    seq="long",
    event_id="string",
    channel_id="string",
    proxied_addr="string",
)

KINDS: Final[dict[str, Kind]] = {
    "heartbeat": Kind(
        "heartbeats", _request(REQUIRED, **_BROKER, data_version="data_version", nth=Field("nth", "int", 0))
    ),
    "registration": Kind(
        "registrations",
        _request(
            103,
            **_BROKER,
            ha_server_addr="string",
            enable_acting_master="boolean",
            heartbeat_timeout_ms="long",
            zone_name="string",
            data_version="data_version",
            filter_servers=Field("filter_servers", "strings", ()),
            compressed=Field("compressed", "boolean", False),
            body_bytes=Field("body_bytes", "long", 0),
            refusal="string",
        ),
    ),
    "unregistration": Kind("unregistrations", _request(104, **_BROKER)),
    "channel": Kind(
        "channel_events",
        _fields(
            event=Field("kind", "string", REQUIRED, frozenset({"close", "exception", "idle", "late_close"})),
            closed_by=Field("closed_by", "string", "client", frozenset({"client", "namesrv", "timer"})),
            remote_addr="string",
            silent_ms="long",
            pending_requests=Field("pending_requests", "int", 0),
        ),
    ),
    "admin": Kind(
        "admin_events",
        _request(
            REQUIRED,
            operation="string",
            broker_name="string",
            cluster_name="string",
            topic="string",
            queue_datas="queue_datas",
            namespace="string",
            config_key="string",
            config_value="string",
        ),
    ),
    "namesrv": Kind(
        "namesrv_events",
        _fields(
            event=Field("kind", "string", REQUIRED, NAMESRV_KINDS),
            version="int",
            evidence=Field("evidence", "string", "event log"),
            properties="string",
        ),
    ),
    "observation": Kind(
        "route_observations",
        _fields(
            code=Field("code", "int", REQUIRED),
            subject="string",
            scope="string",
            request_seq="long",
            standard_json=Field("standard_json", "boolean", False),
            request_version=Field("request_version", "int", 0),
            language="string",
            response_code=Field("response_code", "int", 0),
            response_version=Field("response_version", "int", 0),
            remark="string",
            response_fields="string",
            body="string",
            nth=Field("nth", "int", 0),
        ),
    ),
}

DATA_VERSION: Final = _fields(
    state_version=Field("state_version", "long", 0),
    timestamp=Field("timestamp", "long", REQUIRED),
    counter="long",
)
QUEUE_DATA: Final = _fields(
    broker_name="string",
    read_queue_nums=Field("read_queue_nums", "int", REQUIRED),
    write_queue_nums=Field("write_queue_nums", "int", REQUIRED),
    perm=Field("perm", "int", REQUIRED),
    topic_sys_flag=Field("topic_sys_flag", "int", 0),
)
TOPIC: Final = _fields(
    topic=Field("topic", "string", REQUIRED),
    read_queue_nums=Field("read_queue_nums", "int", REQUIRED),
    write_queue_nums=Field("write_queue_nums", "int", REQUIRED),
    perm=Field("perm", "int", REQUIRED),
    topic_sys_flag=Field("topic_sys_flag", "int", 0),
)
MAPPING: Final = _fields(
    topic=Field("topic", "string", REQUIRED),
    bname="string",
    total_queues=Field("total_queues", "int", REQUIRED),
    epoch=Field("epoch", "long", 0),
    dirty=Field("dirty", "boolean", False),
    scope="string",
    curr_id_map="string",
)


def checked(name: str, field: Field, line: object) -> Any:
    """Return the field's value from a line's object, or its default.

    Raises `DecodeError` for a wrong type or range.
    """
    if not isinstance(line, dict):
        raise _bad(f"{name}: its holder is no object")
    if name not in line:
        if field.default is REQUIRED:
            raise _bad(f"{name} is missing")
        return list(field.default) if isinstance(field.default, tuple) else field.default
    value = line[name]
    if value is None:
        if field.default is REQUIRED:
            raise _bad(f"{name} is null")
        return (
            None if field.type in ("strings", "data_version", "queue_datas") or field.default is None else field.default
        )
    if not _fits(field, value):
        raise _bad(f"{name} is no {field.type}" + (f" of {', '.join(sorted(field.choices))}" if field.choices else ""))
    if field.type == "data_version":
        return {key: checked(key, part, value) for key, part in DATA_VERSION.items()}
    if field.type == "queue_datas":
        return [{key: checked(key, part, item) for key, part in QUEUE_DATA.items()} for item in value]
    return value


def _fits(field: Field, value: object) -> bool:
    """Return whether a value has the field's type and is in its range."""
    kind = field.type
    if kind in ("int", "long"):
        low, high = INT if kind == "int" else LONG
        return type(value) is int and low <= value <= high
    if kind == "string":
        return isinstance(value, str) and (field.choices is None or value in field.choices)
    if kind == "strings":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind == "queue_datas":
        return isinstance(value, list) and len(value) <= MAX_TOPICS
    return isinstance(value, bool if kind == "boolean" else dict)


def _bad(detail: str) -> DecodeError:
    return DecodeError(Reason.BAD_LINE, detail)
