"""The fields of an event log's lines: name, column, how a value is read, what stands for one that is absent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from namesrv_core.machine.rows import queue_ids_of
from namesrv_wire.errors import DecodeError, Reason
from namesrv_wire.json_text import INT, LONG, Fraction, canonical_json, header_fields_of, require_short
from namesrv_wire.limits import END_NS, MAX_TOPICS

Reader = Callable[[str, object], Any]
"""Reads the value of a field with this name. Raises `DecodeError` for a wrong type or range."""
_DIGITS: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_LIMIT: Final = 1 << 64
REQUIRED: Final = object()
"""Marks a field without default."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: the column it fills, how it is read, and what stands for it when it is absent, or null but for `null_is_null`."""

    column: str
    read: Reader
    default: Any = None
    choices: frozenset[str] | None = None
    null_is_null: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of line: its bronze table and its fields."""

    table: str
    fields: dict[str, Field]


def checked(name: str, field: Field, line: object) -> Any:
    """Return the field's value from a line's object, or its default. Raises `DecodeError` for a wrong type or range."""
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
        return None if field.null_is_null else field.default
    read = field.read(name, value)
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


def _record(fields: Mapping[str, Field]) -> Reader:
    """Return a reader of objects that have these fields."""

    def read(name: str, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _bad(f"{name} is no object")
        return {key: checked(key, part, value) for key, part in fields.items()}

    return read


def _list_of(read: Reader) -> Reader:
    """Return a reader of lists of what `read` reads."""

    def read_all(name: str, value: object) -> list[Any]:
        if not isinstance(value, list):
            raise _bad(f"{name} is no list")
        if len(value) > MAX_TOPICS:
            raise DecodeError(Reason.TOO_MANY_TOPICS, f"{name}: {len(value)} items, at most {MAX_TOPICS}")
        return [read(name, item) for item in value]

    return read_all


def _header_fields(name: str, value: object) -> str:
    text = canonical_json(value) if isinstance(value, dict) else _text(name, value)
    return canonical_json(dict(header_fields_of(text)))


def _queue_ids(name: str, value: object) -> str:
    text = canonical_json(value) if isinstance(value, dict) else _text(name, value)
    try:
        return canonical_json({str(key): queue for key, queue in queue_ids_of(text).items()})
    except ValueError as error:
        raise _bad(f"{name} is no JSON object of queue ids") from error


def _bad(detail: str) -> DecodeError:
    return DecodeError(Reason.BAD_LINE, detail)


_INT: Final = _number(*INT, "int")
_LONG: Final = _number(*LONG, "long")
_POSITION: Final = _number(0, END_NS - 1, "position in ns since the epoch")
_MILLISECONDS: Final = _number(0, END_NS // 1_000_000, "number of milliseconds")


def _fields(**fields: Field | Reader) -> dict[str, Field]:
    return {name: field if isinstance(field, Field) else Field(name, field) for name, field in fields.items()}


def _request(code: object, **fields: Field | Reader) -> dict[str, Field]:
    return _fields(
        code=Field("code", _INT, code),
        one_way=Field("one_way", _boolean, False),
        request_version=Field("request_version", _INT, 0),
        response_code=_INT,
        response_remark=_text,
        response_fields=_header_fields,
        response_body=_text,
        **fields,
    )


_BROKER: Final[dict[str, Field | Reader]] = {
    "cluster_name": _string,
    "broker_name": _string,
    "broker_addr": _string,
    "broker_id": _LONG,
}

NAMESRV_KINDS: Final = frozenset(
    {
        *("started", "stopped", "observed_from", "identified", "configured", "idle_limit_outlasted", "recording_gap"),
        *("min_broker_id_notified", "clock_went_back", "address_started", "address_stopped", "address_observed_from"),
        *("address_recording_gap", "logged"),
    }
)

COMMON: Final = _fields(
    namesrv_id=Field("namesrv_id", _string, REQUIRED),
    namesrv_addr=_string,
    time=Field("event_time", _string, REQUIRED),
    effect_time=_string,
    seq=_POSITION,
    event_id=_string,
    channel_id=_string,
    proxied_addr=_string,
)

_DATA_VERSION: Final = _fields(
    state_version=Field("state_version", _LONG, 0), timestamp=Field("timestamp", _LONG, REQUIRED), counter=_LONG
)
_NUMBERS: Final = _fields(
    read_queue_nums=Field("read_queue_nums", _INT, REQUIRED),
    write_queue_nums=Field("write_queue_nums", _INT, REQUIRED),
    perm=Field("perm", _INT, REQUIRED),
    topic_sys_flag=Field("topic_sys_flag", _INT, 0),
)
_QUEUE_DATA: Final = _fields(broker_name=_string, **_NUMBERS)
_TOPIC: Final = _fields(topic=Field("topic", _string, REQUIRED), **_NUMBERS)
_MAPPING: Final = _fields(
    topic=Field("topic", _string, REQUIRED),
    bname=_string,
    total_queues=Field("total_queues", _INT, REQUIRED),
    epoch=Field("epoch", _LONG, 0),
    dirty=Field("dirty", _boolean, False),
    scope=_string,
    curr_id_map=_queue_ids,
)

KINDS: Final[dict[str, Kind]] = {
    "heartbeat": Kind(
        "heartbeats", _request(REQUIRED, **_BROKER, data_version=_record(_DATA_VERSION), nth=Field("nth", _INT, 0))
    ),
    "registration": Kind(
        "registrations",
        _request(
            103,
            **_BROKER,
            ha_server_addr=_string,
            enable_acting_master=_boolean,
            heartbeat_timeout_ms=_LONG,
            zone_name=_string,
            data_version=_record(_DATA_VERSION),
            filter_servers=Field("filter_servers", _list_of(_string), (), null_is_null=True),
            compressed=Field("compressed", _boolean, False),
            body_bytes=Field("body_bytes", _LONG, 0),
            refusal=_string,
            topics=_list_of(_record(_TOPIC)),
            mappings=_list_of(_record(_MAPPING)),
        ),
    ),
    "unregistration": Kind("unregistrations", _request(104, **_BROKER)),
    "channel": Kind(
        "channel_events",
        _fields(
            event=Field("kind", _string, REQUIRED, frozenset({"close", "exception", "idle", "late_close"})),
            closed_by=Field("closed_by", _string, "client", frozenset({"client", "namesrv", "timer"})),
            remote_addr=_string,
            silent_ms=_MILLISECONDS,
            pending_requests=Field("pending_requests", _INT, 0),
        ),
    ),
    "admin": Kind(
        "admin_events",
        _request(
            REQUIRED,
            operation=_string,
            broker_name=_string,
            cluster_name=_string,
            topic=_string,
            queue_datas=_list_of(_record(_QUEUE_DATA)),
            namespace=_string,
            config_key=_string,
            config_value=_text,
        ),
    ),
    "namesrv": Kind(
        "namesrv_events",
        _fields(
            event=Field("kind", _string, REQUIRED, NAMESRV_KINDS),
            version=_INT,
            evidence=Field("evidence", _string, "event log"),
            properties=_text,
        ),
    ),
    "observation": Kind(
        "route_observations",
        _fields(
            code=Field("code", _INT, REQUIRED),
            subject=_string,
            scope=_string,
            request_seq=_POSITION,
            standard_json=Field("standard_json", _boolean, False),
            request_version=Field("request_version", _INT, 0),
            language=_string,
            response_code=Field("response_code", _INT, 0),
            response_version=Field("response_version", _INT, 0),
            remark=_text,
            response_fields=_header_fields,
            body=_text,
            nth=Field("nth", _INT, 0),
        ),
    ),
}
