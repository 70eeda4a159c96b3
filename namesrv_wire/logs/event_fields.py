"""The fields of an event log's lines: name, column, type, default."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from namesrv_core.machine.rows import queue_ids_of
from namesrv_wire.errors import DecodeError, Reason
from namesrv_wire.json_text import INT, LONG, Fraction, canonical_json
from namesrv_wire.limits import END_NS, MAX_TOPICS
from namesrv_wire.values import header_fields_of, require_short

Type = Literal[
    "string",
    "text",
    "int",
    "long",
    "position",
    "milliseconds",
    "boolean",
    "strings",
    "data_version",
    "queue_datas",
    "header_fields",
    "queue_ids",
]
Reader = Callable[[str, object], Any]
_DIGITS: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_LIMIT: Final = 1 << 64
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
        response_remark="text",
        response_fields="header_fields",
        response_body="text",
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
    seq="position",
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
            silent_ms="milliseconds",
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
            config_value="text",
        ),
    ),
    "namesrv": Kind(
        "namesrv_events",
        _fields(
            event=Field("kind", "string", REQUIRED, NAMESRV_KINDS),
            version="int",
            evidence=Field("evidence", "string", "event log"),
            properties="text",
        ),
    ),
    "observation": Kind(
        "route_observations",
        _fields(
            code=Field("code", "int", REQUIRED),
            subject="string",
            scope="string",
            request_seq="position",
            standard_json=Field("standard_json", "boolean", False),
            request_version=Field("request_version", "int", 0),
            language="string",
            response_code=Field("response_code", "int", 0),
            response_version=Field("response_version", "int", 0),
            remark="text",
            response_fields="header_fields",
            body="text",
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
    curr_id_map="queue_ids",
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
    read = _READERS[field.type](name, value)
    if field.choices is not None and read not in field.choices:
        raise _bad(f"{name} is none of {', '.join(sorted(field.choices))}")
    return read


def whole_number(value: object) -> int | None:
    """Return the whole number that a JSON value is, or that it writes in quotes or with a point and zeros; None for any other."""
    if isinstance(value, Fraction):
        number = Decimal(value.text)
        return int(number) if -_LIMIT < number < _LIMIT and number == number.to_integral_value() else None
    if isinstance(value, str):
        return int(value) if _DIGITS.fullmatch(value) else None
    return value if type(value) is int else None


def _number(low: int, high: int, kind: str) -> Reader:
    def read(name: str, value: object) -> int:
        number = whole_number(value)
        if number is None or not low <= number <= high:
            raise _bad(f"{name} is no {kind}")
        return number

    return read


def _string(name: str, value: object) -> str:
    text = _text(name, value)
    require_short(name, text)
    return text


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _bad(f"{name} is no string")
    return value


def _boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _bad(f"{name} is no boolean")
    return value


def _list(name: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise _bad(f"{name} is no list")
    if len(value) > MAX_TOPICS:
        raise DecodeError(Reason.TOO_MANY_TOPICS, f"{name}: {len(value)} items, at most {MAX_TOPICS}")
    return value


def records(name: str, fields: Mapping[str, Field], value: object) -> list[dict[str, Any]]:
    """Return a list of objects that have these fields. Raises `DecodeError`."""
    return [_record(name, fields, item) for item in _list(name, value)]


def _record(name: str, fields: Mapping[str, Field], value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad(f"{name} is no object")
    return {key: checked(key, part, value) for key, part in fields.items()}


def _header_fields(name: str, value: object) -> str:
    """Return header fields, an object or its JSON text, as the text that is stored."""
    text = canonical_json(value) if isinstance(value, dict) else _text(name, value)
    return canonical_json(dict(header_fields_of(text)))


def _queue_ids(name: str, value: object) -> str:
    """Return queue ids, an object or its JSON text, as the text that is stored."""
    text = canonical_json(value) if isinstance(value, dict) else _text(name, value)
    try:
        return canonical_json({str(key): queue for key, queue in queue_ids_of(text).items()})
    except ValueError as error:
        raise _bad(f"{name} is no JSON object of queue ids") from error


def _bad(detail: str) -> DecodeError:
    return DecodeError(Reason.BAD_LINE, detail)


_READERS: Final[dict[Type, Reader]] = {
    "string": _string,
    "text": _text,
    "int": _number(*INT, "int"),
    "long": _number(*LONG, "long"),
    "position": _number(0, END_NS - 1, "position in ns since the epoch"),
    "milliseconds": _number(0, END_NS // 1_000_000, "number of milliseconds"),
    "boolean": _boolean,
    "strings": lambda name, value: [_string(name, item) for item in _list(name, value)],
    "data_version": lambda name, value: _record(name, DATA_VERSION, value),
    "queue_datas": lambda name, value: records(name, QUEUE_DATA, value),
    "header_fields": _header_fields,
    "queue_ids": _queue_ids,
}
